/* test_ledger_plans.c - no statement of the queue reads the job table from end to end.
 *
 * auto_explain logs the plan of every statement the ledger really runs.  The statements are first
 * run on empty tables, so that the connection holds plans made when nothing was known; then 200,000
 * jobs arrive and the same statements run again.  The log must name the index each of them was
 * written for and hold no sequential scan of job.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/ledger/queue/source.h"
#include "storage/ledger/read/batch.h"
#include "storage/ledger/read/cache.h"
#include "storage/ledger/read/ops.h"
#include "storage/ledger/upkeep/garbage.h"
#include "tests/support/jobs.h"
#include "tests/support/stack.h"
#include "tests/support/worker_process.h"

#define JOBS 200000

static struct kiln_test_stack *stack;
static struct kiln_ledger *ledger;
static struct kiln_error err;

static int start(void **state)
{
    (void)state;
    stack = kiln_test_stack_start(KILN_STACK_TABLES);
    kiln_test_restart(stack, KILN_TEST_POSTGRES,
                      (const char *const[]){"-c", "session_preload_libraries=auto_explain", "-c",
                                            "auto_explain.log_min_duration=0", "-c",
                                            "auto_explain.log_analyze=on", "-c",
                                            "auto_explain.log_timing=off", NULL});
    return kiln_ledger_open(stack->config, "test", &ledger, &err);
}

static int stop(void **state)
{
    (void)state;
    kiln_ledger_close(ledger);
    kiln_test_stack_stop(stack);
    return 0;
}

/* The last logged plan whose statement contains the words: from there to the next log entry. */
static char *plan_of(const char *log, const char *words)
{
    const char *last = NULL;
    for (const char *at = log; (at = strstr(at, words)) != NULL; at++)
        last = at;
    if (!last)
        fail_msg("no plan for: %s", words);
    const char *end = strstr(last, "LOG:  ");
    char *plan = strndup(last, end ? (size_t)(end - last) : strlen(last));
    assert_non_null(plan);
    return plan;
}

static void expect_index(const char *log, const char *words, const char *index)
{
    char *plan = plan_of(log, words);
    if (!strstr(plan, index) || strstr(plan, "Seq Scan on job"))
        fail_msg("%s\nexpected %s and no Seq Scan on job", plan, index);
    free(plan);
}

static uint64_t first_id;

static int note_id(void *arg, const struct kiln_waiting *job)
{
    uint64_t *ids = arg;
    for (int i = 0; i < 64; i++)
        if (ids[i] == 0) {
            ids[i] = job->id;
            break;
        }
    return 0;
}

static int ignore_held(void *arg, const struct kiln_assigned_job *held)
{
    (void)arg;
    (void)held;
    return 0;
}

static int ignore_asking(void *arg, const struct kiln_job *job)
{
    (void)arg, (void)job;
    return 0;
}

/* One job that comes twice: both statements of the intake. */
static void insert_again(void)
{
    struct kiln_new_job *jobs = kiln_test_jobs("again", 1);
    uint64_t inserted = 0;
    for (int i = 0; i < 2; i++)
        kiln_test_ok(kiln_ledger_insert_jobs(ledger, "p", jobs, 1, &inserted, &err), err);
    assert_in_range(inserted, 0, 1);
    kiln_test_jobs_free(jobs, 1);
}

/* Each statement of the queue once, on whatever is there. */
static void run_everything(const char *batch)
{
    struct kiln_job jobs[64], nobody = {.id = 1, .prompt = "", .negative_prompt = ""};
    struct kiln_test_picture picture;
    static const char *const keys[2] = {"k1", "new"};
    const int64_t wishes[2] = {-1, 7};
    int64_t indexes[2];
    uint64_t ids[65] = {0}, moved;
    size_t count = 0;
    bool ours;
    int states[64];
    kiln_test_ok(kiln_ledger_number(ledger, "p", "big", keys, wishes, 2, indexes, &err), err);
    kiln_test_ok(kiln_ledger_waiting(ledger, "p", first_id, 64, note_id, ids, &err), err);
    kiln_test_ok(kiln_ledger_asking(ledger, "p", ids, 64, ignore_asking, NULL, &err), err);
    kiln_test_ok(kiln_ledger_assign(ledger, "w0", batch, ids, 64, jobs, &count, &err), err);
    kiln_test_ok(kiln_ledger_assigned(ledger, "p", ignore_held, NULL, &err), err);
    kiln_test_ok(kiln_ledger_still_ours(ledger, count ? jobs : &nobody, 1, &ours, &err), err);
    kiln_test_picture(&picture, count ? jobs : &nobody);
    kiln_test_ok(kiln_ledger_commit(ledger, &picture.commit, &ours, &err), err);
    struct kiln_return back = {count ? jobs[1].id : 1, 1, KILN_DEVICE, "trouble", false, true};
    kiln_test_ok(kiln_ledger_return(ledger, &back, 1, states, &err), err);
    if (count) {
        kiln_test_ok(kiln_ledger_cancel(ledger, "p", jobs[2].id, NULL, &moved, &err), err);
        kiln_test_ok(kiln_ledger_retry(ledger, "p", jobs[2].id, NULL, &moved, &err), err);
    }
    uint64_t cursor = 0, forgotten;
    bool more;
    kiln_test_ok(kiln_ledger_forget(ledger, "p", 90, &cursor, &forgotten, &more, &err), err);
    insert_again();
    for (size_t i = 0; i < count; i++)
        kiln_job_release(&jobs[i]);
}

