/* test_ledger_read.c - what people ask the ledger, on a real Postgres. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/ledger/queue/quota.h"
#include "storage/ledger/read/read.h"
#include "tests/support/rig.h"

static const char pool[] = "p"; /* of kiln_test_insert */

static struct kiln_progress progress_of(const char *batch)
{
    struct kiln_progress progress;
    kiln_test_ok(kiln_ledger_progress(rig.ledger, pool, batch, &progress, &rig.err), rig.err);
    return progress;
}

static void a_batch_is_whole_when_its_calls_are_told(void **state)
{
    struct kiln_progress progress;
    uint64_t accepted, duplicate, refused;
    (void)state;
    assert_int_equal(kiln_ledger_progress(rig.ledger, pool, "whole", &progress, &rig.err),
                     KILN_NOT_FOUND);
    /* Between the batch's row and its first jobs: nothing to be done is not all done. */
    free(kiln_test_sql(rig.stack, "INSERT INTO batch (pool, name) VALUES ('p', 'whole')"));
    assert_false(progress_of("whole").whole);
    kiln_test_insert(rig.ledger, "whole", 3);
    assert_false(progress_of("whole").whole); /* its call has not said how many there are */
    kiln_test_ok(kiln_ledger_announce(rig.ledger, pool, "whole", "t", 4, &accepted, &duplicate,
                                      &refused, &rig.err),
                 rig.err);
    assert_false(progress_of("whole").whole); /* one is still to come */
    kiln_test_ok(kiln_ledger_refuse(rig.ledger, pool, "whole", "t", "k9", "no prompt", &rig.err),
                 rig.err);
    progress = progress_of("whole");
    assert_true(progress.whole);
    assert_int_equal(progress.announced, 4);
    assert_int_equal(progress.accepted, 3);
    assert_int_equal(progress.refused, 1);
    assert_int_equal(progress.jobs.at[KILN_JOB_QUEUED], 3);
}

static int one_refusal(void *arg, const char *key, const char *reason, struct kiln_error *err)
{
    (void)err;
    assert_string_equal(key, "k9");
    assert_string_equal(reason, "no prompt");
    ++*(int *)arg;
    return 0;
}

static void refusals_are_kept_with_the_batch(void **state)
{
    int seen = 0;
    (void)state;
    kiln_test_ok(kiln_ledger_refusals(rig.ledger, pool, "whole", one_refusal, &seen, &rig.err),
                 rig.err);
    assert_int_equal(seen, 1);
}

/* Keys say nothing of the order: those of a page come by their places, pages by their time. */
static void refusals_of_a_call_keep_the_order_of_the_stream(void **state)
{
    static const char *const keys[] = {"k7", "k2", "k9", "k1", "k5"};
    struct kiln_new_job jobs[5];
    struct kiln_refusal_ends ends;
    (void)state;
    for (int i = 0; i < 5; i++)
        jobs[i] = (struct kiln_new_job){.job.batch = (char *)"mixed", .key = keys[i], .token = "t"};
    kiln_test_ok(kiln_ledger_refuse_jobs(rig.ledger, pool, jobs, 3, "full", &rig.err), rig.err);
    kiln_test_ok(kiln_ledger_refuse_jobs(rig.ledger, pool, jobs + 3, 2, "full yet", &rig.err),
                 rig.err);
    kiln_test_ok(kiln_ledger_refuse(rig.ledger, pool, "mixed", "other", "k0", "bad", &rig.err),
                 rig.err);
    kiln_test_ok(kiln_ledger_refusal_ends(rig.ledger, pool, "mixed", "t", &ends, &rig.err),
                 rig.err);
    assert_string_equal(ends.first_key, "k7");
    assert_string_equal(ends.reason, "full");
    assert_string_equal(ends.last_key, "k5");
    kiln_test_ok(kiln_ledger_refusal_ends(rig.ledger, pool, "mixed", "x", &ends, &rig.err),
                 rig.err);
    assert_string_equal(ends.first_key, "");
}

