/* test_cache_pages.c - thousands of donors, read in several pages, while donors come and go between
 * the pages: a reader, one that takes over from it, and the cache with its count of looks. */
#include <libpq-fe.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "scheduler/cache/cache.h"
#include "schemas/clock.h"
#include "schemas/job/line.h"
#include "schemas/telemetry/metrics.h"
#include "storage/ledger/read/donors.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/rig.h"

#define JOBS 5000 /* three pages of the reader */

static uint64_t first; /* jobs first .. first + JOBS - 1 */

static void sql(const char *text)
{
    free(kiln_test_sql(rig.stack, text));
}

#define COLUMNS                                                                                    \
    "job_id, sigma, seed, guidance, width, height, steps, states, shape, key, encoding, model,"    \
    " model_hash, lora_set, prompt_hash, mode"

static int start(void **state)
{
    struct kiln_job job;
    struct kiln_error err;
    int rc = kiln_rig_start(state);
    kiln_test_ok(kiln_config_set(rig.stack->config, "pool", "p", "test", &err), err);
    assert_int_equal(kiln_rig_assigned("donors", 1, &job), 1);
    assert_true(kiln_rig_commit(&job));
    kiln_rig_release(&job, 1);
    sql("INSERT INTO job (batch_id, seed, guidance, index, width, height, steps, max_wait_s,"
        " priority, kind, latents, teleport, embed_metadata, lora_auto, pool, key, token, prompt,"
        " negative_prompt, tenant, model, loras, lora_set, state) SELECT batch_id, 1, 0, n, 256,"
        " 256, 8, 0, 0, 0, 0, 1, false, false, 'p', 'more' || n, 't', 'picture ' || n, '', 'ann',"
        " '', '[]', '', 2 FROM latent JOIN job ON id = job_id, generate_series(1, 5000) n");
    sql("INSERT INTO object (job_id, bytes, width, height, role, key, sha256, content_type) SELECT"
        " j.id, 1, 32, 32, 'latent', 'more/' || j.id, '', '' FROM job j WHERE j.key LIKE 'more%'");
    sql("CREATE TABLE kept AS SELECT j.id AS job_id, 0::float8 AS sigma, 1::numeric AS seed,"
        " 0::float8 AS guidance, 256 AS width, 256 AS height, 8 AS steps, 1 AS states, l.shape,"
        " 'more/' || j.id AS key, l.encoding, l.model, l.model_hash, '' AS lora_set,"
        " encode(sha256(convert_to(j.prompt, 'UTF8')), 'hex') AS prompt_hash, '' AS mode"
        " FROM job j, latent l WHERE j.key LIKE 'more%'");
    sql("DELETE FROM latent");
    first = (uint64_t)kiln_test_count(rig.stack, "SELECT min(job_id) FROM kept");
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM kept"), JOBS);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT max(job_id) FROM kept"), first + JOBS - 1);
    return rc;
}

/* Of writers whose transactions stay open for a while; of every test. */
static PGconn *late, *never;

static PGconn *connect_more(void)
{
    PGconn *conn = PQconnectdb(kiln_config_text(rig.stack->config, KILN_KEY_POSTGRES));
    assert_int_equal(PQstatus(conn), CONNECTION_OK);
    return conn;
}

static int connect_writers(void **state)
{
    (void)state;
    late = connect_more();
    never = connect_more();
    sql("DELETE FROM latent");
    return 0;
}

/* After a failure as well: nobody waits for what they hold. */
static int disconnect_writers(void **state)
{
    (void)state;
    PQfinish(late);
    PQfinish(never);
    return 0;
}

static void run(PGconn *conn, const char *text)
{
    PGresult *result = PQexec(conn, text);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", text, PQerrorMessage(conn));
    PQclear(result);
}

/* Latents of the jobs with these numbers, 0 .. JOBS - 1; conn NULL: committed at once. */
static void change(PGconn *conn, bool come, int from, int to)
{
    char text[600];
    snprintf(text, sizeof text,
             come ? "INSERT INTO latent (" COLUMNS ") SELECT " COLUMNS
                    " FROM kept WHERE job_id >= %llu AND job_id < %llu"
                  : "DELETE FROM latent WHERE job_id >= %llu AND job_id < %llu",
             (unsigned long long)first + (unsigned)from, (unsigned long long)first + (unsigned)to);
    if (conn)
        run(conn, text);
    else
        sql(text);
}

/* --- a reader --------------------------------------------------------------------------------- */

static bool there[JOBS];

