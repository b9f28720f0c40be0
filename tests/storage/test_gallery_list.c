/* test_gallery_list.c - the pictures of a gallery, page by page: order, cursors, filters, levels.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <libpq-fe.h>

#include "storage/ledger/gallery/gallery.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/safety/verdict.h"
#include "tests/support/gallery.h"
#include "tests/support/rig.h"

#define PICTURES 30

static struct kiln_ledger *session;
static uint64_t made[PICTURES]; /* in the order in which they were made */

static int start(void **state)
{
    int rc = kiln_rig_start(state);
    for (int i = 0; rc == 0 && i < PICTURES; i++) {
        struct kiln_test_shown picture = {.seed = 18446744073709551615u - (unsigned)i};
        picture.level = i % 5 == 0 ? "2" : i % 5 == 1 ? "NULL" : "0";
        picture.width = i % 3 == 0 ? 512 : 256;
        picture.tenant = i % 2 ? "bob" : "ann";
        picture.mode = i % 4 == 0 ? "coarse=4+3" : i % 4 == 1 ? "start@0.5" : "";
        picture.lora = i % 6 == 0 ? "ink" : NULL;
        picture.style = i % 7 == 0 ? "noir" : NULL;
        picture.batch = i < 10 ? "early" : "late";
        picture.created = i < 20 ? "now() - interval '2 days'" : "now()";
        made[i] = kiln_test_shown(rig.stack, &picture);
    }
    return rc ? rc : kiln_ledger_open_reading(rig.stack->config, "gallery", 0, &session, &rig.err);
}

static int stop(void **state)
{
    kiln_ledger_close(session);
    return kiln_rig_stop(state);
}

struct seen {
    uint64_t jobs[PICTURES * 2];
    uint32_t count;
    struct kiln_gallery_tile last;
};

static int note(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    (void)err;
    struct seen *seen = arg;
    assert_true(seen->count < PICTURES * 2);
    seen->jobs[seen->count++] = tile->job;
    seen->last = *tile;
    return 0;
}

static struct kiln_gallery_query everything(void)
{
    return (struct kiln_gallery_query){
        .filter = {.pool = "p", .show_unchecked = true, .level_max = KILN_SAFETY_EXPLICIT},
        .rows_max = PICTURES,
        .budget_ms = 20000};
}

static void list(const struct kiln_gallery_query *query, struct seen *seen,
                 struct kiln_gallery_page *page)
{
    uint32_t before = seen->count;
    kiln_test_ok(kiln_gallery_list(session, query, note, seen, page, &rig.err), rig.err);
    assert_int_equal(page->rows, seen->count - before);
}

/* How many pictures the filter leaves. */
static uint32_t shown(const struct kiln_gallery_query *query)
{
    struct seen seen = {0};
    struct kiln_gallery_page page;
    list(query, &seen, &page);
    for (uint32_t i = 1; i < seen.count; i++)
        assert_true(seen.jobs[i] < seen.jobs[i - 1]);
    return seen.count;
}

static void pages_follow_each_other_both_ways(void **state)
{
    (void)state;
    struct kiln_gallery_query query = everything();
    struct kiln_gallery_page page = {.older = ""};
    struct seen down = {0}, up = {0};
    char newer[KILN_GALLERY_CURSOR_MAX];
    query.rows_max = 7;
    int pages = 0;
    do {
        query.cursor = page.older;
        list(&query, &down, &page);
        pages++;
    } while (page.older[0]);
    assert_int_equal(pages, 5);
    assert_int_equal(down.count, PICTURES);
    for (int i = 0; i < PICTURES; i++)
        assert_int_equal(down.jobs[i], made[PICTURES - 1 - i]);
    /* Back: each page holds the seven before the last one, newest first. */
    for (int at = 28; at > 0; at -= 7) {
        snprintf(newer, sizeof newer, "%s", page.newer);
        query.cursor = newer;
        up.count = 0;
        list(&query, &up, &page);
        assert_int_equal(up.count, 7);
        assert_memory_equal(up.jobs, down.jobs + at - 7, 7 * sizeof *up.jobs);
    }
    /* Nothing is newer yet; the cursor waits for what comes. */
    snprintf(newer, sizeof newer, "%s", page.newer);
    query.cursor = newer;
    up.count = 0;
    list(&query, &up, &page);
    assert_int_equal(up.count, 0);
    assert_true(page.newer[0] && page.older[0]);
    snprintf(newer, sizeof newer, "%s", page.newer);
    uint64_t job = kiln_test_shown(rig.stack, &(struct kiln_test_shown){.prompt = "new"});
    list(&query, &up, &page);
    assert_int_equal(up.count, 1);
    assert_int_equal(up.jobs[0], job);
    free(kiln_test_sql(rig.stack,
                       "DELETE FROM object WHERE job_id = (SELECT max(job_id) FROM image)"));
    free(kiln_test_sql(rig.stack, "DELETE FROM image WHERE prompt = 'new'"));
}

