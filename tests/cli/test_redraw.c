/* test_redraw.c - where a redraw begins, and the job line that is made from a finished job. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/cli/jobs/redraw/alike.h"
#include "scheduler/cli/jobs/redraw/donor.h"
#include "schemas/job/line.h"

/* --- likeness --------------------------------------------------------------------------------- */

/* The table as measured, in percent of the variety of full runs (alike.h says with what). */
static const double measured[KILN_ALIKE_STEPS][2] = {
    {100, 100}, {69, 53}, {39, 24}, {24, 16}, {18, 11}, {13, 8}, {9, 6}, {6, 3},
};

static void the_table_is_the_measured_one(void **state)
{
    (void)state;
    for (int skip = 0; skip < KILN_ALIKE_STEPS; skip++) {
        assert_true(kiln_alike_variety(skip, 256, 256) == measured[skip][0]);
        assert_true(kiln_alike_variety(skip, 512, 512) == measured[skip][1]);
        assert_true(kiln_alike_variety(skip, 64, 64) == measured[skip][0]);
        assert_true(kiln_alike_variety(skip, 2048, 1024) == measured[skip][1]);
        const double middle = kiln_alike_variety(skip, 362, 362); /* half an octave */
        assert_true(fabs(middle - (measured[skip][0] + measured[skip][1]) / 2) < 0.1);
        assert_int_equal(kiln_alike_skip(100 - measured[skip][0], 256, 256), skip);
        assert_int_equal(kiln_alike_skip(100 - measured[skip][1], 512, 512), skip);
    }
}

static void more_alike_never_skips_fewer_steps(void **state)
{
    (void)state;
    static const uint32_t sides[] = {64, 256, 320, 512, 1024, 2048};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        int before = 0;
        for (double alike = 0; alike <= 100; alike += 0.25) {
            const int skip = kiln_alike_skip(alike, sides[i], sides[i]);
            assert_in_range(skip, before, before + 1);
            before = skip;
        }
        assert_int_equal(kiln_alike_skip(0, sides[i], sides[i]), 0);
        assert_int_equal(before, KILN_ALIKE_STEPS - 1);
    }
}

/* --- depth ------------------------------------------------------------------------------------ */

static void every_wish_has_a_depth(void **state)
{
    (void)state;
    static const struct {
        struct kiln_depth_want want;
        uint32_t steps; /* of the donor, whose picture is of 512x512 */
        const char *mode;
        uint32_t schedule;
        double forwards;
    } rows[] = {
        {{.alike = -1, .enlarges = true}, 8, "start@0.75", 6, 3},
        {{.alike = -1, .enlarges = true}, 4, "start@0.75", 6, 3},
        {{.alike = -1, .enlarges = true, .run = 4}, 8, "start@0.75", 8, 4},
        {{.alike = -1, .enlarges = true, .run = 1}, 8, "start@0.75", 2, 1},
        {{.alike = -1, .enlarges = true, .strength = 0.5}, 8, "start=4", 8, 4},
        {{.alike = -1, .enlarges = true, .strength = 0.5, .run = 3}, 8, "start=3", 6, 3},
        {{.alike = -1, .enlarges = true, .sigma = 0.5}, 8, "start@0.5", 8, 2},
        {{.alike = -1, .enlarges = true, .sigma = 0.5, .run = 5}, 8, "start@0.5", 20, 5},
        {{.alike = -1, .enlarges = true, .edits = true}, 8, "start=2", 8, 6},
        {{.alike = -1, .edits = true}, 8, "start=2", 8, 6},
        {{.alike = -1, .edits = true, .run = 3}, 8, "start=1", 4, 3},
        {{.alike = -1, .edits = true, .differs = true}, 8, "start=3", 8, 5},
        {{.alike = -1, .edits = true, .differs = true, .run = 3}, 8, "start=1", 4, 3},
        {{.alike = -1}, 8, "start=1", 8, 7},
        {{.alike = 0}, 8, "", 8, 8},
        {{.alike = 0, .run = 4}, 8, "", 4, 4},
        {{.alike = 33}, 8, "start=1", 8, 7},
        {{.alike = 84}, 8, "start=3", 8, 5},
        {{.alike = 84}, 16, "start=6", 16, 10},
        {{.alike = 84}, 6, "start@0.8333", 6, 4},
        {{.alike = 84, .run = 4}, 8, "start@0.8333", 6, 4},
        {{.alike = 100}, 8, "start=7", 8, 1},
        {{.alike = 100}, 1, "start@0.3", 1, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct kiln_job donor = {.steps = rows[i].steps, .width = 512, .height = 512};
        struct kiln_error err;
        struct kiln_mode mode;
        char text[KILN_MODE_MAX];
        uint32_t steps;
        assert_int_equal(kiln_depth(&rows[i].want, &donor, &mode, &steps, &err), 0);
        kiln_mode_text(&mode, text);
        if (strcmp(text, rows[i].mode) != 0 || steps != rows[i].schedule ||
            kiln_mode_forwards(&mode, steps) != rows[i].forwards)
            fail_msg("row %zu: %s of %u steps, %g forwards", i, text, steps,
                     kiln_mode_forwards(&mode, steps));
    }
}

/* --steps N runs N steps, whatever the depth, or is refused. */
static void as_many_steps_run_as_are_asked_for(void **state)
{
    (void)state;
    const struct kiln_job donor = {.steps = 8, .width = 512, .height = 512};
    struct kiln_error err;
    struct kiln_mode mode;
    uint32_t steps, refused = 0;
    for (uint32_t run = 1; run <= KILN_STEPS_MAX; run++)
        for (int depth = 1; depth <= 200; depth++) {
            const struct kiln_depth_want want = {.alike = depth > 100 ? depth - 100 : -1,
                                                 .strength = depth > 100 ? 0 : depth / 100.0,
                                                 .run = run};
            if (kiln_depth(&want, &donor, &mode, &steps, &err)) {
                assert_non_null(strstr(err.text, "the limit is 50"));
                refused++;
                continue;
            }
            assert_in_range(steps, run, KILN_STEPS_MAX);
            if (kiln_mode_forwards(&mode, steps) != run)
                fail_msg("run %u, depth %d: %g forwards", run, depth,
                         kiln_mode_forwards(&mode, steps));
        }
    assert_in_range(refused, 1, 50 * 200 - 1000);
    const struct kiln_depth_want none = {.alike = -1, .strength = 1e-17};
    assert_int_equal(kiln_depth(&none, &donor, &mode, &steps, &err), KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "leaves no step to run"));
}