struct listing {
    uint64_t ids[16];
    size_t count, objects, stop_after;
};

static int add_row(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    struct listing *listing = arg;
    listing->ids[listing->count++ % 16] = row->job.id;
    listing->objects += row->object_count;
    if (row->object_count) { /* pictures by falling width, the latent last */
        assert_string_equal(row->objects[0].role, "full");
        assert_string_equal(row->objects[row->object_count - 1].role, "latent");
    }
    return listing->stop_after && listing->count == listing->stop_after
               ? kiln_fail(err, KILN_CANCELLED, "enough")
               : 0;
}

static void lists_filter_and_stop(void **state)
{
    struct kiln_job jobs[4];
    struct listing all = {0}, done = {0}, first = {.stop_after = 2}, results = {0};
    (void)state;
    size_t count = kiln_rig_assigned("list", 4, jobs);
    assert_true(kiln_rig_commit(&jobs[2]));
    kiln_test_ok(kiln_ledger_jobs(rig.ledger, pool, "list", -1, add_row, &all, &rig.err), rig.err);
    assert_int_equal(all.count, 4);
    assert_int_equal(all.objects, 0);
    kiln_test_ok(
        kiln_ledger_jobs(rig.ledger, pool, "list", KILN_JOB_DONE, add_row, &done, &rig.err),
        rig.err);
    assert_int_equal(done.count, 1);
    assert_int_equal(done.ids[0], jobs[2].id);
    assert_int_equal(kiln_ledger_jobs(rig.ledger, pool, NULL, -1, add_row, &first, &rig.err),
                     KILN_CANCELLED);
    assert_int_equal(first.count, 2);
    kiln_test_ok(kiln_ledger_results(rig.ledger, pool, "list", add_row, &results, &rig.err),
                 rig.err);
    assert_int_equal(results.count, 4);
    assert_int_equal(results.objects, 4);
    assert_int_equal(kiln_ledger_jobs(rig.ledger, pool, "absent", -1, add_row, &all, &rig.err),
                     KILN_NOT_FOUND);
    assert_int_equal(kiln_ledger_job(rig.ledger, pool, 999999, add_row, &all, &rig.err),
                     KILN_NOT_FOUND);
    assert_int_equal(kiln_ledger_job(rig.ledger, "other", jobs[2].id, add_row, &all, &rig.err),
                     KILN_NOT_FOUND);
    kiln_rig_release(jobs, count);
}

static int add_move(void *arg, const struct kiln_move_row *move, struct kiln_error *err)
{
    int *seen = arg;
    (void)err;
    assert_int_equal(move->state, *seen == 0 ? KILN_JOB_ASSIGNED : KILN_JOB_DONE);
    assert_true(move->at_ms > 0);
    ++*seen;
    return 0;
}

static void a_job_has_its_story(void **state)
{
    struct kiln_job job;
    struct kiln_made made;
    int moves = 0;
    (void)state;
    kiln_rig_assigned("story", 1, &job);
    kiln_test_ok(kiln_ledger_made(rig.ledger, job.id, &made, &rig.err), rig.err);
    assert_false(made.image || made.latent);
    assert_true(kiln_rig_commit(&job));
    kiln_test_ok(kiln_ledger_made(rig.ledger, job.id, &made, &rig.err), rig.err);
    assert_true(made.image && made.latent);
    assert_true(made.shape[0] && made.encoding[0] && made.model_hash[0]);
    kiln_test_ok(kiln_ledger_moves(rig.ledger, job.id, add_move, &moves, &rig.err), rig.err);
    assert_int_equal(moves, 2);
    kiln_rig_release(&job, 1);
}

static int add_group(void *arg, const struct kiln_group_row *group, struct kiln_error *err)
{
    uint64_t *sums = arg;
    (void)err;
    sums[0] += group->queued;
    sums[1] += group->assigned;
    return 0;
}