static void a_tile_says_what_the_page_needs(void **state)
{
    (void)state;
    struct kiln_gallery_query query = everything();
    struct kiln_gallery_page page;
    struct seen seen = {0};
    query.rows_max = 1;
    list(&query, &seen, &page);
    const struct kiln_gallery_tile *tile = &seen.last;
    assert_int_equal(tile->job, made[PICTURES - 1]);
    assert_string_equal(tile->seed, "18446744073709551586");
    assert_int_equal(tile->level, KILN_SAFETY_CLEAR);
    assert_int_equal(tile->colour, -1);
    assert_false(tile->starred);
    assert_int_equal(tile->full.bytes, 300);
    assert_int_equal(tile->medium.width, 128);
    assert_non_null(strstr(tile->small.key, "/256"));
    assert_true(tile->created_ms > 1600000000000);
}

/* Anybody who writes to the ledger may write such rows. */
static void an_odd_file_costs_itself_alone(void **state)
{
    (void)state;
    static const struct {
        const char *key; /* SQL, of size 512 */
        const char *got;
    } cases[] = {
        {"'with  blanks 1 2 3'", "with  blanks 1 2 3"},
        {"' blank'", " blank"},
        {"''", ""},
        {"E'two\\nfull 1 2 3 forged'", ""},
        {"repeat('k', 513)", ""},
    };
    struct kiln_gallery_query query = {
        .filter = {.pool = "odd", .show_unchecked = true, .level_max = KILN_SAFETY_LEVELS},
        .rows_max = 1};
    const uint64_t job =
        kiln_test_shown(rig.stack, &(struct kiln_test_shown){.prompt = "odd", .pool = "odd"});
    char sql[300];
    snprintf(sql, sizeof sql,
             "INSERT INTO object (job_id, bytes, width, height, role, key, sha256, content_type)"
             " SELECT job_id, 1, 1, 1, r, 'odd/' || r, 's', 'image/webp' FROM image,"
             " unnest('{a role,averylongnameofarole,1024}'::text[]) r WHERE job_id = %llu",
             (unsigned long long)job);
    free(kiln_test_sql(rig.stack, sql));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kiln_gallery_page page;
        struct seen seen = {0};
        snprintf(sql, sizeof sql, "UPDATE object SET key = %s WHERE role = '512' AND job_id = %llu",
                 cases[i].key, (unsigned long long)job);
        free(kiln_test_sql(rig.stack, sql));
        list(&query, &seen, &page);
        assert_int_equal(seen.count, 1);
        assert_string_equal(seen.last.medium.key, cases[i].got);
        assert_non_null(strstr(seen.last.full.key, "/full"));
        assert_non_null(strstr(seen.last.small.key, "/256"));
    }
}