/* --- sizes ------------------------------------------------------------------------------------ */

static void sizes_are_factors_or_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t from[2], to[2];
        const char *refused;
    } rows[] = {
        {"2x", {256, 256}, {512, 512}, NULL},
        {"1.5x", {256, 176}, {384, 272}, NULL}, /* 264 is not a multiple of 16 */
        {"4x", {512, 320}, {2048, 1280}, NULL},
        {"1x", {512, 320}, {512, 320}, NULL},
        {"768x512", {256, 256}, {768, 512}, NULL},
        {"1:1", {256, 256}, {1024, 1024}, NULL},
        {"4x", {528, 320}, {0, 0}, "4x of 528x320 is 2112x1280; a side has at most 2048 pixels"},
        {"4.1x", {256, 256}, {0, 0}, "enlarged from 1x to 4x"},
        {"0.5x", {256, 256}, {0, 0}, "enlarged from 1x to 4x"},
        {"0x", {256, 256}, {0, 0}, "enlarged from 1x to 4x"},
        {"nanx", {256, 256}, {0, 0}, "nanx"},
        {"1e9x", {256, 256}, {0, 0}, "1e9x"},
        {"-2x", {256, 256}, {0, 0}, "-2x"},
        {"2xx", {256, 256}, {0, 0}, "2xx"},
        {"x", {256, 256}, {0, 0}, "\"x\""},
        {"", {256, 256}, {0, 0}, ""},
        {"100x100", {64, 64}, {0, 0}, "100"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kiln_error err = {.code = 0};
        uint32_t width = 0, height = 0;
        int code = kiln_redraw_size(rows[i].text, 0, rows[i].from[0], rows[i].from[1], &width,
                                    &height, &err);
        assert_int_equal(code, rows[i].refused ? KILN_BAD_INPUT : 0);
        if (rows[i].refused ? !strstr(err.text, rows[i].refused)
                            : width != rows[i].to[0] || height != rows[i].to[1])
            fail_msg("%s: %ux%u, \"%s\"", rows[i].text, width, height, err.text);
    }
}

/* --- lines ------------------------------------------------------------------------------------ */

static struct kiln_job_row make_donor(void)
{
    static char prompt[] = "a {b} star", negative[] = "fog, blurry", tenant[] = "ann",
                batch[] = "b", model[] = "";
    struct kiln_job_row row = {.job = {.id = 17,
                                       .state = KILN_JOB_DONE,
                                       .batch = batch,
                                       .prompt = prompt,
                                       .negative_prompt = negative,
                                       .tenant = tenant,
                                       .model = model,
                                       .width = 256,
                                       .height = 320,
                                       .steps = 8,
                                       .seed = 100,
                                       .lora_count = 1,
                                       .priority = -10,
                                       .max_wait_s = 60,
                                       .kind = KILN_KIND_LATENT_CACHE,
                                       .latents = KILN_LATENTS_TRAJECTORY}};
    row.job.loras[0] = (struct kiln_lora){"ink", 0.8, ""};
    return row;
}

