/* test_ledger_garbage.c - what may be thrown away, also while others are at work on the same jobs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <libpq-fe.h>
#include <pthread.h>

#include "storage/ledger/read/read.h"
#include "storage/ledger/upkeep/garbage.h"
#include "tests/support/rig.h"

static void keys_name_their_job(void **state)
{
    static const struct {
        const char *key;
        bool ours;
        uint64_t job;
    } rows[] = {
        {"images/2026/11/17/full-0123456789abcdef.webp", true, 17},
        {"images/2026/11/123456789012345678/256-ab.webp", true, 123456789012345678},
        {"latents/z-image.v2/2026/11/17-0123456789abcdef.safetensors.zst", true, 17},
        {"probe/0123456789abcdef", true, 0}, /* of earlier versions */
        {"images/2026/11/999999999999999999/probe-0123456789abcdef.webp", true, 0},
        {"", false, 0},
        {"images", false, 0},
        {"images/", false, 0},
        {"images/2026/11/17", false, 0},
        {"images/2026/11/17/", false, 0},
        {"images/2026/11/17/.webp", false, 0},
        {"images/2026/11/17/full-ab.png", false, 0},
        {"images/2026/11/17/more/full-ab.webp", false, 0},
        {"images/2026/11/017/full-ab.webp", false, 0},
        {"images/2026/11/-17/full-ab.webp", false, 0},
        {"images/2026/11/0/full-ab.webp", false, 0},
        {"images/2026/11/99999999999999999999/full-ab.webp", false, 0},
        {"images/2026//17/full-ab.webp", false, 0},
        {"images/2026/11/17/fu ll-ab.webp", false, 0},
        {"images/2026/11/17/full-\xc3\xa4.webp", false, 0},
        {"latents/2026/11/17-ab.safetensors.zst", false, 0},
        {"latents/m/2026/11/17.safetensors.zst", false, 0},
        {"latents/m/2026/11/x-ab.safetensors.zst", false, 0},
        {"probe/0123456789ABCDEF", false, 0},
        {"probe/0123456789abcdef/x", false, 0},
        {"other/2026/11/17/full-ab.webp", false, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t job = 99;
        if (kiln_found_job(rows[i].key, &job) != rows[i].ours ||
            (rows[i].ours && job != rows[i].job))
            fail_msg("%s is taken for job %llu", rows[i].key, (unsigned long long)job);
    }
}

/* The key of a job's orphan. */
static struct kiln_found orphan(uint64_t job)
{
    static char keys[16][64];
    static int used;
    char *key = keys[used++ % 16];
    snprintf(key, sizeof keys[0], "images/2026/11/%llu/lost-%d", (unsigned long long)job, used);
    return (struct kiln_found){key, job};
}

static enum kiln_claim claim_of(struct kiln_found object)
{
    enum kiln_claim claim = KILN_CLAIM_ROW;
    kiln_test_ok(kiln_ledger_claims(rig.ledger, &object, 1, &claim, &rig.err), rig.err);
    return claim;
}

struct seen {
    size_t at[16], count;
    struct kiln_ledger *other; /* tries to queue `job` again while it is held */
    uint64_t job, moved;
    int code;
};

static int see(void *arg, const size_t *at, size_t n, struct kiln_error *err)
{
    struct seen *seen = arg;
    struct kiln_error refused;
    (void)err;
    assert_true(seen->count == 0 && n <= sizeof seen->at / sizeof *seen->at); /* once */
    seen->count = n;
    memcpy(seen->at, at, n * sizeof *at);
    if (seen->other)
        seen->code = kiln_ledger_retry(seen->other, "p", seen->job, NULL, &seen->moved, &refused);
    return 0;
}

static struct seen unclaimed(const struct kiln_found *objects, size_t count)
{
    struct seen seen = {0};
    kiln_test_ok(kiln_ledger_with_unclaimed(rig.ledger, objects, count, see, &seen, &rig.err),
                 rig.err);
    return seen;
}

static void cancel(uint64_t job)
{
    uint64_t moved = 0;
    kiln_test_ok(kiln_ledger_cancel(rig.ledger, "p", job, NULL, &moved, &rig.err), rig.err);
    assert_int_equal(moved, 1);
}