static void filters_narrow(void **state)
{
    (void)state;
    struct kiln_gallery_query query = everything();
    assert_int_equal(shown(&query), PICTURES);
    query.filter.level_max = KILN_SAFETY_CLEAR;
    assert_int_equal(shown(&query), PICTURES * 4 / 5);
    query.filter.show_unchecked = false;
    assert_int_equal(shown(&query), PICTURES * 3 / 5);
    query = everything();
    query.filter.tenant = "bob";
    assert_int_equal(shown(&query), PICTURES / 2);
    query = everything();
    query.filter.width = 512, query.filter.height = 256;
    assert_int_equal(shown(&query), PICTURES / 3);
    query = everything();
    query.filter.aspect = KILN_GALLERY_WIDE;
    assert_int_equal(shown(&query), PICTURES / 3);
    query.filter.aspect = KILN_GALLERY_TALL;
    assert_int_equal(shown(&query), 0);
    query = everything();
    query.filter.mode = KILN_GALLERY_COARSE;
    assert_int_equal(shown(&query), 8);
    query.filter.mode = KILN_GALLERY_STARTED;
    assert_int_equal(shown(&query), 8);
    query.filter.mode = KILN_GALLERY_EXACT;
    assert_int_equal(shown(&query), 14);
    query = everything();
    query.filter.lora = "ink";
    assert_int_equal(shown(&query), 5);
    query = everything();
    query.filter.style = "noir";
    assert_int_equal(shown(&query), 5);
    query = everything();
    query.filter.batch = "early";
    assert_int_equal(shown(&query), 10);
    query = everything();
    query.filter.pool = "another";
    assert_int_equal(shown(&query), 0);
    kiln_test_shown(rig.stack, &(struct kiln_test_shown){.pool = "varied", .mode = "variety=0.3"});
    query.filter.pool = "varied"; /* neither exact nor from a picture */
    assert_int_equal(shown(&query), 1);
    query.filter.mode = KILN_GALLERY_STARTED;
    assert_int_equal(shown(&query), 0);
    query.filter.mode = KILN_GALLERY_EXACT;
    assert_int_equal(shown(&query), 0);
    query = everything();
    query.filter.from_ms =
        1000 * (int64_t)kiln_test_count(rig.stack, "SELECT extract(epoch FROM now() - interval"
                                                   " '1 day')::bigint");
    assert_int_equal(shown(&query), 10);
    query.filter.to_ms = query.filter.from_ms;
    query.filter.from_ms = 0;
    assert_int_equal(shown(&query), 20);
    query = everything();
    query.filter.starred = true;
    assert_int_equal(shown(&query), 0);
    free(kiln_test_sql(rig.stack, "INSERT INTO favourite SELECT min(job_id) FROM image"));
    assert_int_equal(shown(&query), 1);
    query = everything();
    query.filter.prompt_hash = "12e7c6a3b1a2d1cd5d5e34a1dbfa5a3d"; /* of none */
    assert_int_equal(shown(&query), 0);
}

static int note_name(void *arg, const char *filter, const char *name, struct kiln_error *err)
{
    struct kiln_text *names = arg;
    (void)err;
    kiln_text_printf(names, "%s=%s;", filter, name);
    return 0;
}