static int keep(void *arg, const struct kiln_donor_row *row)
{
    (void)arg;
    if (row->job >= first && row->job < first + JOBS)
        there[row->job - first] = !row->gone;
    return 0;
}

static bool step(struct kiln_donors *donors, bool *ret_complete)
{
    struct kiln_error err;
    bool more;
    kiln_test_ok(kiln_donors_step(donors, keep, NULL, ret_complete, &more, &err), err);
    return more;
}

static struct kiln_donors *open_donors(void)
{
    struct kiln_donors *donors;
    struct kiln_error err;
    memset(there, 0, sizeof there);
    kiln_test_ok(kiln_donors_open(rig.stack->config, "test donors", &donors, &err), err);
    return donors;
}

static void expect_all_right(struct kiln_donors *donors)
{
    static bool truth[JOBS];
    bool complete, more = true;
    for (int rounds = 0; rounds < 2 || more; rounds++) {
        more = step(donors, &complete);
        assert_true(rounds < 100);
    }
    assert_true(complete);
    PGconn *conn = connect_more();
    PGresult *rows = PQexec(conn, "SELECT job_id FROM latent");
    memset(truth, 0, sizeof truth);
    for (int i = 0; i < PQntuples(rows); i++)
        truth[strtoull(PQgetvalue(rows, i, 0), NULL, 10) - first] = true;
    PQclear(rows);
    PQfinish(conn);
    for (int i = 0; i < JOBS; i++)
        if (there[i] != truth[i])
            fail_msg("donor %d: %s, read as %s", i, truth[i] ? "there" : "gone",
                     there[i] ? "there" : "gone");
}

/* Newest first: the pages are 3000 and up, 1000 and up, and the rest. */
static void the_first_reading_takes_several_pages(void **state)
{
    (void)state;
    bool complete;
    change(NULL, true, 0, JOBS - 100);
    run(late, "BEGIN");
    change(late, true, JOBS - 100, JOBS - 50); /* would be in the first page */
    run(never, "BEGIN");
    change(never, true, JOBS - 50, JOBS);
    struct kiln_donors *donors = open_donors();
    assert_true(step(donors, &complete) && !complete);
    assert_true(there[JOBS - 101] && !there[JOBS - 100] && !there[0]);
    change(NULL, false, JOBS - 110, JOBS - 100); /* was read, */
    change(NULL, false, 10, 20);                 /* was not, */
    change(NULL, false, 2850, 2900);             /* and is the next to be read */
    run(late, "COMMIT");
    assert_true(step(donors, &complete) && !complete);
    change(NULL, true, JOBS - 110, JOBS - 105); /* back again */
    run(never, "ROLLBACK");
    expect_all_right(donors);
    assert_true(there[JOBS - 51] && !there[JOBS - 50] && there[JOBS - 110] && !there[2850]);
    kiln_donors_close(donors);
}

static void a_round_of_changes_takes_several_pages(void **state)
{
    (void)state;
    bool complete;
    struct kiln_donors *donors = open_donors();
    expect_all_right(donors);
    run(late, "BEGIN"); /* its number is below those of the others */
    change(late, true, 0, 500);
    for (int i = 500; i < JOBS; i += 900)
        change(NULL, true, i, i + 900 < JOBS ? i + 900 : JOBS);
    assert_true(step(donors, &complete));  /* a page of 2,000, in the middle of a transaction */
    change(NULL, false, 600, 700);         /* was read, */
    change(NULL, false, JOBS - 100, JOBS); /* was not; both are in the next round */
    run(late, "COMMIT");
    assert_true(step(donors, &complete));
    change(NULL, true, 650, 660);
    expect_all_right(donors);
    assert_true(there[0] && !there[649] && there[650] && !there[JOBS - 1]);
    kiln_donors_close(donors);
}

/* The leader dies between two pages: the next one has no place to go on from, and reads all. */
static void another_reader_takes_over_between_pages(void **state)
{
    (void)state;
    bool complete;
    change(NULL, true, 0, 4500);
    run(late, "BEGIN");
    change(late, true, 4500, JOBS);
    struct kiln_donors *old = open_donors();
    assert_true(step(old, &complete) && !complete);
    kiln_donors_close(old);
    change(NULL, false, 4000, 4400); /* the old one has read them */
    struct kiln_donors *new = open_donors();
    assert_true(step(new, &complete) && !complete);
    run(late, "COMMIT");
    expect_all_right(new);
    assert_true(there[JOBS - 1] && !there[4000] && there[4400]);
    change(NULL, false, 0, JOBS); /* and so in the middle of a round of changes */
    assert_true(step(new, &complete));
    kiln_donors_close(new);
    new = open_donors();
    expect_all_right(new);
    kiln_donors_close(new);
}

