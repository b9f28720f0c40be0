/* test_pauses.c - which jobs a pause matches, and how a group is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/pauses.h"

static struct kiln_error err;

static const struct kiln_policy_job job = {.id = 1,
                                           .batch_id = 12,
                                           .model = "",
                                           .lora_set = "ink:0.8+mono:1",
                                           .tenant = "ann",
                                           .width = 1024,
                                           .height = 768,
                                           .steps = 8,
                                           .priority = -10};

static void groups_are_made_whole(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"1024x768", "1024x768/*/*"},
                                           {"1024x768/8", "1024x768/8/*"},
                                           {"1024x768/8/none", "1024x768/8/none"},
                                           {"*/*/ink:0.8+mono:1", "*/*/ink:0.8+mono:1"},
                                           {"*", "*/*/*"},
                                           {"turbo@512x512", "turbo@512x512/*/*"},
                                           {"@1024x768", "1024x768/*/*"},
                                           {"*/*/*/exact", "*/*/*/exact"},
                                           {"*/*/*/*", "*/*/*"},
                                           {"a@*/8/none/start@0.5", "a@*/8/none/start@0.5"},
                                           {"*/8/none/coarse=4+3@0.8", "*/8/none/coarse=4+3@0.8"}};
    static const char *const bad[] = {"",
                                      "1024",
                                      "1024x",
                                      "x768",
                                      "01024x768",
                                      "1x1/ ",
                                      "9999x768",
                                      "*/0",
                                      "*/51",
                                      "*/eight",
                                      "//",
                                      "1x1//ink",
                                      "1024x768/8/none/x",
                                      "1x1/8/none/coarse=9",
                                      "1x1/8/none/exact/x"};
    char name[KILN_PAUSE_NAME_MAX + 1];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (kiln_group_name(names[i][0], name, sizeof(name), &err))
            fail_msg("%s: %s", names[i][0], err.text);
        assert_string_equal(name, names[i][1]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (kiln_group_name(bad[i], name, sizeof(name), &err) != KILN_BAD_INPUT)
            fail_msg("'%s' was taken", bad[i]);
    kiln_group_of(&job, name, sizeof(name));
    assert_string_equal(name, "1024x768/8/ink:0.8+mono:1");
    assert_true(kiln_group_matches(name, &job));
}

static void a_group_means_its_jobs(void **state)
{
    (void)state;
    static const char *const mine[] = {"*",   "1024x768",           "1024x768/8",
                                       "*/8", "*/*/ink:0.8+mono:1", "@1024x768"};
    static const char *const others[] = {"768x1024", "*/9", "*/*/none", "*/*/ink:0.8", "turbo@*"};
    for (size_t i = 0; i < sizeof(mine) / sizeof(mine[0]); i++)
        if (!kiln_group_matches(mine[i], &job))
            fail_msg("%s does not mean the job", mine[i]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (kiln_group_matches(others[i], &job))
            fail_msg("%s means the job", others[i]);
    struct kiln_policy_job bare = job;
    bare.lora_set = "";
    assert_true(kiln_group_matches("*/*/none", &bare));
    assert_true(kiln_group_matches("*/*/none/exact", &bare));
    assert_false(kiln_group_matches("*/*/*/coarse=4+3", &bare));
    bare.mode = "coarse=4+3";
    assert_true(kiln_group_matches("*/*/none", &bare));
    assert_true(kiln_group_matches("*/*/*/coarse=4+3", &bare));
    assert_false(kiln_group_matches("*/*/*/exact", &bare));
    assert_false(kiln_group_matches("*/*/*/coarse=4+2", &bare));
    char name[KILN_PAUSE_NAME_MAX + 1];
    kiln_group_of(&bare, name, sizeof(name));
    assert_string_equal(name, "1024x768/8/none/coarse=4+3");
}

static void each_scope_means_its_own(void **state)
{
    (void)state;
    static const struct {
        struct kiln_pause pause;
        bool held;
    } cases[] = {{{.scope = KILN_SCOPE_ALL}, true},
                 {{.scope = KILN_SCOPE_BACKFILL}, true},
                 {{.scope = KILN_SCOPE_ONE_BACKFILL, .name = "o", .batch_id = 12}, true},
                 {{.scope = KILN_SCOPE_ONE_BACKFILL, .name = "o", .batch_id = 13}, false},
                 {{.scope = KILN_SCOPE_WINDOW, .name = "o", .batch_id = 0}, false},
                 {{.scope = KILN_SCOPE_TENANT, .name = "ann"}, true},
                 {{.scope = KILN_SCOPE_TENANT, .name = "an"}, false},
                 {{.scope = KILN_SCOPE_QUOTA, .name = "ann"}, true},
                 {{.scope = KILN_SCOPE_GROUP, .name = "*/8/*"}, true},
                 {{.scope = KILN_SCOPE_GROUP, .name = "*/9/*"}, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct kiln_pauses pauses = {0};
        struct kiln_pause pause = cases[i].pause;
        assert_int_equal(kiln_pauses_keep(&pauses, &pause, &err), 0);
        assert_int_equal(pauses.count, 0); /* lifted */
        pause.held = true;
        assert_int_equal(kiln_pauses_keep(&pauses, &pause, &err), 0);
        assert_int_equal(kiln_pauses_find(&pauses, &job) != NULL, cases[i].held);
        kiln_pauses_release(&pauses);
    }
    struct kiln_policy_job person = job;
    person.priority = -9;
    struct kiln_pauses pauses = {0};
    const struct kiln_pause backfill = {.scope = KILN_SCOPE_BACKFILL, .held = true};
    assert_int_equal(kiln_pauses_keep(&pauses, &backfill, &err), 0);
    assert_null(kiln_pauses_find(&pauses, &person));
    kiln_pauses_release(&pauses);
}

/* What the leader compares to find out whether something was let go. */
static void sets_of_holds_are_compared(void **state)
{
    (void)state;
    const struct kiln_pause pause[3] = {{.scope = KILN_SCOPE_TENANT, .name = "a", .held = true},
                                        {.scope = KILN_SCOPE_TENANT, .name = "b", .held = true},
                                        {.scope = KILN_SCOPE_QUOTA, .name = "a", .held = true}};
    struct kiln_pauses few = {0}, more = {0};
    for (int i = 0; i < 3; i++)
        assert_int_equal(kiln_pauses_keep(&more, &pause[i], &err), 0);
    assert_int_equal(kiln_pauses_keep(&few, &pause[2], &err), 0);
    assert_true(kiln_pauses_within(&few, &more) && !kiln_pauses_within(&more, &few));
    assert_false(kiln_pauses_equal(&few, &more));
    assert_true(kiln_pauses_equal(&more, &more));
    /* People's word is told before the scheduler's own. */
    struct kiln_policy_job a = job;
    a.tenant = "a";
    assert_int_equal(kiln_pauses_find(&more, &a)->scope, KILN_SCOPE_TENANT);
    kiln_pauses_release(&few);
    kiln_pauses_release(&more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_made_whole),
        cmocka_unit_test(a_group_means_its_jobs),
        cmocka_unit_test(each_scope_means_its_own),
        cmocka_unit_test(sets_of_holds_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