static void only_what_nobody_can_commit_is_unclaimed(void **state)
{
    struct kiln_job jobs[4];
    struct kiln_test_picture picture;
    (void)state;
    assert_int_equal(kiln_rig_assigned("claims", 4, jobs), 4);
    kiln_test_picture(&picture, &jobs[0]);
    assert_true(kiln_rig_commit(&jobs[0]));                           /* done */
    kiln_rig_return(&jobs[1], (struct kiln_return){.code = KILN_OK}); /* queued */
    cancel(jobs[2].id);
    const struct kiln_found objects[] = {{picture.keys[0], jobs[0].id},
                                         orphan(jobs[0].id),
                                         orphan(jobs[1].id),
                                         orphan(jobs[2].id),
                                         orphan(jobs[3].id),
                                         orphan(1000000),
                                         {"probe/0123456789abcdef", 0}};
    enum kiln_claim claims[7];
    kiln_test_ok(kiln_ledger_claims(rig.ledger, objects, 7, claims, &rig.err), rig.err);
    const enum kiln_claim expected[7] = {KILN_CLAIM_ROW,  KILN_CLAIM_NONE, KILN_CLAIM_LIVE,
                                         KILN_CLAIM_NONE, KILN_CLAIM_LIVE, KILN_CLAIM_UNKNOWN,
                                         KILN_CLAIM_NONE};
    assert_memory_equal(claims, expected, sizeof expected);
    struct seen seen = unclaimed(objects, 7);
    assert_int_equal(seen.count, 4);
    assert_memory_equal(seen.at, ((size_t[]){1, 3, 5, 6}), 4 * sizeof(size_t));
    kiln_rig_release(jobs, 4);
}

/* Looked at while cancelled; before it would be removed the job was queued again, drawn, committed.
 */
static void a_commit_since_the_first_look_is_seen(void **state)
{
    struct kiln_job job;
    struct kiln_test_picture picture;
    uint64_t moved = 0, id;
    size_t count = 0;
    (void)state;
    kiln_rig_assigned("race", 1, &job);
    id = job.id;
    cancel(id);
    job.attempt++;
    kiln_test_picture(&picture, &job);
    struct kiln_found object = {picture.keys[0], id};
    assert_int_equal(claim_of(object), KILN_CLAIM_NONE);
    kiln_job_release(&job);
    kiln_test_ok(kiln_ledger_retry(rig.ledger, "p", id, NULL, &moved, &rig.err), rig.err);
    assert_int_equal(unclaimed(&object, 1).count, 0); /* queued */
    kiln_test_ok(kiln_ledger_assign(rig.ledger, "w0", "again", &id, 1, &job, &count, &rig.err),
                 rig.err);
    assert_int_equal(unclaimed(&object, 1).count, 0); /* assigned */
    assert_true(kiln_rig_commit(&job));
    assert_int_equal(claim_of(object), KILN_CLAIM_ROW);
    assert_int_equal(unclaimed(&object, 1).count, 0); /* done, with a row */
    kiln_job_release(&job);
}

/* While an object goes, its job cannot be queued again; afterwards it can. */
static void a_held_job_does_not_move(void **state)
{
    struct kiln_job job;
    struct kiln_config *config = rig.stack->config;
    struct seen seen = {0};
    (void)state;
    kiln_rig_assigned("held", 1, &job);
    cancel(job.id);
    struct kiln_found object = orphan(job.id);
    kiln_test_ok(kiln_config_set(config, "statement_timeout_s", "2", "test", &rig.err), rig.err);
    kiln_test_ok(kiln_ledger_open(config, "other", &seen.other, &rig.err), rig.err);
    kiln_test_ok(kiln_config_set(config, "statement_timeout_s", "30", "test", &rig.err), rig.err);
    seen.job = job.id;
    kiln_test_ok(kiln_ledger_with_unclaimed(rig.ledger, &object, 1, see, &seen, &rig.err), rig.err);
    assert_int_equal(seen.count, 1);
    assert_int_not_equal(seen.code, 0);
    kiln_rig_expect("held", "cancelled", KILN_JOB_CANCELLED, 1);
    kiln_test_ok(kiln_ledger_retry(seen.other, "p", job.id, NULL, &seen.moved, &rig.err), rig.err);
    assert_int_equal(seen.moved, 1);
    kiln_ledger_close(seen.other);
    kiln_rig_release(&job, 1);
}

