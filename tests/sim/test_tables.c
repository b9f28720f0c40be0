/* test_tables.c - the ledger in memory against the real one: the same random statements on both,
 * and after each of them every row and every account is compared.
 *
 * Half of the statements are out of date on purpose: attempts that are over, jobs that were moved
 * meanwhile, assignments that are sent again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/clock.h"
#include "tests/sim/tables.h"
#include "tests/support/random.h"
#include "tests/support/rig.h"

#define ROUNDS 4
#define STATEMENTS 200
#define KEYS 12
#define TEXT_MAX 16384

static struct {
    struct sim_tables tables;
    struct test_random random;
    char batch[2][32];
    char keys[KEYS][16];
    uint64_t real[2][KEYS], mine[2][KEYS]; /* ids; 0 = not there */
    uint64_t last_entry;
} run;

static const struct sim_limits limits = {3, 1, 300}; /* the defaults of the settings */

static uint32_t below(uint32_t bound)
{
    return test_random_below(&run.random, bound);
}

static void ok(int rc)
{
    kiln_test_ok(rc, rig.err);
}

static void broken(const char *fmt, ...)
{
    fail_msg("the model moves a job illegally: %s", fmt);
}

/* --- both sides as text ---------------------------------------------------------------------- */
static void expect_text(const char *what, const char *sql, const char *mine)
{
    char *real = kiln_test_sql(rig.stack, sql);
    if (strcmp(real ? real : "", mine) != 0)
        fail_msg("%s differ after a statement:\nPostgres: %s\nmodel:    %s", what, real, mine);
    free(real);
}

static void compare_rows(uint32_t b)
{
    char sql[1024], mine[TEXT_MAX] = "";
    size_t len = 0;
    snprintf(sql, sizeof sql,
             "SELECT coalesce(string_agg(format('%%s/%%s/%%s/%%s/%%s/%%s/%%s/%%s/%%s/%%s', key, "
             "state, attempt, tries, crashes, error_code, coalesce(worker, ''), "
             "coalesce(assignment, ''), index, (not_before > '-infinity')::int), ' ' ORDER BY key "
             "COLLATE \"C\"), '') FROM job j JOIN batch b ON b.id = j.batch_id WHERE b.name = '%s'",
             run.batch[b]);
    for (uint32_t k = 0; k < KEYS; k++) {
        const struct sim_row *row = sim_tables_row(&run.tables, run.mine[b][k]);
        if (row)
            len +=
                (size_t)snprintf(mine + len, sizeof mine - len, "%s%s/%d/%u/%u/%u/%d/%s/%s/%u/%d",
                                 len ? " " : "", row->key, (int)row->job.state, row->job.attempt,
                                 row->tries, row->crashes, row->error_code, row->worker,
                                 row->assignment, row->job.index, row->not_before_ms > 0);
    }
    expect_text("rows", sql, mine);
}

static void compare_pictures(uint32_t b)
{
    char sql[512], mine[64];
    unsigned pictures = 0, objects = 0;
    for (uint32_t k = 0; k < KEYS; k++) {
        const struct sim_row *row = sim_tables_row(&run.tables, run.mine[b][k]);
        pictures += row ? row->commits : 0;
        objects += row ? (unsigned)row->object_count : 0;
    }
    snprintf(mine, sizeof mine, "%u %u", pictures, objects);
    snprintf(sql, sizeof sql,
             "SELECT format('%%s %%s', (SELECT count(*) FROM image i WHERE i.batch_id = b.id), "
             "(SELECT count(*) FROM object o JOIN job j ON j.id = o.job_id WHERE j.batch_id = "
             "b.id)) FROM batch b WHERE b.name = '%s'",
             run.batch[b]);
    if (sim_tables_batch(&run.tables, "p", run.batch[b]))
        expect_text("pictures", sql, mine);
}

static void compare_progress(uint32_t b)
{
    struct kiln_progress real, mine;
    const struct sim_batch *batch = sim_tables_batch(&run.tables, "p", run.batch[b]);
    int rc = kiln_ledger_progress(rig.ledger, "p", run.batch[b], &real, &rig.err);
    assert_int_equal(rc, batch ? 0 : KILN_NOT_FOUND);
    if (!batch)
        return;
    sim_tables_progress(&run.tables, batch, &mine);
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++)
        assert_int_equal(real.jobs.at[state], mine.jobs.at[state]);
    assert_int_equal(real.announced, mine.announced);
    assert_int_equal(real.accepted, mine.accepted);
    assert_int_equal(real.duplicate, mine.duplicate);
    assert_int_equal(real.refused, mine.refused);
    assert_int_equal(real.whole, mine.whole);
}

/* --- statements ------------------------------------------------------------------------------ */
static uint64_t real_id(uint32_t b, uint32_t k)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT j.id FROM job j JOIN batch b ON b.id = j.batch_id WHERE b.name = '%s' AND "
             "j.key = '%s'",
             run.batch[b], run.keys[k]);
    return (uint64_t)kiln_test_count(rig.stack, sql);
}

