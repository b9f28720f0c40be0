/* test_ledger_race.c - everybody moves the same jobs at once, each on a connection of his own.
 *
 * Threads assign, commit, return, cancel and retry whatever they meet among the jobs of two
 * batches, much of it out of turn, while the server drops connections at random.  Nothing may fail
 * in the end, and afterwards each done job has exactly one picture with the attempt it ended on, no
 * other job has any, and the batches' sums agree with the rows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <time.h>

#include "schemas/clock.h"
#include "tests/support/rig.h"

#define JOBS 300
#define THREADS 6
#define RUN_MS 2500

static int64_t end_ms;

struct actor {
    pthread_t thread;
    int number;
    uint64_t random;
    struct kiln_ledger *ledger;
    long long done, failures;
    struct kiln_error err; /* of the last failure */
};

static uint32_t below(struct actor *actor, uint32_t bound)
{
    actor->random = actor->random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(actor->random >> 33) % bound;
}

/* A step that others made moot is fine; one that failed is counted. */
static bool worked(struct actor *actor, int rc)
{
    actor->failures += rc != 0;
    return rc == 0;
}

/* What the worker does with a job: mostly commits it, sometimes twice or with an old attempt. */
static void work(struct actor *actor, struct kiln_job *job)
{
    struct kiln_test_picture picture;
    struct kiln_return back = {job->id, job->attempt, KILN_OK, "race", false, false};
    uint32_t dice = below(actor, 10);
    bool ours = false;
    int state;
    back.code = dice == 1 ? KILN_DEVICE : KILN_OK;
    if (dice == 2)
        job->attempt--;
    if (dice < 2) {
        (void)worked(actor, kiln_ledger_return(actor->ledger, &back, 1, &state, &actor->err));
        return;
    }
    kiln_test_picture(&picture, job);
    for (int i = 0; i < (dice == 3 ? 2 : 1); i++)
        if (worked(actor, kiln_ledger_commit(actor->ledger, &picture.commit, &ours, &actor->err)))
            actor->done += ours && i == 0;
}

static void assign_and_work(struct actor *actor)
{
    uint64_t ids[8];
    struct kiln_job jobs[8];
    char name[48];
    size_t count = 0;
    static _Atomic int serial;
    for (int i = 0; i < 8; i++)
        ids[i] = 1 + below(actor, JOBS);
    snprintf(name, sizeof name, "race-%d-%d", actor->number, ++serial);
    if (!worked(actor,
                kiln_ledger_assign(actor->ledger, "w", name, ids, 8, jobs, &count, &actor->err)))
        return;
    for (size_t i = 0; i < count; i++) {
        work(actor, &jobs[i]);
        kiln_job_release(&jobs[i]);
    }
}

static void *act(void *arg)
{
    struct actor *actor = arg;
    uint64_t moved;
    while (kiln_clock_ms() < end_ms) {
        uint32_t dice = below(actor, 40);
        const char *batch = dice % 2 ? "north" : "south";
        if (dice == 0 || dice == 1)
            (void)worked(actor, kiln_ledger_cancel(actor->ledger, "p", 1 + below(actor, JOBS), NULL,
                                                   &moved, &actor->err));
        else if (dice == 2)
            (void)worked(actor,
                         kiln_ledger_cancel(actor->ledger, "p", 0, batch, &moved, &actor->err));
        else if (dice < 8)
            (void)worked(actor,
                         kiln_ledger_retry(actor->ledger, "p", 0, batch, &moved, &actor->err));
        else
            assign_and_work(actor);
    }
    return NULL;
}

/* Meanwhile: now and then a connection is cut. */
static void cut_connections(void)
{
    while (kiln_clock_ms() < end_ms) {
        struct timespec pause = {.tv_nsec = 150 * 1000 * 1000};
        nanosleep(&pause, NULL);
        free(kiln_test_sql(rig.stack, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                                      " WHERE application_name LIKE 'racer%'"
                                      " ORDER BY random() LIMIT 1"));
    }
}

static void insert(void)
{
    kiln_test_insert(rig.ledger, "north", JOBS / 2);
    kiln_test_insert(rig.ledger, "south", JOBS / 2);
}

static void nothing_is_lost_or_done_twice(void **state)
{
    (void)state;
    static struct actor actors[THREADS];
    long long done = 0;
    insert();
    end_ms = kiln_clock_ms() + RUN_MS;
    for (int i = 0; i < THREADS; i++) {
        char name[16];
        actors[i].number = i;
        actors[i].random = (uint64_t)i + 1;
        snprintf(name, sizeof name, "racer%d", i);
        kiln_test_ok(kiln_ledger_open(rig.stack->config, name, &actors[i].ledger, &actors[i].err),
                     actors[i].err);
        assert_int_equal(pthread_create(&actors[i].thread, NULL, act, &actors[i]), 0);
    }
    cut_connections();
    for (int i = 0; i < THREADS; i++) {
        pthread_join(actors[i].thread, NULL);
        kiln_ledger_close(actors[i].ledger);
        if (actors[i].failures)
            fail_msg("%lld failures, the last: %s", actors[i].failures, actors[i].err.text);
        done += actors[i].done;
    }
    assert_true(done > 10);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM job WHERE state = 2"), done);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM image i JOIN job j"
                                                " ON j.id = i.job_id AND j.attempt = i.attempt"
                                                " WHERE j.state = 2"),
                     done);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM image"), done);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM object"), 4 * done);
}

static void the_sums_agree_with_the_rows(void **state)
{
    (void)state;
    static const char *const names[] = {"queued", "assigned", "done", "failed", "cancelled"};
    for (int i = 0; i < KILN_JOB_STATE_COUNT; i++)
        for (int south = 0; south < 2; south++) {
            const char *batch = south ? "south" : "north";
            char sql[160];
            snprintf(sql, sizeof sql,
                     "SELECT count(*) FROM job j JOIN batch b ON b.id = j.batch_id"
                     " WHERE b.name = '%s' AND j.state = %d",
                     batch, i);
            kiln_rig_expect(batch, names[i], i, kiln_test_count(rig.stack, sql));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_or_done_twice),
        cmocka_unit_test(the_sums_agree_with_the_rows),
    };
    return cmocka_run_group_tests(tests, kiln_rig_start, kiln_rig_stop);
}