static void filters_have_names(void **state)
{
    (void)state;
    struct kiln_gallery_query query = everything();
    struct kiln_text all = {0}, one = {0}, hidden = {0};
    kiln_test_ok(kiln_gallery_names(session, &query.filter, 30, note_name, &all, &rig.err),
                 rig.err);
    static const char *const names[] = {"lora=ink;", "style=noir;", "tenant=bob;", "batch=early;"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_non_null(strstr(all.at, names[i]));
    assert_null(strstr(all.at, "=;"));
    kiln_test_ok(kiln_gallery_names(session, &query.filter, 1, note_name, &one, &rig.err), rig.err);
    const char *tenant = strstr(one.at, "tenant=");
    assert_non_null(tenant);
    assert_null(strstr(tenant + 1, "tenant="));
    query.filter.level_max = -1, query.filter.show_unchecked = false; /* nothing is shown */
    kiln_test_ok(kiln_gallery_names(session, &query.filter, 30, note_name, &hidden, &rig.err),
                 rig.err);
    assert_null(hidden.at);
    kiln_text_release(&all), kiln_text_release(&one);
}

static void a_cursor_belongs_to_its_query(void **state)
{
    (void)state;
    struct kiln_gallery_query query = everything();
    struct kiln_gallery_page page;
    struct seen seen = {0};
    char cursor[KILN_GALLERY_CURSOR_MAX];
    query.rows_max = 5;
    list(&query, &seen, &page);
    snprintf(cursor, sizeof cursor, "%s", page.older);
    query.cursor = cursor;
    query.filter.level_max = KILN_SAFETY_CLEAR;
    assert_int_equal(kiln_gallery_list(session, &query, note, &seen, &page, &rig.err),
                     KILN_BAD_INPUT);
    assert_non_null(strstr(rig.err.text, "does not belong to this search"));
    query = everything();
    query.rows_max = 5;
    query.cursor = cursor;
    list(&query, &seen, &page);
    static const char *const forged[] = {"x",
                                         "o",
                                         "n1",
                                         "o1-0-0-0000000000000000",
                                         "o-1-0-0-",
                                         "--",
                                         "o99999999999999999999999999-0-0-1",
                                         "\xff\xfe",
                                         "' OR 1"};
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
        query.cursor = forged[i];
        assert_int_equal(kiln_gallery_list(session, &query, note, &seen, &page, &rig.err),
                         KILN_BAD_INPUT);
    }
    for (size_t i = 0; cursor[i]; i++) { /* every byte counts */
        cursor[i] ^= 1;
        query.cursor = cursor;
        assert_int_equal(kiln_gallery_list(session, &query, note, &seen, &page, &rig.err),
                         KILN_BAD_INPUT);
        cursor[i] ^= 1;
    }
}

static int note_picture(void *arg, const struct kiln_gallery_picture *picture,
                        struct kiln_error *err)
{
    (void)err;
    ++*(int *)arg;
    assert_int_equal(picture->job->job.id, picture->tile.job);
    assert_int_equal(picture->job->object_count, 3);
    assert_string_equal(picture->job->job.batch, picture->tile.batch);
    assert_int_equal(picture->variants, PICTURES - 1 - 6); /* all but those of level 2 */
    assert_int_equal(picture->children, 0);
    assert_true(picture->made.denoise_ms == 3);
    assert_null(picture->safety_source);
    return 0;
}

static void a_picture_has_everything(void **state)
{
    (void)state;
    struct kiln_gallery_filter filter = {.pool = "p", .show_unchecked = true};
    int seen = 0;
    kiln_test_ok(kiln_gallery_picture(session, &filter, made[2], note_picture, &seen, &rig.err),
                 rig.err);
    assert_int_equal(seen, 1);
    /* Not of another pool, not of a level that is hidden, and not of any number. */
    assert_int_equal(kiln_gallery_picture(session, &filter, made[0], note_picture, &seen, &rig.err),
                     KILN_NOT_FOUND);
    assert_int_equal(
        kiln_gallery_picture(session, &filter, UINT64_MAX, note_picture, &seen, &rig.err),
        KILN_NOT_FOUND);
    filter.pool = "another";
    assert_int_equal(kiln_gallery_picture(session, &filter, made[2], note_picture, &seen, &rig.err),
                     KILN_NOT_FOUND);
    assert_int_equal(seen, 1);
}

static int note_verdict(void *arg, int64_t at_ms, const struct kiln_verdict *verdict,
                        struct kiln_error *err)
{
    (void)err;
    assert_true(at_ms > 0);
    char *seen = arg;
    snprintf(seen + strlen(seen), 200 - strlen(seen), "%s=%d ", verdict->source, verdict->level);
    return 0;
}

static int judge(uint64_t job, int level, enum kiln_verdict_rank rank, const char *source)
{
    int now;
    struct kiln_verdict verdict = {job, level, rank, 0.5, source};
    kiln_test_ok(kiln_ledger_judge(rig.ledger, "p", &verdict, &now, &rig.err), rig.err);
    assert_int_equal(kiln_rig_rows("image", job), 1);
    char sql[120];
    snprintf(sql, sizeof sql, "SELECT coalesce(safety_flag, -1) FROM image WHERE job_id = %llu",
             (unsigned long long)job);
    assert_int_equal(kiln_test_count(rig.stack, sql), now);
    return now;
}