static void insert(uint32_t b)
{
    size_t count = 1 + below(5);
    struct kiln_new_job *jobs = kiln_test_jobs(run.batch[b], count);
    char entries[8][32];
    uint32_t which[8];
    uint64_t inserted = 0;
    for (size_t i = 0; i < count; i++) {
        which[i] = below(KEYS);
        free((char *)jobs[i].key);
        jobs[i].key = strdup(run.keys[which[i]]);
        jobs[i].job.index = below(200);
        jobs[i].token = below(3) ? "t" : "";
        run.last_entry += below(2); /* 0: delivered again */
        snprintf(entries[i], sizeof entries[i], "%llu-%u", (unsigned long long)run.last_entry,
                 below(2));
        jobs[i].entry = below(5) ? entries[i] : NULL;
    }
    ok(kiln_ledger_insert_jobs(rig.ledger, "p", jobs, count, &inserted, &rig.err));
    sim_tables_make_batch(&run.tables, "p", run.batch[b]);
    uint64_t first = sim_tables_reserve(&run.tables, count);
    assert_int_equal(inserted,
                     sim_tables_insert(&run.tables, "p", jobs, count, first, kiln_clock_ms()));
    for (size_t i = 0; i < count; i++)
        if (sim_tables_row(&run.tables, first + i)) {
            run.mine[b][which[i]] = first + i;
            run.real[b][which[i]] = real_id(b, which[i]);
        }
    kiln_test_jobs_free(jobs, count);
}

static void number(uint32_t b)
{
    const char *keys[6];
    int64_t wishes[6], real[6], mine[6];
    size_t count = 1 + below(6);
    for (size_t i = 0; i < count; i++) { /* keys that exist and keys that do not */
        keys[i] = below(2) ? run.keys[below(KEYS)] : "a new one";
        wishes[i] = below(2) ? (int64_t)below(250) : -1;
    }
    ok(kiln_ledger_number(rig.ledger, "p", run.batch[b], keys, wishes, count, real, &rig.err));
    sim_tables_number(&run.tables, sim_tables_make_batch(&run.tables, "p", run.batch[b]), keys,
                      wishes, count, mine);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(real[i], mine[i]);
}

static void account(uint32_t b)
{
    const char *token = below(2) ? "t" : "u";
    uint64_t announced = below(20), accepted, duplicate, refused;
    struct sim_batch *batch = sim_tables_make_batch(&run.tables, "p", run.batch[b]);
    if (below(2)) {
        const char *key = run.keys[below(KEYS)];
        ok(kiln_ledger_refuse(rig.ledger, "p", run.batch[b], token, key, "why", &rig.err));
        sim_tables_refuse(&run.tables, batch, token, key, "why");
        return;
    }
    ok(kiln_ledger_announce(rig.ledger, "p", run.batch[b], token, announced, &accepted, &duplicate,
                            &refused, &rig.err));
    const struct sim_call *call = sim_tables_announce(&run.tables, batch, token, announced);
    assert_int_equal(accepted, call->accepted);
    assert_int_equal(duplicate, call->duplicate);
    assert_int_equal(refused, call->refused);
}

static void assign(uint32_t b)
{
    static unsigned names;
    uint64_t real[6], mine[6];
    struct kiln_job jobs[6];
    struct sim_row *rows[6];
    char assignment[16];
    size_t given = 0, count = 0;
    uint32_t first = below(KEYS), step = 1 + below(3);
    for (uint32_t k = first; k < KEYS && count < 6; k += step)
        if (run.mine[b][k]) {
            real[count] = run.real[b][k];
            mine[count++] = run.mine[b][k];
        }
    names += below(3) > 0; /* else the same statement once more */
    snprintf(assignment, sizeof assignment, "a%u", names);
    struct kiln_new_assignment twice[2] = {{"w0", assignment, real, count, jobs, 0},
                                           {"w1", "late", real, 0, NULL, 0}};
    if (below(2))
        ok(kiln_ledger_assign(rig.ledger, "w0", assignment, real, count, jobs, &given, &rig.err));
    else
        ok(kiln_ledger_assign_many(rig.ledger, twice, 2, &rig.err));
    given += twice[0].given;
    assert_int_equal(given, sim_tables_assign(&run.tables, "w0", assignment, mine, count,
                                              kiln_clock_ms(), rows));
    kiln_rig_release(jobs, given);
}

/* A job at its attempt, or at one that is over. */
static bool pick(uint32_t b, uint32_t *ret_k, uint32_t *ret_attempt)
{
    uint32_t k = below(KEYS);
    const struct sim_row *row = sim_tables_row(&run.tables, run.mine[b][k]);
    for (int tries = 0; tries < 8 && row && row->job.state != KILN_JOB_ASSIGNED; tries++) {
        k = (k + 1) % KEYS;
        row = sim_tables_row(&run.tables, run.mine[b][k]);
    }
    if (!row)
        return false;
    *ret_k = k;
    *ret_attempt = row->job.attempt > 0 && below(3) == 0 ? row->job.attempt - 1 : row->job.attempt;
    return true;
}