static struct kiln_latent_row make_latent(void)
{
    return (struct kiln_latent_row){.job = 17,
                                    .known = true,
                                    .key = "latents/m/17",
                                    .model_hash = "abc",
                                    .width = 256,
                                    .height = 320,
                                    .states = 1};
}

static void check_line(struct kiln_redraw_want want, const struct kiln_job_row *donor,
                       const char *expected)
{
    const struct kiln_latent_row latent = make_latent();
    struct kiln_text out = {0};
    struct kiln_error err;
    want.styles = kiln_styles_builtin();
    if (kiln_redraw_line(&want, donor, &latent, "abc", &out, &err))
        fail_msg("refused: %s", err.text);
    if (strcmp(out.at, expected) != 0)
        fail_msg("%s is not %s", out.at, expected);
    kiln_text_release(&out);
}

#define DONOR_TEXTS "{\"prompt\":\"a {b} star\",\"negative_prompt\":\"fog, blurry\","
#define DONOR_REST ",\"loras\":[{\"name\":\"ink\",\"scale\":0.8}],\"tenant\":\"ann\""

static void a_line_has_what_its_donor_had(void **state)
{
    (void)state;
    struct kiln_job_row donor = make_donor();
    check_line(
        (struct kiln_redraw_want){.size = "2x", .depth = {.enlarges = true, .alike = -1}}, &donor,
        DONOR_TEXTS "\"width\":512,\"height\":640,\"steps\":6" DONOR_REST
                    ",\"init_job\":17,\"start_sigma\":0.75,\"template\":false,\"seed\":100}\n");
    check_line((struct kiln_redraw_want){.count = 3, .depth = {.alike = -1}}, &donor,
               DONOR_TEXTS
               "\"width\":256,\"height\":320,\"steps\":8" DONOR_REST
               ",\"init_job\":17,\"strength\":0.7,\"template\":false,\"seed\":101,\"count\":3}\n");
    check_line((struct kiln_redraw_want){.count = 1, .depth = {.alike = 0}}, &donor,
               DONOR_TEXTS "\"width\":256,\"height\":320,\"steps\":8" DONOR_REST
                           ",\"parent\":17,\"template\":false,\"seed\":101}\n");
    check_line((struct kiln_redraw_want){.seed_set = true, .depth = {.edits = true, .alike = -1}},
               &donor,
               DONOR_TEXTS "\"width\":256,\"height\":320,\"steps\":8" DONOR_REST
                           ",\"init_job\":17,\"strength\":0.7,\"template\":false}\n");
    donor.job.seed = UINT64_MAX - 1; /* no seed is above the last one */
    check_line((struct kiln_redraw_want){.count = 2, .depth = {.alike = -1}}, &donor,
               DONOR_TEXTS
               "\"width\":256,\"height\":320,\"steps\":8" DONOR_REST
               ",\"init_job\":17,\"strength\":0.7,\"template\":false,\"seed\":18446744073709551612,"
               "\"count\":2}\n");
}

/* The words of the style come again with the new prompt, those of its negative prompt too. */
static void an_edit_keeps_the_style(void **state)
{
    (void)state;
    struct kiln_job_row donor = make_donor();
    const struct kiln_style *style = kiln_styles_find(kiln_styles_builtin(), "anime", 5);
    char negative[512];
    assert_non_null(style);
    snprintf(negative, sizeof negative, "fog, %s", style->negative);
    donor.job.style = style->name;
    donor.job.negative_prompt = negative;
    const struct kiln_redraw_want edit = {.reprompted = true,
                                          .depth = {.edits = true, .alike = -1}};
    check_line(edit, &donor,
               "{\"prompt\":\"\",\"negative_prompt\":\"fog\",\"width\":256,\"height\":320,"
               "\"steps\":8" DONOR_REST ",\"init_job\":17,\"strength\":0.7,\"style\":\"anime\","
               "\"seed\":100}\n");
    snprintf(negative, sizeof negative, "%s", style->negative);
    check_line(edit, &donor,
               "{\"prompt\":\"\",\"width\":256,\"height\":320,\"steps\":8" DONOR_REST
               ",\"init_job\":17,\"strength\":0.7,\"style\":\"anime\",\"seed\":100}\n");
    const struct kiln_redraw_want restyled = {
        .reprompted = true, .restyled = true, .depth = {.edits = true, .alike = -1}};
    check_line(restyled, &donor,
               "{\"prompt\":\"\",\"width\":256,\"height\":320,\"steps\":8" DONOR_REST
               ",\"init_job\":17,\"strength\":0.7,\"seed\":100}\n");
}

