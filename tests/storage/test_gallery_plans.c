/* test_gallery_plans.c - no statement of the gallery reads a table from end to end.
 *
 * As test_ledger_plans: auto_explain logs the plan of each statement.  The tables have 60,000
 * pictures, but no statistics of their words, which a growing gallery does not have either.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/ledger/gallery/fingerprints.h"
#include "storage/ledger/gallery/follow.h"
#include "storage/ledger/gallery/gallery.h"
#include "storage/ledger/gallery/prompts.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/safety/review.h"
#include "storage/ledger/safety/unrated.h"
#include "tests/support/gallery.h"
#include "tests/support/rig.h"

static struct kiln_ledger *session;

static void follow_all(void)
{
    struct kiln_follower *follower;
    struct kiln_follower_progress progress = {.more = true};
    kiln_test_ok(kiln_follower_open(rig.stack->config, "follower",
                                    &(struct kiln_follower_options){0}, &follower, &rig.err),
                 rig.err);
    while (progress.more)
        kiln_test_ok(kiln_follower_step(follower, &progress, &rig.err), rig.err);
    free(kiln_test_sql(rig.stack, "UPDATE image SET safety_flag = 0 WHERE job_id % 1000 = 5"));
    do
        kiln_test_ok(kiln_follower_step(follower, &progress, &rig.err), rig.err);
    while (progress.more);
    kiln_follower_close(follower);
}

static int start(void **state)
{
    int rc = kiln_rig_start(state);
    kiln_test_restart(rig.stack, KILN_TEST_POSTGRES,
                      (const char *const[]){"-c", "session_preload_libraries=auto_explain", "-c",
                                            "auto_explain.log_min_duration=0", "-c",
                                            "autovacuum=off", NULL});
    kiln_test_many_shown(rig.stack);
    free(kiln_test_sql(rig.stack, "ANALYZE image, job, batch, object"));
    follow_all();
    return rc ? rc : kiln_ledger_open_reading(rig.stack->config, "gallery", 0, &session, &rig.err);
}

static int stop(void **state)
{
    kiln_ledger_close(session);
    return kiln_rig_stop(state);
}

static int ignore(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    (void)arg, (void)tile, (void)err;
    return 0;
}

static int ignore_picture(void *arg, const struct kiln_gallery_picture *picture,
                          struct kiln_error *err)
{
    (void)arg, (void)picture, (void)err;
    return 0;
}

static int ignore_day(void *arg, const struct kiln_gallery_day *day, struct kiln_error *err)
{
    (void)arg, (void)day, (void)err;
    return 0;
}

static void ask(const char *words, const char *tenant, enum kiln_gallery_order order)
{
    struct kiln_gallery_page page;
    int64_t back_to_ms;
    uint32_t count;
    bool more;
    struct kiln_gallery_query query = {
        .filter = {.pool = "p", .tenant = tenant, .show_unchecked = true},
        .words = words,
        .order = order,
        .rows_max = 48,
        .budget_ms = 5000};
    kiln_test_ok(kiln_gallery_list(session, &query, ignore, NULL, &page, &rig.err), rig.err);
    if (page.newer[0] && order == KILN_GALLERY_NEWEST) {
        char cursor[KILN_GALLERY_CURSOR_MAX];
        snprintf(cursor, sizeof cursor, "%s", page.newer);
        query.cursor = cursor;
        kiln_test_ok(kiln_gallery_list(session, &query, ignore, NULL, &page, &rig.err), rig.err);
    }
    kiln_test_ok(kiln_gallery_count(session, &query, &count, &more, &rig.err), rig.err);
    kiln_test_ok(kiln_gallery_days(session, &query, ignore_day, NULL, &back_to_ms, &rig.err),
                 rig.err);
}

/* The plan that was logged last for a statement with these words. */
static void expect(const char *log, const char *words, const char *index, const char *never)
{
    const char *last = NULL;
    for (const char *at = log; (at = strstr(at, words)) != NULL; at++)
        last = at;
    if (!last)
        fail_msg("no plan for: %s", words);
    const char *end = strstr(last, "LOG:  ");
    char *plan = strndup(last, end ? (size_t)(end - last) : strlen(last));
    assert_non_null(plan);
    if (!strstr(plan, index) || strstr(plan, never))
        fail_msg("%.0s...%s\nexpected %s, and not %s", plan,
                 plan + (strlen(plan) > 800 ? strlen(plan) - 800 : 0), index, never);
    free(plan);
}