/* --- the cache -------------------------------------------------------------------------------- */

static const char table[] =
    "{\"teleport\": {\"rows\": [{\"class\": \"same_prompt\", \"depth\": 1, \"donors\": 1,"
    " \"uses\": 8, \"variety\": 1, \"loss\": [0, 0], \"for\": [\"256x256\"]}]}}";

static struct kiln_cache_state settle(struct kiln_cache *cache, uint64_t looks)
{
    struct kiln_cache_state now = {0};
    for (const int64_t until = kiln_clock_ms() + 60000;
         now.stage != KILN_CACHE_COMPLETE || now.looks < looks; kiln_test_sleep_ms(10)) {
        kiln_cache_tend(cache, rig.ledger, "p", kiln_clock_ms());
        now = kiln_cache_warm(cache);
        assert_true(kiln_clock_ms() < until);
    }
    return now;
}

/* What was committed before an answer is in memory once a later one has two looks more, although a
 * look takes three pages (schemas/bus.md, "donors"). */
static void two_looks_later_all_is_in_memory(void **state)
{
    (void)state;
    struct kiln_cache *cache;
    struct kiln_error err;
    char dir[200];
    snprintf(dir, sizeof dir, "%s/model", rig.stack->dir);
    assert_int_equal(mkdir(dir, 0755), 0);
    char path[256];
    snprintf(path, sizeof path, "%s/kiln.json", dir);
    kiln_test_write(path, table);
    kiln_test_ok(kiln_config_set(rig.stack->config, "model", dir, "test", &err), err);
    change(NULL, true, 0, 4500);
    for (int leader = 0; leader < 2; leader++) {
        kiln_test_ok(kiln_cache_open(rig.stack->config, &cache, &err), err);
        struct kiln_cache_state now = settle(cache, 0);
        assert_int_equal(now.donors, kiln_test_count(rig.stack, "SELECT count(*) FROM latent"));
        for (int i = 0; i < 2; i++) {
            run(late, "BEGIN");
            change(late, false, 0, JOBS);
            change(late, true, i ? 0 : 300, JOBS - 7 * i);
            run(late, "COMMIT");
            kiln_test_sleep_ms(300 * (uint32_t)i); /* into the middle of a look, or not */
            now = kiln_cache_warm(cache);
            now = settle(cache, now.looks + 2);
            assert_int_equal(now.donors, i ? JOBS - 7 : JOBS - 300);
            assert_int_equal(now.prompts, now.donors);
        }
        change(NULL, false, 0, JOBS); /* the leader ends while its cache is reading */
        change(NULL, true, 100, 4600);
        kiln_cache_close(cache);
    }
}

static struct kiln_job job_of(char *prompt, char *model)
{
    static char nothing[] = "";
    return (struct kiln_job){.prompt = prompt,
                             .negative_prompt = nothing,
                             .model = model,
                             .width = 256,
                             .height = 256,
                             .steps = 8,
                             .teleport = KILN_TELEPORT_AUTO};
}

/* The donor of a job with this prompt; *ret: its look. */
static uint64_t look_for(struct kiln_cache *cache, char *model, const char *prompt,
                         struct kiln_reuse_look *ret)
{
    char text[40];
    const char *silent;
    snprintf(text, sizeof text, "%s", prompt);
    const struct kiln_job job = job_of(text, model);
    const struct kiln_donor donor = kiln_cache_look(cache, &job, false, NULL, &silent, ret);
    assert_null(silent);
    return donor.job;
}

/* Workers whose models of one name differ make donors in turn: those of both are found, and neither
 * outdates what was looked up before.  A third model does. */
static void two_models_of_one_name_take_turns(void **state)
{
    (void)state;
    struct kiln_cache *cache;
    struct kiln_error err;
    struct kiln_reuse_look missed, look;
    char *model = kiln_test_sql(rig.stack, "SELECT max(model) FROM kept");
    sql("UPDATE kept SET model_hash = 'other' WHERE job_id % 2 = 1");
    kiln_test_ok(kiln_cache_open(rig.stack->config, &cache, &err), err);
    change(NULL, true, 0, 2);
    struct kiln_cache_state now = settle(cache, 0);
    assert_int_equal(look_for(cache, model, "nothing like it", &missed), 0);
    for (int i = 2; i < 6; i++) {
        char prompt[40], hash[65], text[200];
        snprintf(prompt, sizeof prompt, "picture %d", i + 1);
        kiln_prompt_hash(prompt, "", hash);
        snprintf(text, sizeof text, "UPDATE kept SET prompt_hash = '%s' WHERE job_id = %llu", hash,
                 (unsigned long long)first + (unsigned)i);
        sql(text);
        change(NULL, true, i, i + 1);
        now = settle(cache, now.looks + 2);
        assert_int_equal(look_for(cache, model, prompt, &look), first + (unsigned)i);
        assert_false(kiln_cache_outdated(cache, &missed));
    }
    sql("UPDATE kept SET model_hash = 'third'");
    change(NULL, true, 6, 7);
    settle(cache, now.looks + 2);
    assert_true(kiln_cache_outdated(cache, &missed));
    kiln_cache_close(cache);
    free(model);
}

