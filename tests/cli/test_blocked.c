/* test_blocked.c - whether anybody draws a model, and why not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/cli/fleet/blocked.h"

enum { WORKERS = 3 };

struct fleet {
    struct kiln_roster_worker at[WORKERS];
    struct kiln_roster roster;
};

static void make(struct fleet *f)
{
    static const char *const models[WORKERS] = {"sketch", "photo", "photo"};
    memset(f, 0, sizeof *f);
    f->roster = (struct kiln_roster){.at = f->at, .count = WORKERS, .live = WORKERS};
    for (int i = 0; i < WORKERS; i++) {
        f->at[i].live = true;
        snprintf(f->at[i].beat.model, sizeof f->at[i].beat.model, "%s", models[i]);
    }
}

static void a_model_is_had_by_who_takes_jobs(void **state)
{
    struct fleet f;
    char text[512];
    (void)state;
    make(&f);
    assert_null(kiln_blocked_by_model(&f.roster, "photo"));
    assert_null(kiln_blocked_by_model(&f.roster, ""));
    assert_string_equal(kiln_blocked_by_model(&f.roster, "other"), "no live worker has");
    f.at[1].beat.draining = true;
    assert_null(kiln_blocked_by_model(&f.roster, "photo"));
    f.at[2].live = false;
    f.roster.live = 2;
    assert_string_equal(kiln_blocked_by_model(&f.roster, "photo"), "only draining workers have");
    assert_null(kiln_blocked_by_model(&f.roster, "sketch"));
    assert_null(kiln_blocked_by_model(&f.roster, NULL));
    assert_false(kiln_blocked_by_workers(&f.roster, "default", text, sizeof text));
    f.at[0].beat.draining = true;
    assert_true(kiln_blocked_by_workers(&f.roster, "default", text, sizeof text));
    assert_string_equal(text, "every live worker is draining");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_model_is_had_by_who_takes_jobs)};
    return cmocka_run_group_tests_name("blocked", tests, NULL, NULL);
}