static void fill_the_table(void)
{
    free(kiln_test_sql(
        stack, "INSERT INTO batch (pool, name) VALUES ('p', 'big') ON CONFLICT DO NOTHING"));
    free(kiln_test_sql(
        stack, "INSERT INTO job (batch_id, seed, guidance, index, width, height, steps, max_wait_s,"
               " priority, kind, latents, teleport, embed_metadata, lora_auto, pool, key, token,"
               " prompt, negative_prompt, tenant, model, loras, lora_set)"
               " SELECT (SELECT id FROM batch WHERE name = 'big'), i, 0, i, 256, 256, 8, 0, 0, 0,"
               " 0, 0, false, false, 'p', 'k' || i, 't', 'a picture', '', 'x', '', '[]', ''"
               " FROM generate_series(1, 200000) i"));
    first_id = (uint64_t)kiln_test_count(stack, "SELECT max(id) - 1000 FROM job");
}

static void every_statement_uses_its_index(void **state)
{
    (void)state;
    uint64_t moved;
    run_everything("before");
    kiln_test_insert(ledger, "early", 3);
    fill_the_table();
    run_everything("after");
    kiln_test_insert(ledger, "late", 2000);
    kiln_test_ok(kiln_ledger_cancel(ledger, "p", 0, "big", &moved, &err), err);
    assert_int_equal(moved, JOBS - 2); /* one done, one failed */
    kiln_test_ok(kiln_ledger_retry(ledger, "p", 0, "late", &moved, &err), err);
    char *log = kiln_test_postgres_log(stack);
    expect_index(log, "FROM job WHERE pool = $1 AND waits", "Index Scan using job_waits");
    expect_index(log, "WHERE j.pool = $1 AND j.waits", "Index Scan using job_waits");
    expect_index(log, "DELETE FROM assignment", "Index Scan using job_pkey");
    expect_index(log, "FOR UPDATE SKIP LOCKED", "Index Scan using job_pkey");
    expect_index(log, "INSERT INTO image", "Index Scan using job_pkey");
    expect_index(log, "make_interval", "Index Scan using job_pkey");
    expect_index(log, "LEFT JOIN job j ON j.id = g.id", "Index Scan using job_pkey");
    expect_index(log, "tries = 0", "Index Scan using job_pkey");
    expect_index(log, "ORDER BY key LIMIT", "Index Scan using job_batch_id_key_key");
    expect_index(log, "ARRAY(SELECT id FROM page)", "Index Scan using job_pkey");
    expect_index(log, "WITH ORDINALITY AS g (key, wish, n)", "job_batch_id_key_key");
    expect_index(log, "WITH ORDINALITY AS g (key, wish, n)", "job_index");
    expect_index(log, "DELETE FROM event", "using event_pkey");
    expect_index(log, "ON CONFLICT (batch_id, key) DO NOTHING", "job_batch_id_key_key");
    free(log);
}

static int ignore_job(void *arg, const struct kiln_job_row *row, struct kiln_error *error)
{
    (void)row, (void)error;
    ++*(int *)arg;
    return 0;
}

static int ignore_group(void *arg, const struct kiln_group_row *group, struct kiln_error *error)
{
    (void)arg, (void)group, (void)error;
    return 0;
}

static int ignore_cause(void *arg, const struct kiln_cause_row *cause, struct kiln_error *error)
{
    (void)arg, (void)cause, (void)error;
    return 0;
}