/* By difference only from an exact run, of the same size and with the same seed. */
static void edits_are_by_difference_where_that_is_sound(void **state)
{
    (void)state;
    struct kiln_job_row donor = make_donor();
    struct kiln_redraw_want edit = {.reprompted = true, .depth = {.edits = true, .alike = -1}};
    assert_false(kiln_redraw_differs(&edit, &donor)); /* how it was rendered is not known */
    donor.forwards = 8;
    assert_true(kiln_redraw_differs(&edit, &donor));
    check_line(edit, &donor,
               "{\"prompt\":\"\",\"negative_prompt\":\"fog, blurry\",\"width\":256,"
               "\"height\":320,\"steps\":8" DONOR_REST
               ",\"init_job\":17,\"edit\":true,\"seed\":100}\n");
    edit.size = "1x";
    assert_true(kiln_redraw_differs(&edit, &donor));
    edit.size = "2x";
    assert_false(kiln_redraw_differs(&edit, &donor));
    edit.size = NULL;
    edit.count = 1;
    assert_false(kiln_redraw_differs(&edit, &donor));
    edit.count = 0;
    edit.seed_set = true;
    assert_false(kiln_redraw_differs(&edit, &donor));
    edit.seed_set = false;
    edit.plain = true;
    assert_false(kiln_redraw_differs(&edit, &donor));
    edit.plain = false;
    edit.reprompted = false; /* other LoRAs, say: the prompts do not differ */
    assert_false(kiln_redraw_differs(&edit, &donor));
    edit.reprompted = true;
    snprintf(donor.rendered_mode, sizeof donor.rendered_mode, "coarse=4+3");
    assert_false(kiln_redraw_differs(&edit, &donor));
}

static void check_refused(struct kiln_redraw_want want, const struct kiln_job_row *donor,
                          const struct kiln_latent_row *latent, const char *hash, const char *says)
{
    struct kiln_text out = {0};
    struct kiln_error err = {.code = 0};
    want.styles = kiln_styles_builtin();
    assert_int_equal(kiln_redraw_line(&want, donor, latent, hash, &out, &err), KILN_BAD_INPUT);
    if (!strstr(err.text, says))
        fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    assert_int_equal(out.len, 0);
    kiln_text_release(&out);
}

static void what_cannot_be_redrawn_is_refused(void **state)
{
    (void)state;
    const struct kiln_redraw_want twice = {.size = "2x", .depth = {.enlarges = true, .alike = -1}};
    struct kiln_job_row donor = make_donor();
    struct kiln_latent_row latent = make_latent();
    check_refused(twice, &donor, &latent, "other", "other weights (abc) than the pool renders");
    donor.job.state = KILN_JOB_ASSIGNED;
    check_refused(twice, &donor, &latent, "", "it is assigned; only a finished job");
    donor.job.state = KILN_JOB_DONE;
    latent.sigma = 0.3;
    check_refused(twice, &donor, &latent, "", "its stored latent ends at sigma 0.3, unfinished");
    latent.sigma = 0;
    latent.key[0] = '\0';
    check_refused(twice, &donor, &latent, "", "its latent is no longer stored");
    donor.job.latents = KILN_LATENTS_NONE;
    check_refused(twice, &donor, &latent, "", "rendered with latents \"none\"");
    donor = make_donor();
    latent = make_latent();
    struct kiln_redraw_want want = twice;
    want.size = "1x";
    check_refused(want, &donor, &latent, "", "it has 256x320 already");
    want.size = "512x512";
    check_refused(want, &donor, &latent, "", "its latent is of 256x320, and --size asks for");
    want.size = "128x160";
    check_refused(want, &donor, &latent, "", "up to 4 times, and keeps its shape");
    static char unknown[] = "mine";
    donor.job.style = unknown;
    check_refused(
        (struct kiln_redraw_want){.reprompted = true, .depth = {.edits = true, .alike = -1}},
        &donor, &latent, "", "its style \"mine\" is not known here");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_the_measured_one),
        cmocka_unit_test(more_alike_never_skips_fewer_steps),
        cmocka_unit_test(every_wish_has_a_depth),
        cmocka_unit_test(as_many_steps_run_as_are_asked_for),
        cmocka_unit_test(sizes_are_factors_or_sizes),
        cmocka_unit_test(a_line_has_what_its_donor_had),
        cmocka_unit_test(an_edit_keeps_the_style),
        cmocka_unit_test(edits_are_by_difference_where_that_is_sound),
        cmocka_unit_test(what_cannot_be_redrawn_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
