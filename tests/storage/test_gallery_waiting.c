/* test_gallery_waiting.c - how many pictures the index of words does not have yet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/ledger/gallery/follow.h"
#include "storage/ledger/gallery/gallery.h"
#include "storage/ledger/ledger.h"
#include "tests/support/gallery.h"
#include "tests/support/rig.h"

static struct kiln_ledger *session;
static struct kiln_follower *follower;

static int start(void **state)
{
    int rc = kiln_rig_start(state);
    if (rc == 0)
        rc = kiln_follower_open(rig.stack->config, "follower", &(struct kiln_follower_options){0},
                                &follower, &rig.err);
    return rc ? rc : kiln_ledger_open_reading(rig.stack->config, "gallery", 0, &session, &rig.err);
}

static int stop(void **state)
{
    kiln_follower_close(follower);
    kiln_ledger_close(session);
    return kiln_rig_stop(state);
}

static void settle(void)
{
    struct kiln_follower_progress progress = {.more = true};
    while (progress.more)
        kiln_test_ok(kiln_follower_step(follower, &progress, &rig.err), rig.err);
    assert_true(progress.complete && progress.writes);
}

static void run(const char *sql)
{
    free(kiln_test_sql(rig.stack, sql));
}

static uint64_t show(const char *pool, const char *prompt)
{
    return kiln_test_shown(rig.stack, &(struct kiln_test_shown){.pool = pool, .prompt = prompt});
}

static void expect_waiting(const char *pool, uint32_t expected)
{
    uint32_t waiting;
    kiln_test_ok(kiln_gallery_waiting(session, pool, &waiting, &rig.err), rig.err);
    assert_int_equal(waiting, expected);
}

static void new_pictures_are_counted_until_they_are_in_the_index(void **state)
{
    (void)state;
    expect_waiting("p", 0);
    show("p", "before any index");
    expect_waiting("p", 1);
    settle();
    expect_waiting("p", 0);
    show("p", "new");
    show("p", "newer");
    show("q", "of another pool");
    run("UPDATE image SET safety_flag = 2"); /* what has only changed is found */
    expect_waiting("p", 2);
    expect_waiting("q", 1);
    settle();
    expect_waiting("p", 0);
    expect_waiting("q", 0);
}

static void what_was_being_written_at_the_snapshot_is_counted(void **state)
{
    (void)state;
    const uint64_t job = show("p", "late");
    char sql[200];
    settle();
    snprintf(sql, sizeof sql, "DELETE FROM gallery_text WHERE job_id = %llu",
             (unsigned long long)job);
    run(sql);
    expect_waiting("p", 0);
    run("UPDATE gallery_state SET snapshot = (SELECT concat_ws(':', changed,"
        " pg_snapshot_xmax(pg_current_snapshot()), changed)::pg_snapshot"
        " FROM image WHERE prompt = 'late')");
    expect_waiting("p", 1);
    settle();
    expect_waiting("p", 0);
}

static void older_pictures_are_counted_while_the_index_is_made(void **state)
{
    (void)state;
    char sql[200];
    const uint64_t job = show("r", "first");
    show("r", "second");
    settle();
    run("DELETE FROM gallery_text");
    expect_waiting("r", 0);
    snprintf(sql, sizeof sql, "UPDATE gallery_state SET rebuilt = %llu",
             (unsigned long long)job + 1);
    run(sql);
    expect_waiting("r", 1);
    run("DELETE FROM gallery_state");
    expect_waiting("r", 2);
    kiln_test_many_shown(rig.stack);
    expect_waiting("p", KILN_GALLERY_WAITING_MAX + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_pictures_are_counted_until_they_are_in_the_index),
        cmocka_unit_test(what_was_being_written_at_the_snapshot_is_counted),
        cmocka_unit_test(older_pictures_are_counted_while_the_index_is_made),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