static void give_back(uint32_t b)
{
    uint32_t k, attempt;
    int state = -2;
    if (!pick(b, &k, &attempt))
        return;
    int code = below(4) ? KILN_DEVICE : KILN_OK;
    struct kiln_return how = {.id = run.real[b][k],
                              .attempt = attempt,
                              .code = code,
                              .reason = "why",
                              .crashed = code && below(5) > 0,
                              .final = below(12) == 0};
    ok(kiln_ledger_return(rig.ledger, &how, 1, &state, &rig.err));
    how.id = run.mine[b][k];
    assert_int_equal(state, sim_tables_return(&run.tables, &how, &limits, kiln_clock_ms()));
}

static void commit(uint32_t b)
{
    uint32_t k, attempt;
    struct kiln_test_picture picture;
    bool real_ours = false, ours = false;
    if (!pick(b, &k, &attempt))
        return;
    struct kiln_job job = sim_tables_row(&run.tables, run.mine[b][k])->job;
    job.id = run.real[b][k];
    job.attempt = attempt;
    ok(kiln_ledger_still_ours(rig.ledger, &job, 1, &ours, &rig.err));
    assert_int_equal(ours, sim_tables_still_ours(&run.tables, run.mine[b][k], attempt));
    kiln_test_picture(&picture, &job);
    ok(kiln_ledger_commit(rig.ledger, &picture.commit, &real_ours, &rig.err));
    job.id = run.mine[b][k];
    assert_int_equal(real_ours, sim_tables_commit(&run.tables, &picture.commit));
}

static void order(uint32_t b)
{
    uint64_t moved = 0;
    uint32_t k = below(KEYS);
    bool whole = below(8) == 0, cancels = below(2);
    uint64_t real = whole ? 0 : run.real[b][k], mine = whole ? 0 : run.mine[b][k];
    if (!whole && !mine)
        return;
    int rc = cancels ? kiln_ledger_cancel(rig.ledger, "p", real, run.batch[b], &moved, &rig.err)
                     : kiln_ledger_retry(rig.ledger, "p", real, run.batch[b], &moved, &rig.err);
    int64_t expected =
        cancels ? sim_tables_cancel(&run.tables, "p", mine, run.batch[b])
                : sim_tables_retry(&run.tables, "p", mine, run.batch[b], kiln_clock_ms());
    assert_int_equal(rc, expected < 0 ? KILN_NOT_FOUND : 0);
    if (rc == 0)
        assert_int_equal(moved, expected);
}

/* Waiting and held jobs of the pool, as numbers that do not depend on ids. */
struct tally {
    uint64_t jobs, sum;
    const char *batch;
};

static int tally_waiting(void *arg, const struct kiln_waiting *job)
{
    struct tally *tally = arg;
    tally->jobs++;
    tally->sum += job->attempt * 100 + job->crashes * 10 + job->width;
    return 0;
}

static int tally_held(void *arg, const struct kiln_assigned_job *held)
{
    struct tally *tally = arg;
    tally->jobs++;
    tally->sum += held->attempt * 100 + held->crashes * 10 + strlen(held->assignment);
    return 0;
}

static void compare_lists(void)
{
    struct tally real = {0}, mine = {0};
    struct kiln_waiting waiting[256];
    struct kiln_assigned_job held[256];
    ok(kiln_ledger_waiting(rig.ledger, "p", 0, 256, tally_waiting, &real, &rig.err));
    ok(kiln_ledger_assigned(rig.ledger, "p", tally_held, &real, &rig.err));
    size_t count = sim_tables_waiting(&run.tables, "p", 0, 256, waiting);
    for (size_t i = 0; i < count; i++)
        tally_waiting(&mine, &waiting[i]);
    count = sim_tables_held(&run.tables, "p", held, 256);
    for (size_t i = 0; i < count; i++)
        tally_held(&mine, &held[i]);
    assert_int_equal(real.jobs, mine.jobs);
    assert_int_equal(real.sum, mine.sum);
}

static void one_round(uint64_t seed)
{
    static void (*const statements[])(uint32_t b) = {
        insert, assign, assign, assign, give_back, give_back, give_back,
        commit, commit, order,  order,  account,   number};
    free(
        kiln_test_sql(rig.stack, "SET client_min_messages = error; TRUNCATE batch, event CASCADE"));
    memset(&run, 0, sizeof run);
    run.random.state = seed;
    run.tables.broken = broken;
    run.last_entry = 1;
    for (uint32_t k = 0; k < KEYS; k++)
        snprintf(run.keys[k], sizeof run.keys[k], "k%02u", k);
    for (uint32_t b = 0; b < 2; b++)
        snprintf(run.batch[b], sizeof run.batch[b], "round%llu-%u", (unsigned long long)seed, b);
    for (int i = 0; i < STATEMENTS; i++) {
        uint32_t b = below(2);
        statements[below(sizeof statements / sizeof *statements)](b);
        compare_rows(b);
        compare_pictures(b);
        compare_progress(b);
        if (i % 8 == 0)
            compare_lists();
    }
    sim_tables_release(&run.tables);
}

static void the_model_answers_as_postgres_does(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++)
        one_round(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_model_answers_as_postgres_does)};
    return cmocka_run_group_tests(tests, kiln_rig_start, kiln_rig_stop);
}