static void groups_add_up_to_the_counts(void **state)
{
    struct kiln_counts counts;
    uint64_t sums[2] = {0, 0}, all = 0, group = 0;
    struct listing queued = {0};
    (void)state;
    kiln_test_insert(rig.ledger, "line", 5);
    kiln_test_ok(kiln_ledger_counts(rig.ledger, pool, &counts, &rig.err), rig.err);
    kiln_test_ok(kiln_ledger_groups(rig.ledger, pool, add_group, sums, &rig.err), rig.err);
    assert_int_equal(sums[0], counts.at[KILN_JOB_QUEUED]);
    assert_int_equal(sums[1], counts.at[KILN_JOB_ASSIGNED]);
    kiln_test_ok(kiln_ledger_jobs(rig.ledger, pool, "line", -1, add_row, &queued, &rig.err),
                 rig.err);
    kiln_test_ok(kiln_ledger_ahead(rig.ledger, pool, queued.ids[4], &all, &group, &rig.err),
                 rig.err);
    assert_int_equal(all, counts.at[KILN_JOB_QUEUED] - 1);
    assert_int_equal(group, all); /* they are all alike */
}

static int add_sort(void *arg, const struct kiln_waiting_row *sort, struct kiln_error *err)
{
    struct kiln_waiting_row *sorts = arg;
    (void)err;
    sorts[sorts[0].batch_id ? 1 : 0] = *sort;
    return 0;
}

static void what_waits_of_a_batch_is_told_by_its_sorts(void **state)
{
    struct kiln_waiting_row sorts[3];
    (void)state;
    kiln_test_insert(rig.ledger, "sorts", 4);
    for (int first = 0; first < 2; first++) {
        memset(sorts, 0, sizeof sorts);
        kiln_test_ok(kiln_ledger_waiting_sorts(rig.ledger, pool, "sorts", first, add_sort, sorts,
                                               &rig.err),
                     rig.err);
        assert_true(sorts[0].batch_id > 0 && sorts[0].width > 0 && sorts[0].steps > 0);
        assert_int_equal(sorts[1].batch_id, 0); /* four jobs alike */
        memset(sorts, 0, sizeof sorts);
        kiln_test_ok(kiln_ledger_waiting_sorts(rig.ledger, pool, "absent", first, add_sort, sorts,
                                               &rig.err),
                     rig.err);
        assert_int_equal(sorts[0].batch_id, 0);
    }
}

static void the_leader_is_seen_by_others(void **state)
{
    struct kiln_ledger *other = NULL;
    bool led = true, leader = false;
    char version[64];
    int64_t now_ms = 0;
    (void)state;
    kiln_test_ok(kiln_ledger_led(rig.ledger, pool, &led, &rig.err), rig.err);
    assert_false(led);
    kiln_test_ok(kiln_ledger_open(rig.stack->config, "other", &other, &rig.err), rig.err);
    kiln_test_ok(kiln_ledger_lead(other, pool, &leader, &rig.err), rig.err);
    assert_true(leader);
    kiln_test_ok(kiln_ledger_led(rig.ledger, pool, &led, &rig.err), rig.err);
    assert_true(led);
    kiln_test_ok(kiln_ledger_led(rig.ledger, "elsewhere", &led, &rig.err), rig.err);
    assert_false(led);
    kiln_ledger_close(other);
    kiln_test_ok(kiln_ledger_clock(rig.ledger, &now_ms, version, sizeof version, &rig.err),
                 rig.err);
    assert_true(now_ms > 1700000000000 && version[0] >= '1');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_is_whole_when_its_calls_are_told),
        cmocka_unit_test(refusals_are_kept_with_the_batch),
        cmocka_unit_test(refusals_of_a_call_keep_the_order_of_the_stream),
        cmocka_unit_test(lists_filter_and_stop),
        cmocka_unit_test(a_job_has_its_story),
        cmocka_unit_test(groups_add_up_to_the_counts),
        cmocka_unit_test(what_waits_of_a_batch_is_told_by_its_sorts),
        cmocka_unit_test(the_leader_is_seen_by_others),
    };
    return cmocka_run_group_tests(tests, kiln_rig_start, kiln_rig_stop);
}