/* A job that somebody is changing this moment is passed over, not waited for. */
static void a_job_in_somebodys_hands_is_left(void **state)
{
    struct kiln_job job;
    char sql[128];
    (void)state;
    kiln_rig_assigned("hands", 1, &job);
    cancel(job.id);
    struct kiln_found object = orphan(job.id);
    snprintf(sql, sizeof sql, "BEGIN; SELECT id FROM job WHERE id = %llu FOR UPDATE",
             (unsigned long long)job.id);
    free(kiln_test_sql(rig.stack, sql));
    assert_int_equal(unclaimed(&object, 1).count, 0);
    free(kiln_test_sql(rig.stack, "ROLLBACK"));
    assert_int_equal(unclaimed(&object, 1).count, 1);
    kiln_rig_release(&job, 1);
}

static void cancelled_jobs_go_after_a_while(void **state)
{
    struct kiln_job jobs[3];
    uint64_t cursor = 0, dropped = 99;
    bool more = true;
    (void)state;
    kiln_rig_assigned("dropped", 3, jobs);
    cancel(jobs[0].id);
    cancel(jobs[1].id);
    kiln_test_sql(rig.stack, "UPDATE job SET finished_at = now() - interval '1 hour' WHERE batch_id"
                             " = (SELECT id FROM batch WHERE name = 'dropped') AND index = 0");
    for (int dry = 1; dry >= 0; dry--) {
        cursor = 0;
        kiln_test_ok(kiln_ledger_drop_cancelled(rig.ledger, "p", 600, dry, &cursor, &dropped, &more,
                                                &rig.err),
                     rig.err);
        assert_int_equal(dropped, 1);
        assert_false(more);
        kiln_rig_expect("dropped", "cancelled", KILN_JOB_CANCELLED, dry ? 2 : 1);
        struct kiln_progress progress; /* the batch knows what it had */
        kiln_test_ok(kiln_ledger_progress(rig.ledger, "p", "dropped", &progress, &rig.err),
                     rig.err);
        assert_int_equal(progress.jobs.at[KILN_JOB_CANCELLED], 2);
        assert_int_equal(progress.removed, dry ? 0 : 1);
        assert_int_equal(kiln_rig_rows("event", jobs[0].id) > 0, dry);
    }
    kiln_rig_expect("dropped", "assigned", KILN_JOB_ASSIGNED, 1);
    kiln_rig_release(jobs, 3);
}

static int count_dropped(void *arg, uint64_t job, const char *key, uint64_t bytes,
                         struct kiln_error *err)
{
    uint64_t *sum = arg;
    (void)job, (void)key, (void)err;
    *sum += bytes;
    return 0;
}

static void old_pictures_lose_their_rows_together(void **state)
{
    struct kiln_job jobs[2];
    uint64_t cursor, pictures, bytes;
    bool more;
    (void)state;
    kiln_rig_assigned("old", 2, jobs);
    assert_true(kiln_rig_commit(&jobs[0]) && kiln_rig_commit(&jobs[1]));
    char sql[200];
    snprintf(sql, sizeof sql,
             "UPDATE image SET created_at = now() - interval '2 days' WHERE job_id = %llu",
             (unsigned long long)jobs[0].id);
    kiln_test_sql(rig.stack, sql);
    for (int round = 0; round < 4; round++) { /* a young batch; then a dry run, the run, a repeat */
        const struct kiln_drop what = {"p", 86400, round == 1, count_dropped, &bytes};
        cursor = bytes = 0;
        kiln_test_ok(
            kiln_ledger_drop_pictures(rig.ledger, &what, &cursor, &pictures, &more, &rig.err),
            rig.err);
        assert_int_equal(pictures, round == 1 || round == 2);
        assert_int_equal(bytes, pictures * 4000);
        assert_int_equal(kiln_rig_rows("image", jobs[0].id), round < 2);
        assert_int_equal(kiln_rig_rows("object", jobs[0].id), round < 2 ? 4 : 0);
        assert_int_equal(kiln_rig_rows("latent", jobs[0].id), round < 2);
        assert_int_equal(kiln_rig_rows("object", jobs[1].id), 4);
        if (round == 0)
            kiln_test_sql(rig.stack, "UPDATE batch SET created_at = now() - interval '2 days'"
                                     " WHERE name = 'old'");
    }
    kiln_rig_expect("old", "done", KILN_JOB_DONE, 2);
    kiln_rig_release(jobs, 2);
}