static int count_sort(void *arg, const struct kiln_waiting_row *sort, struct kiln_error *error)
{
    (void)sort, (void)error;
    ++*(int *)arg;
    return 0;
}

static int ignore_worker(void *arg, const struct kiln_worker_row *worker, struct kiln_error *error)
{
    (void)arg, (void)worker, (void)error;
    return 0;
}

/* A reading session may scan tables, but a question for a few jobs still finds them by index. */
static void questions_of_people_find_their_index(void **state)
{
    (void)state;
    struct kiln_ledger *session = NULL;
    struct kiln_progress progress;
    int listed = 0, sorts = 0;
    free(kiln_test_sql(stack, "UPDATE job SET gone = true WHERE index < 3 AND batch_id ="
                              " (SELECT id FROM batch WHERE name = 'late')"));
    free(kiln_test_sql(stack, "ANALYZE"));
    kiln_test_ok(kiln_ledger_open_reading(stack->config, "people", 0, &session, &err), err);
    kiln_test_ok(kiln_ledger_jobs(session, "p", "late", -1, ignore_job, &listed, &err), err);
    assert_int_equal(listed, 2000);
    kiln_test_ok(kiln_ledger_job(session, "p", first_id, ignore_job, &listed, &err), err);
    kiln_test_ok(kiln_ledger_groups(session, "p", ignore_group, NULL, &err), err);
    kiln_test_ok(kiln_ledger_causes(session, "p", NULL, 0, ignore_cause, NULL, &err), err);
    kiln_test_ok(kiln_ledger_workers(session, "p", ignore_worker, NULL, &err), err);
    kiln_test_ok(kiln_ledger_progress(session, "p", "late", &progress, &err), err);
    kiln_test_ok(kiln_ledger_gone_counts(session, "p", "late", &progress.gone, &err), err);
    assert_int_equal(progress.gone.at[KILN_JOB_QUEUED], 3);
    assert_int_equal(progress.gone.at[KILN_JOB_DONE], 0);
    kiln_test_ok(kiln_ledger_jobs(session, "p", NULL, -1, ignore_job, &listed, &err), err);
    kiln_test_ok(kiln_ledger_waiting_sorts(session, "p", "late", true, count_sort, &sorts, &err),
                 err);
    assert_in_range(sorts, 1, 2000);
    kiln_ledger_close(session);
    char *log = kiln_test_postgres_log(stack);
    expect_index(log, "WHERE j.batch_id = $1 AND ($2 < 0 OR j.state = $2) AND j.id >", "job_pkey");
    expect_index(log, "WHERE j.pool = $1 AND ($2 < 0 OR j.state = $2) AND j.id >", "job_pkey");
    expect_index(log, "WHERE j.id = $1 AND j.pool = $2", "job_pkey");
    expect_index(log, "DECLARE kiln_rows NO SCROLL CURSOR FOR SELECT model, lora_set", "job_pkey");
    expect_index(log, "WHERE batch_id = $1::bigint AND gone", "job_gone");
    expect_index(log, "WITH failed AS (SELECT error_code", "job_trouble");
    expect_index(log, "FROM worker w WHERE w.pool = $1 ORDER BY w.name", "job_pkey");
    expect_index(log, "(pool, id) >= ($1, coalesce(", "using job_waits");
    expect_index(log, "(pool, id) >= ($1, coalesce(", "using job_index");
    free(log);
}

/* The most rows that a step of the plan took or passed over. */
static long most_rows(const char *plan)
{
    static const char *const words[] = {
        "(actual rows=", "Rows Removed by Filter: ", "Rows Removed by Join Filter: "};
    long most = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (const char *at = plan; (at = strstr(at, words[i])) != NULL; at++) {
            long rows = strtol(at + strlen(words[i]), NULL, 10);
            most = rows > most ? rows : most;
        }
    return most;
}

/* No step of the last plan of any of the statements went over more rows than a page has. */
static void expect_pages(const char *const *words, size_t count)
{
    char *log = kiln_test_postgres_log(stack);
    for (size_t i = 0; i < count; i++) {
        char *plan = plan_of(log, words[i]);
        if (most_rows(plan) > 2000)
            fail_msg("%s\na step of a page went over %ld rows", plan, most_rows(plan));
        free(plan);
    }
    free(log);
}

typedef int drop_page(struct kiln_ledger *ledger, const struct kiln_drop *what, uint64_t *cursor,
                      uint64_t *ret_jobs, bool *ret_more, struct kiln_error *error);