/* A worker that cannot begin at a small step gets a start at the full size, if the table has one
 * for the job.  What it does not get is not counted, so the donor is there for the next one. */
static void an_older_worker_begins_at_the_full_size(void **state)
{
    (void)state;
    static const char coarse[] =
        "{\"teleport\": {\"rows\": [{\"class\": \"same_prompt\", \"depth\": 6, \"donors\": 1,"
        " \"uses\": 9, \"variety\": 0, \"loss\": [0, 0], \"for\": [\"256x256\"]}], \"coarse\":"
        " {\"mode\": \"4+2\", \"rows\": [{\"class\": \"same_prompt\", \"depth\": 2, \"donors\": 1,"
        " \"uses\": 1, \"variety\": 1, \"loss\": [0, 0], \"for\": [\"256x256\"]}]}}}";
    struct kiln_cache *cache;
    struct kiln_error err;
    char hash[65], text[200], prompt[] = "picture 1";
    char *model = kiln_test_sql(rig.stack, "SELECT max(model) FROM kept");
    snprintf(text, sizeof text, "%s/kiln.json",
             kiln_config_text(rig.stack->config, KILN_KEY_MODEL));
    kiln_test_write(text, coarse);
    kiln_prompt_hash(prompt, "", hash);
    snprintf(text, sizeof text, "UPDATE kept SET prompt_hash = '%s', mode = 'coarse=4+2'", hash);
    sql(text);
    change(NULL, true, 0, 1);
    kiln_test_ok(kiln_cache_open(rig.stack->config, &cache, &err), err);
    settle(cache, 0);
    struct kiln_job job = job_of(prompt, model);
    assert_true(kiln_mode_parse("coarse=4+2", &job.mode));
    const struct {
        bool whole;
        uint32_t alike, step; /* 0: it is a miss */
        bool coarse;
    } takes[] = {
        {true, 0, 0, false}, {false, 0, 2, true}, {false, 0, 0, false}, {true, 100, 6, false}};
    for (size_t i = 0; i < sizeof takes / sizeof *takes; i++) {
        const uint64_t hits = kiln_metric_count(KILN_METRIC_DONOR_LOOKUPS, KILN_DONOR_HIT),
                       misses = kiln_metric_count(KILN_METRIC_DONOR_LOOKUPS, KILN_DONOR_MISS);
        job.alike = takes[i].alike;
        const struct kiln_donor donor = kiln_cache_take(cache, &job, NULL, takes[i].whole);
        assert_int_equal(donor.job, takes[i].step ? first : 0);
        assert_int_equal(donor.step, takes[i].step);
        assert_int_equal(donor.coarse, takes[i].coarse);
        assert_int_equal(kiln_metric_count(KILN_METRIC_DONOR_LOOKUPS, KILN_DONOR_HIT) - hits,
                         takes[i].step > 0);
        assert_int_equal(kiln_metric_count(KILN_METRIC_DONOR_LOOKUPS, KILN_DONOR_MISS) - misses,
                         takes[i].step == 0);
    }
    kiln_cache_close(cache);
    free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_reading_takes_several_pages, connect_writers,
                                        disconnect_writers),
        cmocka_unit_test_setup_teardown(a_round_of_changes_takes_several_pages, connect_writers,
                                        disconnect_writers),
        cmocka_unit_test_setup_teardown(another_reader_takes_over_between_pages, connect_writers,
                                        disconnect_writers),
        cmocka_unit_test_setup_teardown(two_looks_later_all_is_in_memory, connect_writers,
                                        disconnect_writers),
        cmocka_unit_test_setup_teardown(two_models_of_one_name_take_turns, connect_writers,
                                        disconnect_writers),
        cmocka_unit_test_setup_teardown(an_older_worker_begins_at_the_full_size, connect_writers,
                                        disconnect_writers),
    };
    return cmocka_run_group_tests(tests, start, kiln_rig_stop);
}
