/* test_mode.c - the texts of modes, strengths, and what a mode costs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/job/mode.h"

/* A text is read and written back as it was. */
static void check_whole(const char *text, enum kiln_mode_kind kind)
{
    struct kiln_mode mode;
    char again[KILN_MODE_MAX];
    assert_true(kiln_mode_parse(text, &mode));
    assert_true(mode.kind == kind);
    assert_true(kiln_mode_text(&mode, again) == strlen(text));
    assert_string_equal(again, text);
    assert_true(mode.masked == (strncmp(text, "inpaint", 7) == 0));
    const bool started = strncmp(text, "start", 5) == 0 || strncmp(text, "teleport", 8) == 0;
    assert_true(kiln_mode_starts(&mode) == (mode.masked || mode.edited || started));
}

static void texts_are_read_and_written_as_they_were(void **state)
{
    (void)state;
    check_whole("", KILN_MODE_EXACT);
    check_whole("coarse=auto", KILN_MODE_COARSE_AUTO);
    check_whole("coarse=4+3", KILN_MODE_COARSE);
    check_whole("coarse=50+50@0.0001", KILN_MODE_COARSE);
    check_whole("coarse=3+1+3", KILN_MODE_COARSE);
    check_whole("coarse=3+1+2@0.8,variety=0.3", KILN_MODE_COARSE);
    check_whole("coarse=50+50+50@0.1234,variety=0.1234", KILN_MODE_COARSE);
    check_whole("start=0", KILN_MODE_START_STEP);
    check_whole("start=49", KILN_MODE_START_STEP);
    check_whole("start@0.5", KILN_MODE_START_SIGMA);
    check_whole("start@1", KILN_MODE_START_SIGMA);
    check_whole("edit=3", KILN_MODE_START_STEP);
    check_whole("edit@0.5", KILN_MODE_START_SIGMA);
    check_whole("inpaint=0", KILN_MODE_START_STEP);
    check_whole("inpaint=49", KILN_MODE_START_STEP);
    check_whole("inpaint@0.5", KILN_MODE_START_SIGMA);
    check_whole("inpaint@1", KILN_MODE_START_SIGMA);
    check_whole("teleport=1", KILN_MODE_START_STEP);
    check_whole("teleport=49", KILN_MODE_START_STEP);
    check_whole("teleport=2,lerp=2", KILN_MODE_START_STEP);
    check_whole("teleport=2,slerp=5", KILN_MODE_START_STEP);
    check_whole("teleport=12,tree=3", KILN_MODE_START_STEP);
    check_whole("coarse=4+2,teleport=1", KILN_MODE_COARSE);
    check_whole("coarse=4+2@0.8,teleport=3,slerp=5", KILN_MODE_COARSE);
    check_whole("coarse=3+1+3,teleport=2", KILN_MODE_COARSE);
    check_whole("variety=0.3", KILN_MODE_EXACT);
    check_whole("variety=1", KILN_MODE_EXACT);
    check_whole("coarse=auto,variety=0.0001", KILN_MODE_COARSE_AUTO);
    check_whole("coarse=50+50@0.1234,variety=0.1234", KILN_MODE_COARSE);
    check_whole("start=49,variety=0.25", KILN_MODE_START_STEP);
    check_whole("start@0.1234,variety=0.9999", KILN_MODE_START_SIGMA);
}