static int count_object(void *arg, uint64_t job, const char *key, uint64_t bytes,
                        struct kiln_error *error)
{
    (void)job, (void)key, (void)bytes, (void)error;
    ++*(uint64_t *)arg;
    return 0;
}

/* All pages; the number of them.  *ret_jobs: what was dropped. */
static int drop_all(drop_page *drop, uint64_t *ret_jobs)
{
    uint64_t cursor = 0, jobs, objects = 0;
    struct kiln_drop what = {.pool = "p", .age_s = 86400, .each = count_object, .arg = &objects};
    bool more = true;
    int pages = 0;
    for (*ret_jobs = 0; more; pages++, *ret_jobs += jobs)
        kiln_test_ok(drop(ledger, &what, &cursor, &jobs, &more, &err), err);
    assert_int_equal(objects, *ret_jobs); /* each of them has one here */
    return pages;
}

/* Whatever is old or not, a page costs the same: gc is no longer the slower the more is young. */
static void a_page_of_garbage_reads_a_page(void **state)
{
    (void)state;
    static const char *const words[] = {"SELECT job_id, batch_id, created_at FROM image",
                                        "FROM latent WHERE job_id >",
                                        "SELECT id, pool, state, finished_at FROM job"};
    uint64_t jobs, cursor = 0, dropped;
    drop_all(kiln_ledger_drop_pictures, &jobs); /* plans of tables with next to nothing in them */
    drop_all(kiln_ledger_drop_latents, &jobs);
    free(kiln_test_sql(
        stack,
        "BEGIN; SET LOCAL session_replication_role = replica;"
        " UPDATE batch SET created_at = now() - interval '9 days' WHERE name = 'big';"
        " CREATE TEMP TABLE g ON COMMIT DROP AS SELECT id, row_number() OVER (ORDER BY id) AS n,"
        "  batch_id FROM job WHERE batch_id = (SELECT id FROM batch WHERE name = 'big')"
        "  AND NOT EXISTS (SELECT FROM image WHERE job_id = id) ORDER BY id LIMIT 190000;"
        " UPDATE job SET kind = 1 WHERE id IN (SELECT id FROM g WHERE n > 100000);"
        " INSERT INTO image (job_id, batch_id, created_at, seed, guidance, width, height, steps,"
        "  attempt, wait_ms, text_ms, denoise_ms, decode_ms, encode_ms, upload_ms, pool, prompt,"
        "  negative_prompt, prompt_hash, model, model_name, model_hash, loras, lora_set, tenant,"
        "  worker) SELECT id, batch_id, now() - CASE WHEN n <= 500 THEN interval '8 days'"
        "  ELSE '0' END, n, 0, 256, 256, 8, 1, 0, 0, 0, 0, 0, 0, 'p', 'a', '', 'h' || n, '', 'm',"
        "  'm', '[]', '', 'x', 'w' FROM g WHERE n <= 100000;"
        " INSERT INTO latent (job_id, created_at, sigma, seed, guidance, width, height, steps,"
        "  states, shape, key, encoding, model, model_hash, lora_set, prompt_hash)"
        "  SELECT id, now() - CASE WHEN n <= 100500 THEN interval '8 days' ELSE '0' END, 0, n, 0,"
        "  256, 256, 8, 1, '{16,32,32}', 'k' || id, 'zstd', '', 'm', '', 'h' || n FROM g"
        "  WHERE n > 100000;"
        " INSERT INTO object (job_id, bytes, width, height, role, key, sha256, content_type)"
        "  SELECT id, 1, 256, 256, 'full', 'k' || id, 's', 'c' FROM g; COMMIT"));
    free(kiln_test_sql(stack, "ANALYZE image, latent, object, job, favourite"));
    assert_in_range(drop_all(kiln_ledger_drop_pictures, &jobs), 100000 / 2000, 100000 / 2000 + 4);
    assert_int_equal(jobs, 500);
    assert_in_range(drop_all(kiln_ledger_drop_latents, &jobs), 90000 / 2000, 90000 / 2000 + 4);
    assert_int_equal(jobs, 500);
    for (bool more = true; more;)
        kiln_test_ok(
            kiln_ledger_drop_cancelled(ledger, "p", 86400, true, &cursor, &dropped, &more, &err),
            err);
    expect_pages(words, sizeof words / sizeof *words);
}

#define GROUP "model, model_hash, width, height, lora_set"