/* Of statements with these words. */
static int plans(const char *words)
{
    char *log = kiln_test_postgres_log(rig.stack);
    int count = 0;
    for (const char *at = log; (at = strstr(at, words)) != NULL; at++)
        count++;
    free(log);
    return count;
}

static void never(const char *words)
{
    if (plans(words) > 0)
        fail_msg("there is a plan for: %s", words);
}

static int ignore_review(void *arg, const struct kiln_review_row *row, struct kiln_error *err)
{
    (void)arg, (void)row, (void)err;
    return 0;
}

static int ignore_unrated(void *arg, const struct kiln_unrated_picture *picture,
                          struct kiln_error *err)
{
    (void)arg, (void)picture, (void)err;
    return 0;
}

/* Levels of safety, with opinions on one picture in a hundred. */
static void review_all(void)
{
    struct kiln_page page = {.rows_max = 24, .keys = 1, .after = {INT64_MAX}};
    uint32_t count;
    uint64_t below;
    free(kiln_test_sql(rig.stack,
                       "INSERT INTO safety_verdict (job_id, level, rank, source) SELECT job_id, 1,"
                       " 0, 'rule:1' FROM image WHERE job_id % 100 = 7; UPDATE image SET"
                       " safety_flag = 1, safety_source = 'rule:1' WHERE job_id % 100 = 7"));
    free(kiln_test_sql(rig.stack, "ANALYZE image, safety_verdict"));
    kiln_test_ok(
        kiln_ledger_review(session, "p", KILN_REVIEW_WAITING, &page, ignore_review, NULL, &rig.err),
        rig.err);
    kiln_test_ok(kiln_ledger_review_count(session, "p", 100, &count, &rig.err), rig.err);
    assert_int_equal(count, 100);
    kiln_test_ok(kiln_ledger_unrated(session, "p", "model:a", INT64_MAX, 16, ignore_unrated, NULL,
                                     &below, &rig.err),
                 rig.err);
}

static int ignore_print(void *arg, const struct kiln_fingerprint_row *row, struct kiln_error *err)
{
    (void)arg, (void)row, (void)err;
    return 0;
}

/* Pictures that all have fingerprints, and the same file; in a session of the background's kind. */
static void look_at_fingerprints(uint64_t last)
{
    uint64_t same[48];
    uint32_t count;
    free(kiln_test_sql(rig.stack,
                       "INSERT INTO gallery_picture (job_id, file) SELECT job_id, 1 FROM image"));
    free(kiln_test_sql(rig.stack, "ANALYZE gallery_picture"));
    kiln_test_ok(kiln_gallery_same(session, &(struct kiln_gallery_filter){.pool = "p"}, last, 48,
                                   same, &count, &rig.err),
                 rig.err);
    assert_int_equal(count, 48);
    kiln_test_ok(
        kiln_gallery_fingerprints_below(rig.ledger, last, 500, ignore_print, NULL, &rig.err),
        rig.err);
    kiln_test_ok(kiln_gallery_fingerprints_of(rig.ledger, &last, 1, ignore_print, NULL, &rig.err),
                 rig.err);
}

static int ignore_tokens(void *arg, size_t place, const uint8_t *tokens, size_t size,
                         struct kiln_error *err)
{
    (void)arg, (void)place, (void)tokens, (void)size, (void)err;
    return 0;
}