static void variety_is_rounded_and_needs_a_worker_that_knows_it(void **state)
{
    (void)state;
    struct kiln_mode mode = {.kind = KILN_MODE_EXACT};
    double variety;
    assert_true(kiln_mode_variety(0.12347, &variety) && variety == 0.1235);
    assert_true(kiln_mode_variety(0, &variety) && variety == 0);
    assert_false(kiln_mode_variety(-0.1, &variety));
    assert_false(kiln_mode_variety(1.0001, &variety));
    assert_false(kiln_mode_variety(NAN, &variety));
    assert_int_equal(kiln_mode_minor(&mode), 0);
    mode.kind = KILN_MODE_COARSE_AUTO;
    assert_int_equal(kiln_mode_minor(&mode), 0);
    mode.kind = KILN_MODE_START_STEP;
    assert_int_equal(kiln_mode_minor(&mode), KILN_MODE_MINOR_STARTS);
    mode.variety = 0.1;
    assert_int_equal(kiln_mode_minor(&mode), KILN_MODE_MINOR_VARIETY);
    assert_true(kiln_mode_parse("coarse=4+3", &mode));
    assert_int_equal(kiln_mode_minor(&mode), KILN_MODE_MINOR_STARTS);
    assert_true(kiln_mode_parse("coarse=3+1+3,variety=0.3", &mode));
    assert_int_equal(kiln_mode_minor(&mode), KILN_MODE_MINOR_MIDDLE);
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "exact",
        "coarse",
        "coarse=",
        "coarse=off",
        "coarse=4",
        "coarse=4+",
        "coarse=+3",
        "coarse=0+3",
        "coarse=4+0",
        "coarse=51+3",
        "coarse=04+3",
        "coarse=4+3 ",
        "coarse=4+3@",
        "coarse=4+3@1",
        "coarse=4+3@0",
        "coarse=4+3@.8",
        "coarse=4+3@0.75",
        "coarse=4+3@0.80",
        "coarse=4+-3",
        "coarse=3+1+",
        "coarse=3+0+3",
        "coarse=3+1+0",
        "coarse=3++3",
        "coarse=3+1+51",
        "coarse=3+01+3",
        "coarse=3+1+3+1",
        "coarse=3+1+3@0.75",
        "coarse=+3+1+3",
        "coarse=4+3@nan",
        "start",
        "start=",
        "start=50",
        "start=-1",
        "start=1.0",
        "start@",
        "start@0",
        "start@1.1",
        "start@0.00001",
        "start@5e-1",
        "start@0.5.5",
        "Coarse=4+3",
        "coarse=400+3",
        "variety",
        "variety=",
        "variety=0",
        "variety=1.1",
        "variety=0.30",
        ",variety=0.3",
        "start=3variety=0.3",
        "start=3,",
        "variety=0.3,",
        "variety=0.3,start=3",
        "variety=0.3,variety=0.3",
        "start=3,,variety=0.3",
    };
    static const char *const masked[] = {
        "inpaint",
        "inpaint=",
        "inpaint=50",
        "inpaint@",
        "inpaint@0",
        "teleport=2,lerp=1",
        "teleport=2,lerp=6",
        "teleport=2,single=2",
        "teleport=2,near=2",
        "teleport=2,",
        "start=2,lerp=2",
        "teleport=2,lerp=2,tree=2",
        "inpaint@0.50",
        "inpain=1",
        "inpaints=1",
        "teleport=0",
        "coarse=4+2,teleport=0",
        "coarse=4+2,teleport=4",
        "coarse=4+2,teleport=1,single=2",
        "coarse=4+2,teleport=1@0.8",
        "coarse=4+2,start=1",
        "coarse=4+2,",
        "coarse=auto,teleport=1",
        "teleport@0.5",
        "inpaint 5",
        "=1",
        "@0.5",
        "start=1@0.5",
    };
    struct kiln_mode mode;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (kiln_mode_parse(bad[i], &mode))
            fail_msg("\"%s\" was taken", bad[i]);
    for (size_t i = 0; i < sizeof masked / sizeof *masked; i++)
        if (kiln_mode_parse(masked[i], &mode))
            fail_msg("\"%s\" was taken", masked[i]);
}

static void a_job_says_off_auto_or_steps(void **state)
{
    (void)state;
    struct kiln_mode mode;
    assert_true(kiln_mode_parse_coarse("off", &mode) && mode.kind == KILN_MODE_EXACT);
    assert_true(kiln_mode_parse_coarse("auto", &mode) && mode.kind == KILN_MODE_COARSE_AUTO);
    assert_true(kiln_mode_parse_coarse("4+2", &mode) && mode.kind == KILN_MODE_COARSE);
    assert_true(mode.small == 4 && mode.middle == 0 && mode.full == 2);
    assert_true(mode.sigma == KILN_COARSE_SIGMA);
    assert_true(kiln_mode_parse_coarse("3+1+2", &mode) && mode.kind == KILN_MODE_COARSE);
    assert_true(mode.small == 3 && mode.middle == 1 && mode.full == 2);
    assert_true(mode.sigma == KILN_COARSE_SIGMA);
    assert_true(!kiln_mode_parse_coarse("3+1+2+1", &mode));
    assert_true(!kiln_mode_parse_coarse("4+2@0.8", &mode));
    assert_true(!kiln_mode_parse_coarse("", &mode));
    assert_true(!kiln_mode_parse_coarse("on", &mode));
}