static void *mark_slowly(void *sql)
{
    PGconn *conn = PQconnectdb(rig.stack->conninfo);
    PGresult *rows = PQexec(conn, sql);
    void *good = PQresultStatus(rows) == PGRES_COMMAND_OK ? conn : NULL;
    PQclear(rows);
    PQfinish(conn);
    return good;
}

/* The mark is set and not yet committed when the look begins: the removal waits for it, is refused
 * by the database, and passes the picture over when it looks again. */
static void a_mark_that_comes_just_then_keeps_its_picture(void **state)
{
    struct kiln_job jobs[2];
    uint64_t cursor = 0, pictures = 0, bytes = 0;
    bool more;
    pthread_t thread;
    char sql[200];
    const struct kiln_drop what = {"p", 0, false, count_dropped, &bytes};
    (void)state;
    kiln_rig_assigned("marked", 2, jobs);
    assert_true(kiln_rig_commit(&jobs[0]) && kiln_rig_commit(&jobs[1]));
    snprintf(sql, sizeof sql,
             "BEGIN; INSERT INTO favourite (job_id) VALUES (%llu); SELECT pg_sleep(0.5); COMMIT",
             (unsigned long long)jobs[1].id);
    assert_int_equal(pthread_create(&thread, NULL, mark_slowly, sql), 0);
    for (int i = 0; i < 500; i++) {
        if (kiln_test_count(rig.stack,
                            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE"
                            " 'BEGIN; INSERT INTO favourite%' AND wait_event = 'PgSleep'"))
            break;
    }
    kiln_test_ok(kiln_ledger_drop_pictures(rig.ledger, &what, &cursor, &pictures, &more, &rig.err),
                 rig.err);
    void *marked;
    pthread_join(thread, &marked);
    assert_non_null(marked);
    assert_int_equal(kiln_rig_rows("image", jobs[0].id), 0);
    assert_int_equal(kiln_rig_rows("image", jobs[1].id), 1);
    assert_int_equal(kiln_rig_rows("object", jobs[1].id), 4);
    assert_int_equal(kiln_rig_rows("favourite", jobs[1].id), 1);
    kiln_rig_release(jobs, 2);
}

struct worths {
    uint64_t count, bytes;
    double seconds; /* of the job */
    uint64_t job;
};

static int sum_worth(void *arg, const struct kiln_latent_worth *row, struct kiln_error *err)
{
    struct worths *worths = arg;
    (void)err;
    worths->count++;
    worths->bytes += row->bytes;
    if (row->job == worths->job)
        worths->seconds = row->seconds;
    assert_true(row->final && row->age_s >= 0 && row->bytes > 0);
    return 0;
}

static uint64_t evict(const uint64_t *jobs, size_t count, bool dry_run)
{
    uint64_t bytes = 0;
    kiln_test_ok(kiln_ledger_evict_latents(rig.ledger, "p", jobs, count, dry_run, count_dropped,
                                           &bytes, &rig.err),
                 rig.err);
    return bytes / 1000;
}

static bool noted(const char *assignment, uint64_t donor)
{
    bool there;
    kiln_test_ok(kiln_ledger_note_donors(rig.ledger, "p", assignment, &donor, 1, &there, &rig.err),
                 rig.err);
    return there;
}

/* 0 begins the run of a job that is assigned, 1 is started from by a queued job, 2 is that of a
 * favourite, 3 is free. */