static void a_person_outranks_a_model_outranks_a_rule(void **state)
{
    (void)state;
    uint64_t job = made[1]; /* nobody has looked yet */
    char seen[200] = "";
    struct kiln_verdict wrong = {job, 9, KILN_VERDICT_PERSON, 0, "person:ann"};
    int now;
    assert_int_equal(judge(job, 1, KILN_VERDICT_RULE, "rule:1"), 1);
    assert_int_equal(judge(job, 3, KILN_VERDICT_MODEL, "model:a"), 3);
    assert_int_equal(judge(job, 0, KILN_VERDICT_RULE, "rule:2"), 3);
    assert_int_equal(judge(job, 0, KILN_VERDICT_PERSON, "person:ann"), 0);
    assert_int_equal(judge(job, 2, KILN_VERDICT_MODEL, "model:b"), 0);
    assert_int_equal(judge(job, KILN_SAFETY_UNCHECKED, KILN_VERDICT_PERSON, "person:bob"), 2);
    kiln_test_ok(kiln_ledger_verdicts(session, "p", job, note_verdict, seen, &rig.err), rig.err);
    assert_string_equal(seen, "person:bob=-1 model:b=2 person:ann=0 rule:2=0 model:a=3 rule:1=1 ");
    assert_int_equal(kiln_ledger_judge(rig.ledger, "p", &wrong, &now, &rig.err), KILN_BAD_INPUT);
    wrong.level = 1;
    assert_int_equal(kiln_ledger_judge(rig.ledger, "q", &wrong, &now, &rig.err), KILN_NOT_FOUND);
}

/* --- stacks ------------------------------------------------------------------------------------
 */

#define STACKED 90
struct stacks {
    uint64_t jobs[STACKED];
    char hashes[STACKED][65];
    uint32_t sizes[STACKED], count;
};

static int note_stack(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    struct stacks *stacks = arg;
    (void)err;
    assert_true(stacks->count < STACKED);
    stacks->jobs[stacks->count] = tile->job;
    stacks->sizes[stacks->count] = tile->stack;
    snprintf(stacks->hashes[stacks->count++], 65, "%s", tile->prompt_hash);
    return 0;
}

static void list_stacks(struct kiln_gallery_query *query, struct stacks *ret)
{
    struct kiln_gallery_page page = {.older = ""};
    char cursor[KILN_GALLERY_CURSOR_MAX] = "";
    ret->count = 0;
    do {
        snprintf(cursor, sizeof cursor, "%s", page.older);
        query->cursor = cursor;
        kiln_test_ok(kiln_gallery_list(session, query, note_stack, ret, &page, &rig.err), rig.err);
    } while (page.older[0]);
    query->cursor = NULL;
}

/* The plain way: of all pictures that the filter shows, the first of each prompt. */
static void expect_stacks(struct kiln_gallery_query query, uint32_t rows_max)
{
    static struct stacks all, stacks;
    query.rows_max = STACKED;
    list_stacks(&query, &all);
    query.filter.stacked = true;
    query.rows_max = rows_max;
    list_stacks(&query, &stacks);
    uint32_t at = 0;
    for (uint32_t i = 0; i < all.count; i++) {
        uint32_t size = 0, first = i;
        for (uint32_t k = 0; k < all.count; k++)
            if (strcmp(all.hashes[k], all.hashes[i]) == 0) {
                size++;
                first = k < first ? k : first;
            }
        assert_int_equal(all.sizes[i], 0);
        if (first < i)
            continue;
        assert_true(at < stacks.count);
        assert_int_equal(stacks.jobs[at], all.jobs[i]);
        assert_int_equal(stacks.sizes[at++], size);
    }
    assert_int_equal(stacks.count, at);
}