static int add_latents(void *arg, const struct kiln_cache_row *row, struct kiln_error *error)
{
    struct kiln_cache_row *sum = arg;
    (void)error;
    assert_true(sum->latents == 0 || row->latents <= sum->states); /* the most first */
    sum->states = row->latents;
    sum->latents += row->latents;
    sum->prompts += row->prompts;
    sum->width++; /* groups */
    return 0;
}

/* Follows the test above, whose 89,500 latents are left, each of a prompt of its own: one prompt
 * gets 3,000 more in ten sizes, which is more than a page. */
static void the_cache_is_summed_in_pages(void **state)
{
    (void)state;
    struct kiln_cache_row sum = {0};
    const int64_t latents = kiln_test_count(stack, "SELECT count(*) FROM latent");
    assert_in_range(latents, 80000, 100000);
    free(kiln_test_sql(
        stack,
        "BEGIN; CREATE TEMP TABLE g ON COMMIT DROP AS SELECT id, row_number() OVER (ORDER BY id) AS"
        "  n FROM job WHERE batch_id = (SELECT id FROM batch WHERE name = 'big') AND NOT EXISTS"
        "  (SELECT FROM latent WHERE job_id = id) AND NOT EXISTS (SELECT FROM object WHERE job_id ="
        "  id) ORDER BY id LIMIT 3000;"
        " INSERT INTO object (job_id, bytes, width, height, role, key, sha256, content_type)"
        "  SELECT id, 1, 256, 256, 'latent', 'm' || id, 's', 'c' FROM g;"
        " INSERT INTO latent (job_id, sigma, seed, guidance, width, height, steps, states, shape,"
        "  key, encoding, model, model_hash, lora_set, prompt_hash) SELECT id, 0, n, 0,"
        "  64 + 16 * (n % 10), 64, 8, 1, '{16,32,32}', 'm' || id, 'zstd', '', 'm', '', 'h5000000'"
        "  FROM g; COMMIT; ANALYZE latent, object"));
    kiln_test_ok(kiln_ledger_cache(ledger, "p", add_latents, &sum, &err), err);
    assert_int_equal(sum.latents, latents + 3000);
    assert_int_equal(sum.prompts, /* the long one counts once a size */
                     kiln_test_count(stack, "SELECT sum(n) FROM (SELECT count(DISTINCT prompt_hash)"
                                            " AS n FROM latent GROUP BY " GROUP ") g"));
    assert_int_equal(
        sum.width,
        kiln_test_count(stack, "SELECT count(*) FROM (SELECT DISTINCT " GROUP " FROM latent) g"));
    memset(&sum, 0, sizeof sum);
    kiln_test_ok(kiln_ledger_cache(ledger, "another", add_latents, &sum, &err), err);
    assert_int_equal(sum.width, 0);
    char *log = kiln_test_postgres_log(stack);
    char *plan = plan_of(log, "count(DISTINCT l.prompt_hash)");
    if (!strstr(plan, "latent_look_up") || most_rows(plan) > 5000)
        fail_msg("%s\na page went over %ld rows", plan, most_rows(plan));
    free(plan);
    free(log);
}

static int note_popular(void *arg, const struct kiln_popular_row *row, struct kiln_error *error)
{
    struct kiln_popular_row *found = arg;
    (void)error;
    *found = *row;
    return 0;
}

/* Follows the test above: its prompt with 3,000 latents, 300 of them in this size, gets pictures.
 * What counts them does not read the rows of pictures, and of the latents no more than are asked
 * for. */
static void popular_prompts_come_from_an_index(void **state)
{
    (void)state;
    struct kiln_popular_row found = {0};
    struct kiln_ledger *session = NULL;
    free(kiln_test_sql(stack, "UPDATE image SET prompt_hash = 'h5000000', width = 64, height = 64"
                              " WHERE job_id IN (SELECT job_id FROM image WHERE pool = 'p' ORDER BY"
                              "  job_id DESC LIMIT 100)"));
    free(kiln_test_sql(stack, "VACUUM ANALYZE image"));
    kiln_test_ok(kiln_ledger_open_reading(stack->config, "people", 0, &session, &err), err);
    kiln_test_ok(kiln_ledger_popular(session, "p", 8, 20, 8, true, note_popular, &found, &err),
                 err);
    kiln_ledger_close(session);
    assert_string_equal(found.prompt_hash, "h5000000");
    assert_int_equal(found.pictures, 100);
    assert_int_equal(found.donors, 8);
    char *log = kiln_test_postgres_log(stack);
    char *plan = plan_of(log, "popular AS (SELECT");
    const char *latents = strstr(plan, "latent_look_up on latent");
    if (!strstr(plan, "Index Only Scan Backward using image_popular on image") || !latents ||
        most_rows(latents) > 8)
        fail_msg("%s\nexpected an index only scan of image_popular, and 8 latents", plan);
    free(plan);
    free(log);
}