static int ignore_stored(void *arg, const char *prompt_hash, const uint8_t *tokens, size_t size,
                         struct kiln_error *err)
{
    (void)arg, (void)prompt_hash, (void)tokens, (void)size, (void)err;
    return 0;
}

/* Planned while the table is empty, when any way seems to be cheap. */
static void read_tokens(void)
{
    const struct kiln_prompt_hash prompt = {"any"};
    uint32_t block = 0;
    bool more;
    kiln_test_ok(kiln_gallery_tokens(session, "a", &prompt, 1, ignore_tokens, NULL, &rig.err),
                 rig.err);
    kiln_test_ok(
        kiln_gallery_tokens_walk(session, "a", 256, &block, &more, ignore_stored, NULL, &rig.err),
        rig.err);
}

static int ignore_name(void *arg, const char *filter, const char *name, struct kiln_error *err)
{
    (void)arg, (void)filter, (void)name, (void)err;
    return 0;
}

static void every_question_finds_its_index(void **state)
{
    (void)state;
    struct kiln_gallery_filter filter = {.pool = "p", .show_unchecked = true};
    ask(NULL, NULL, KILN_GALLERY_NEWEST);
    ask(NULL, "eve", KILN_GALLERY_NEWEST);
    ask("round ", NULL, KILN_GALLERY_NEWEST);
    never("SELECT t.job_id FROM gallery_text t WHERE"); /* of words that many have */
    const int walks = plans("FROM gallery_text  WHERE job_id < $18");
    assert_true(walks > 0);
    free(kiln_test_sql(rig.stack, "VACUUM gallery_text")); /* counts its rows, but no words */
    ask("odd ", NULL, KILN_GALLERY_NEWEST); /* one picture in a hundred */
    assert_int_equal(plans("FROM gallery_text  WHERE job_id < $18"), walks);
    ask("rare ", NULL, KILN_GALLERY_NEWEST);
    ask("rare ", "bob", KILN_GALLERY_NEWEST);
    ask("odd ", NULL, KILN_GALLERY_RELEVANCE);
    uint32_t waiting;
    kiln_test_ok(kiln_gallery_waiting(session, "p", &waiting, &rig.err), rig.err);
    uint64_t job = (uint64_t)kiln_test_count(rig.stack, "SELECT max(job_id) FROM image");
    kiln_test_ok(kiln_gallery_picture(session, &filter, job, ignore_picture, NULL, &rig.err),
                 rig.err);
    kiln_test_ok(kiln_gallery_children(session, &filter, job, 24, ignore, NULL, &rig.err), rig.err);
    kiln_test_ok(kiln_gallery_names(session, &filter, 30, ignore_name, NULL, &rig.err), rig.err);
    review_all();
    look_at_fingerprints(job);
    read_tokens();
    char *log = kiln_test_postgres_log(rig.stack);
    expect(log, "SELECT i.job_id, i.job_id, coalesce(i.safety_flag", "using image_review",
           "Seq Scan on image");
    expect(log, "(SELECT FROM image i WHERE i.pool", "using image_review", "Seq Scan on image");
    expect(log, "WITH slice AS MATERIALIZED", "Backward using image_pkey", "Seq Scan on image");
    expect(log, "WITH slice AS MATERIALIZED", "safety_verdict_job", "Seq Scan on safety_verdict");
    expect(log, "(SELECT job_id FROM image  WHERE job_id < $18::bigint",
           "Backward using image_pkey", "Seq Scan on image");
    expect(log, "(SELECT job_id FROM image  WHERE job_id < $18::bigint", "using image_pkey",
           "Sort Key");
    expect(log, "(SELECT job_id FROM image  WHERE job_id > $18::bigint", "using image_pkey",
           "Seq Scan on image");
    expect(log, "(SELECT job_id FROM gallery_text  WHERE job_id < $18",
           "Index Scan Backward using gallery_text_pkey", "gallery_text_words");
    expect(log, "(SELECT job_id FROM gallery_text  WHERE job_id < $18", "using image_pkey",
           "Seq Scan");
    expect(log, "(SELECT job_id FROM gallery_text  WHERE job_id > $18", "using gallery_text_pkey",
           "Seq Scan");
    expect(log, "level FROM gallery_text WHERE   tsv", "gallery_text_words",
           "Seq Scan on gallery_text");
    expect(log, "level FROM gallery_text WHERE   tsv", "using image_pkey", "Seq Scan on image");
    /* Two conditions of one scan, the parts first (windows.h). */
    expect(log, "level FROM gallery_text WHERE tsv", "Cond: ((tsv @@ $24) AND (tsv @@ $17))",
           "BitmapAnd");
    expect(log, "level FROM gallery_text WHERE tsv", "using image_pkey", "Seq Scan on image");
    expect(log, "FROM gallery_text t WHERE tsv @@ $10", "AND (tsv @@ $3))", "BitmapAnd");
    expect(log, "SELECT t.job_id FROM gallery_text t WHERE t.tsv", "gallery_text_words",
           "Seq Scan");
    expect(log, "WITH ORDINALITY AS g (id, n) CROSS JOIN LATERAL (SELECT i.*", "using image_pkey",
           "Seq Scan on image");
    expect(log, "WITH ORDINALITY AS g (id, n) CROSS JOIN LATERAL (SELECT i.*", "object_pkey",
           "Seq Scan on object");
    expect(log, "ts_rank(tsv", "gallery_text_pkey", "Seq Scan");
    expect(log, "(SELECT 1) one LEFT JOIN gallery_state", "using gallery_text_pkey", "Anti Join");
    expect(log, "SELECT b.reached, d.day", "using gallery_text_pkey", "Seq Scan");
    expect(log, "FROM gallery_text t WHERE t.tsv @@ $3", "gallery_text_words", "Seq Scan");
    expect(log, "UNION SELECT v.job_id", "gallery_picture_file", "Seq Scan");
    expect(log, "WHERE ctid >= $2::tid", "Tid Range Scan on gallery_vector", "Index Scan");
    expect(log, "WITH ORDINALITY AS w (hash, place)", "using gallery_vector_pkey", "Seq Scan");
    expect(log, "SELECT i.safety_score", "image_prompt_hash", "Seq Scan on image");
    expect(log, "SELECT i.safety_score", "job_parent", "Seq Scan on job");
    expect(log, "SELECT c.id FROM job c JOIN image v", "job_parent", "Seq Scan on job");
    expect(log, "WITH newest AS MATERIALIZED", "Backward using image_pkey", "Seq Scan on image");
    /* Those of the background, in a session with generic plans. */
    static const char *const pages[] = {
        "FROM (SELECT * FROM (SELECT job_id, pool FROM image WHERE job_id <",
        "FROM (SELECT job_id, pool FROM image WHERE job_id ="};
    for (int i = 0; i < 2; i++) {
        expect(log, pages[i], "using image_pkey", "Bitmap");
        expect(log, pages[i], "using gallery_picture_pkey", "Hash");
        expect(log, pages[i], "One-Time Filter: (gallery_picture.job_id IS NULL)", "Merge");
    }
    expect(log, "SELECT changed, job_id FROM ((SELECT", "image_changed", "Seq Scan");
    expect(log, "SELECT changed, job_id FROM ((SELECT", "image_change_pkey", "Seq Scan");
    /* With a second bound its scan may begin at the first row of the table. */
    expect(log, "SELECT changed, job_id FROM ((SELECT", "(ROW(changed, job_id) > ROW(",
           "changed >=");
    expect(log, "SELECT 0, job_id FROM ((SELECT", "using image_pkey", "Seq Scan");
    expect(log, "FROM image i LEFT JOIN job j ON j.id = i.job_id", "image_pkey", "Seq Scan");
    expect(log, "WITH was AS MATERIALIZED", "gallery_text_pkey", "Seq Scan");
    free(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_question_finds_its_index),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