/* Steps at which diffusers' get_timesteps starts: int(max(n - min(n * s, n), 0)). */
static void a_strength_starts_where_diffusers_does(void **state)
{
    (void)state;
    static const struct {
        double strength;
        uint32_t steps, first;
    } rows[] = {{1, 8, 0},    {0.6, 8, 3}, {0.5, 8, 4}, {0.3, 8, 5},
                {0.01, 8, 7}, {0.6, 5, 2}, {1, 1, 0}};
    struct kiln_mode mode;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(kiln_mode_of_strength(rows[i].strength, rows[i].steps, &mode));
        assert_int_equal(mode.step, rows[i].first);
    }
    assert_true(!kiln_mode_of_strength(0, 8, &mode));
    assert_true(!kiln_mode_of_strength(1.01, 8, &mode));
    assert_true(!kiln_mode_of_strength(-1, 8, &mode));
    assert_true(!kiln_mode_of_strength(NAN, 8, &mode));
    assert_true(!kiln_mode_of_strength(1e-18, 8, &mode)); /* 8 - 8e-18 is 8: no step is left */
}

static double forwards(const char *text, uint32_t steps)
{
    struct kiln_mode mode;
    assert_true(kiln_mode_parse(text, &mode));
    return kiln_mode_forwards(&mode, steps);
}

static void forwards_that_a_mode_costs(void **state)
{
    (void)state;
    assert_true(forwards("", 8) == 8);
    assert_true(forwards("coarse=auto", 8) == 8);
    assert_true(forwards("coarse=4+3", 8) == 4);
    assert_true(forwards("coarse=3+1+3", 8) == 3.4375);
    assert_true(forwards("coarse=2+2+3", 8) == 3.625);
    assert_true(forwards("start=5", 8) == 3);
    assert_true(forwards("start=9", 8) == 1);
    assert_true(forwards("edit=3", 8) == 7); /* two before its steps */
    assert_true(forwards("edit=9", 8) == 3);
    assert_true(forwards("edit@0.5", 8) == 4);
    assert_true(forwards("start@0.5", 8) == 2);    /* .5 and .3 of the ladder */
    assert_true(forwards("start@0.6429", 8) == 3); /* .64286 rounded */
    assert_true(forwards("start@1", 8) == 8);
    assert_true(forwards("start@0.0001", 8) == 1);
    assert_true(forwards("inpaint=5", 8) == 3);
    assert_true(forwards("inpaint@0.5", 8) == 2);
}

/* Of each first step of a run: small ones first, then those of the middle size. */
static void forwards_of_a_run_that_has_begun(void **state)
{
    (void)state;
    static const double two[] = {0, 0.25, 0.5, 1.5, 2.5};
    static const double three[] = {0, 0.0625, 0.125, 0.375, 1.375, 2.375};
    struct kiln_mode mode;
    assert_true(kiln_mode_parse("coarse=2+2", &mode));
    for (uint32_t i = 0; i < sizeof two / sizeof *two; i++)
        assert_true(kiln_mode_begun_forwards(&mode, i) == two[i]);
    assert_true(kiln_mode_parse("coarse=2+1+2", &mode));
    for (uint32_t i = 0; i < sizeof three / sizeof *three; i++)
        assert_true(kiln_mode_begun_forwards(&mode, i) == three[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_read_and_written_as_they_were),
        cmocka_unit_test(variety_is_rounded_and_needs_a_worker_that_knows_it),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(a_job_says_off_auto_or_steps),
        cmocka_unit_test(a_strength_starts_where_diffusers_does),
        cmocka_unit_test(forwards_that_a_mode_costs),
        cmocka_unit_test(forwards_of_a_run_that_has_begun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