static void latents_are_evicted_unless_they_are_needed(void **state)
{
    struct kiln_job jobs[6];
    uint64_t ids[5], cursor = 0;
    struct worths worths = {0};
    bool more;
    char sql[400];
    (void)state;
    assert_int_equal(kiln_rig_assigned("evicted", 6, jobs), 6);
    for (int i = 0; i < 5; i++) {
        assert_true(kiln_rig_commit(&jobs[i]));
        ids[i] = jobs[i].id;
    }
    kiln_test_sql(rig.stack, "UPDATE latent SET prompt_hash = job_id::text;"
                             " UPDATE image SET prompt_hash = job_id::text");
    snprintf(sql, sizeof sql, "SELECT count(*) FROM job WHERE id = %llu AND assignment <> ''",
             (unsigned long long)jobs[5].id);
    assert_int_equal(kiln_test_count(rig.stack, sql), 1);
    char *assignment = kiln_test_sql(rig.stack, "SELECT max(assignment) FROM job WHERE state = 1");
    assert_true(noted(assignment, ids[0]));
    assert_false(noted("no such assignment", ids[0]));
    assert_true(noted(assignment, ids[0]));
    kiln_rig_return(&jobs[5], (struct kiln_return){.code = KILN_OK}); /* queued */
    snprintf(sql, sizeof sql,
             "UPDATE job SET init_job = %llu WHERE id = %llu;"
             " INSERT INTO favourite (job_id) VALUES (%llu);"
             " UPDATE image SET donor = %llu, forwards = 2, steps = 8, denoise_ms = 1000,"
             " fallback = NULL WHERE job_id = %llu",
             (unsigned long long)ids[1], (unsigned long long)jobs[5].id, (unsigned long long)ids[2],
             (unsigned long long)ids[3], (unsigned long long)ids[4]);
    kiln_test_sql(rig.stack, sql);
    worths.job = ids[3];
    for (more = true; more;)
        kiln_test_ok(kiln_ledger_latent_worths(rig.ledger, "p", &cursor, sum_worth, &worths, &more,
                                               &rig.err),
                     rig.err);
    assert_true(worths.count >= 5 && worths.seconds == 3);
    cursor = 0;
    struct worths others = {0};
    kiln_test_ok(kiln_ledger_latent_worths(rig.ledger, "other", &cursor, sum_worth, &others, &more,
                                           &rig.err),
                 rig.err);
    assert_int_equal(others.count, 0);

    assert_int_equal(evict(ids, 4, true), 1);
    assert_int_equal(kiln_rig_rows("latent", ids[3]), 1);
    assert_int_equal(evict(ids, 4, false), 1);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(kiln_rig_rows("latent", ids[i]), i < 3);
        assert_int_equal(kiln_rig_rows("object", ids[i]), i < 3 ? 4 : 3); /* the picture stays */
        assert_int_equal(kiln_rig_rows("image", ids[i]), 1);
    }
    assert_false(noted(assignment, ids[3]));   /* gone: its run would fall back */
    assert_int_equal(evict(ids, 4, false), 1); /* 0: another note took its place */
    assert_int_equal(kiln_rig_rows("latent", ids[0]), 0);
    free(assignment);
    kiln_rig_release(jobs, 6);
}

/* The note of a donor is made and not yet committed when it is to be evicted: that waits, and sees
 * the note. */
static void a_donor_noted_just_then_stays(void **state)
{
    struct kiln_job jobs[2];
    pthread_t thread;
    char sql[400];
    (void)state;
    kiln_rig_assigned("noted", 2, jobs);
    assert_true(kiln_rig_commit(&jobs[0]));
    const uint64_t id = jobs[0].id;
    snprintf(sql, sizeof sql,
             "BEGIN; SELECT assignment_note_donors('p', (SELECT assignment FROM job WHERE id = "
             "%llu), '{%llu}'); SELECT pg_sleep(0.5); COMMIT",
             (unsigned long long)jobs[1].id, (unsigned long long)id);
    assert_int_equal(pthread_create(&thread, NULL, mark_slowly, sql), 0);
    for (int i = 0; i < 500; i++)
        if (kiln_test_count(rig.stack, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE"
                                       " 'BEGIN; SELECT assignment_note%' AND wait_event = "
                                       "'PgSleep'"))
            break;
    assert_int_equal(evict(&id, 1, false), 0);
    void *marked;
    pthread_join(thread, &marked);
    assert_non_null(marked);
    assert_int_equal(kiln_rig_rows("latent", id), 1);
    kiln_rig_release(jobs, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_name_their_job),
        cmocka_unit_test(only_what_nobody_can_commit_is_unclaimed),
        cmocka_unit_test(a_commit_since_the_first_look_is_seen),
        cmocka_unit_test(a_held_job_does_not_move),
        cmocka_unit_test(a_job_in_somebodys_hands_is_left),
        cmocka_unit_test(cancelled_jobs_go_after_a_while),
        cmocka_unit_test(old_pictures_lose_their_rows_together),
        cmocka_unit_test(a_mark_that_comes_just_then_keeps_its_picture),
        cmocka_unit_test(latents_are_evicted_unless_they_are_needed),
        cmocka_unit_test(a_donor_noted_just_then_stays),
    };
    return cmocka_run_group_tests(tests, kiln_rig_start, kiln_rig_stop);
}