/* Refusals, calls and keys of a batch go a page at a time, too. */
static void a_batch_goes_in_pages(void **state)
{
    (void)state;
    static const char *const words[] = {"DELETE FROM intake_refusal WHERE ctid",
                                        "DELETE FROM intake_call WHERE ctid",
                                        "DELETE FROM removed_job WHERE ctid"};
    static const char left[] =
        "SELECT (SELECT count(*) FROM intake_refusal) + (SELECT count(*) FROM intake_call) +"
        " (SELECT count(*) FROM removed_job)";
    struct kiln_removed removed;
    free(kiln_test_sql(
        stack,
        "BEGIN; INSERT INTO batch (pool, name) VALUES ('p', 'refused'), ('p', 'beside');"
        " INSERT INTO intake_refusal (batch_id, token, key, reason) SELECT b.id, 't' || i % 7,"
        "  'k' || i, 'bad' FROM batch b, generate_series(1, 30001) i WHERE name IN ('refused',"
        "  'beside');"
        " INSERT INTO intake_call (batch_id, token) SELECT b.id, 't' || i FROM batch b,"
        "  generate_series(1, 4000) i WHERE name IN ('refused', 'beside');"
        " INSERT INTO removed_job (batch_id, key) SELECT b.id, 'k' || i FROM batch b,"
        "  generate_series(1, 6001) i WHERE name IN ('refused', 'beside'); COMMIT;"
        " ANALYZE intake_refusal, intake_call, removed_job"));
    const int64_t before = kiln_test_count(stack, left);
    kiln_test_ok(kiln_ledger_remove_batch(ledger, "p", "refused", &removed, &err), err);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM batch WHERE name = 'refused'"),
                     0);
    assert_int_equal(before - kiln_test_count(stack, left), 30001 + 4000 + 6001);
    expect_pages(words, sizeof words / sizeof *words);
}

/* A commit changes no indexed column: it is written in place (HOT), on the page of its row. */
static void a_commit_touches_no_index_of_its_job(void **state)
{
    (void)state;
    enum { JOBS_HERE = 64 };
    static const char in_place[] =
        "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'job'";
    struct kiln_job jobs[JOBS_HERE];
    struct kiln_test_picture picture;
    uint64_t ids[JOBS_HERE + 1] = {0}, after;
    size_t count = 0;
    bool ours;
    after = (uint64_t)kiln_test_count(stack, "SELECT max(id) FROM job");
    kiln_test_insert(ledger, "in place", JOBS_HERE);
    kiln_test_ok(kiln_ledger_waiting(ledger, "p", after, JOBS_HERE, note_id, ids, &err), err);
    kiln_test_ok(kiln_ledger_assign(ledger, "w0", "in place", ids, JOBS_HERE, jobs, &count, &err),
                 err);
    assert_int_equal(count, JOBS_HERE);
    kiln_ledger_close(ledger); /* a session tells its counts at its end at the latest */
    ledger = NULL;
    kiln_test_ok(kiln_ledger_open(stack->config, "test", &ledger, &err), err);
    kiln_test_sleep_ms(100);
    long long before = kiln_test_count(stack, in_place);
    for (size_t i = 0; i < count; i++) {
        kiln_test_picture(&picture, &jobs[i]);
        kiln_test_ok(kiln_ledger_commit(ledger, &picture.commit, &ours, &err), err);
        kiln_job_release(&jobs[i]);
    }
    kiln_ledger_close(ledger);
    ledger = NULL;
    long long more = 0;
    for (int i = 0; i < 300 && more < JOBS_HERE * 9 / 10; i++) {
        kiln_test_sleep_ms(20);
        more = kiln_test_count(stack, in_place) - before;
    }
    print_message("%lld of %d commits in place\n", more, JOBS_HERE);
    assert_true(more >= JOBS_HERE * 9 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_statement_uses_its_index),
        cmocka_unit_test(questions_of_people_find_their_index),
        cmocka_unit_test(a_page_of_garbage_reads_a_page),
        cmocka_unit_test(the_cache_is_summed_in_pages),
        cmocka_unit_test(popular_prompts_come_from_an_index),
        cmocka_unit_test(a_batch_goes_in_pages),
        cmocka_unit_test(a_commit_touches_no_index_of_its_job),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