static void a_stack_is_the_newest_of_its_prompt_that_is_shown(void **state)
{
    (void)state;
    for (int i = 0; i < STACKED; i++) {
        char prompt[20];
        snprintf(prompt, sizeof prompt, "p%d", i < 40 ? i % 9 : i < 70 ? 0 : i);
        kiln_test_shown(rig.stack, &(struct kiln_test_shown){.pool = "s",
                                                             .prompt = prompt,
                                                             .level = i % 4 == 3 ? "3" : "0",
                                                             .tenant = i % 2 ? "bob" : "ann",
                                                             .seed = (unsigned)i});
    }
    struct kiln_gallery_query query = everything();
    query.filter.pool = "s";
    for (uint32_t rows_max = 1; rows_max < 40; rows_max += 6) {
        query.filter.level_max = KILN_SAFETY_EXPLICIT;
        expect_stacks(query, rows_max);
        query.filter.level_max = KILN_SAFETY_CLEAR;
        expect_stacks(query, rows_max);
        query.filter.tenant = "bob";
        expect_stacks(query, rows_max);
        query.filter.tenant = NULL;
    }
    /* A cursor belongs to stacks, or to pictures. */
    struct kiln_gallery_page page;
    struct stacks stacks = {.count = 0};
    query.rows_max = 5;
    kiln_test_ok(kiln_gallery_list(session, &query, note_stack, &stacks, &page, &rig.err), rig.err);
    query.filter.stacked = true;
    query.cursor = page.older;
    assert_int_equal(kiln_gallery_list(session, &query, note_stack, &stacks, &page, &rig.err),
                     KILN_BAD_INPUT);
}

/* --- what is new ------------------------------------------------------------------------------ */

static void run(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    PQclear(result);
}

static void mark(PGconn *conn, uint64_t job)
{
    char sql[96];
    snprintf(sql, sizeof sql, "UPDATE image SET safety_score = 0.5 WHERE job_id = %llu",
             (unsigned long long)job);
    run(conn, sql);
}

/* The pictures that have changed since the moment, which moves on. */
static struct seen fresh(char moment[KILN_GALLERY_MOMENT_MAX])
{
    const struct kiln_gallery_query query = everything();
    struct seen seen = {0};
    bool lost = true;
    kiln_test_ok(kiln_gallery_fresh(session, &query, moment, note, &seen, &lost, &rig.err),
                 rig.err);
    assert_false(lost);
    return seen;
}

/* A transaction that was open at a moment commits after others: its picture is told then, though
 * its number is lower.  One that is rolled back tells nothing. */
static void what_commits_late_is_told(void **state)
{
    (void)state;
    PGconn *late = PQconnectdb(rig.stack->conninfo), *other = PQconnectdb(rig.stack->conninfo);
    char moment[KILN_GALLERY_MOMENT_MAX] = "";
    assert_int_equal(PQstatus(late), CONNECTION_OK);
    assert_int_equal(PQstatus(other), CONNECTION_OK);
    assert_int_equal(fresh(moment).count, 0);
    run(late, "BEGIN");
    mark(late, made[7]);
    run(other, "BEGIN");
    mark(other, made[8]);
    assert_int_equal(fresh(moment).count, 0);
    char *none = kiln_test_sql(rig.stack, "UPDATE image SET safety_score = 0.5 WHERE job_id ="
                                          " (SELECT max(job_id) FROM image WHERE pool = 'p')"
                                          " RETURNING 1");
    free(none);
    struct seen seen = fresh(moment);
    assert_int_equal(seen.count, 1);
    assert_true(seen.jobs[0] != made[7] && seen.jobs[0] != made[8]);
    run(other, "ROLLBACK");
    run(late, "COMMIT");
    seen = fresh(moment);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.jobs[0], made[7]);
    assert_int_equal(fresh(moment).count, 0);
    PQfinish(late);
    PQfinish(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_follow_each_other_both_ways),
        cmocka_unit_test(a_tile_says_what_the_page_needs),
        cmocka_unit_test(an_odd_file_costs_itself_alone),
        cmocka_unit_test(filters_narrow),
        cmocka_unit_test(filters_have_names),
        cmocka_unit_test(a_cursor_belongs_to_its_query),
        cmocka_unit_test(a_picture_has_everything),
        cmocka_unit_test(a_stack_is_the_newest_of_its_prompt_that_is_shown),
        cmocka_unit_test(a_person_outranks_a_model_outranks_a_rule),
        cmocka_unit_test(what_commits_late_is_told),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
