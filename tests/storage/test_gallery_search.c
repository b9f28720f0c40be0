/* test_gallery_search.c - pictures found by words: the language, scripts, filters, the walk and the
 * index, relevance, counts, days and suggestions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/ledger/gallery/follow.h"
#include "storage/ledger/gallery/gallery.h"
#include "storage/ledger/gallery/windows.h"
#include "storage/ledger/ledger.h"
#include "tests/support/gallery.h"
#include "tests/support/rig.h"

static struct kiln_ledger *session;
static struct kiln_follower *follower;

static void settle(void)
{
    struct kiln_follower_progress progress = {.more = true};
    while (progress.more)
        kiln_test_ok(kiln_follower_step(follower, &progress, &rig.err), rig.err);
    assert_true(progress.complete && progress.writes);
}

static const struct kiln_test_shown pictures[] = {
    {.prompt = "a red star over the sea"},
    {.prompt = "a star, red and blue", .style = "neon-punk", .level = "2"},
    {.prompt = "green fields", .lora = "ink_wash", .custom_id = "order-77/b"},
    {.prompt = "greenhouse with red flowers", .tenant = "bob"},
    {.prompt = "红色的星星在海上"},
    {.prompt = "夜空の赤い星", .batch = "other"},
    {.prompt = "빨간 별이 빛나는 밤"},
    {.prompt = "Красная звезда над морем", .mode = "coarse=4+3"},
    {.prompt = "O'Hara's \"quoted\" \\ back : slash & pipes | (here)"},
    {.prompt = "ÉTOILE ROUGE", .created = "now() - interval '3 days'"},
    {.prompt = "zebra", .custom_id = "oldcode", .seed = 1},
    {.prompt = "zebra", .seed = 2},
};
#define PICTURES (sizeof pictures / sizeof *pictures)
static uint64_t made[PICTURES];

static int start(void **state)
{
    int rc = kiln_rig_start(state);
    for (size_t i = 0; rc == 0 && i < PICTURES; i++)
        made[i] = kiln_test_shown(rig.stack, &pictures[i]);
    if (rc == 0)
        rc = kiln_follower_open(rig.stack->config, "follower", &(struct kiln_follower_options){0},
                                &follower, &rig.err);
    if (rc == 0)
        settle();
    return rc ? rc : kiln_ledger_open_reading(rig.stack->config, "gallery", 0, &session, &rig.err);
}

static int stop(void **state)
{
    kiln_follower_close(follower);
    kiln_ledger_close(session);
    return kiln_rig_stop(state);
}

struct seen {
    uint64_t jobs[KILN_GALLERY_ROWS_MAX];
    double relevance[KILN_GALLERY_ROWS_MAX];
    uint32_t count;
};

static int note(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    (void)err;
    struct seen *seen = arg;
    seen->jobs[seen->count] = tile->job;
    seen->relevance[seen->count++] = tile->relevance;
    return 0;
}

static struct kiln_gallery_query words(const char *text)
{
    return (struct kiln_gallery_query){
        .filter = {.pool = "p", .show_unchecked = true, .level_max = KILN_SAFETY_EXPLICIT},
        .words = text,
        .rows_max = 100,
        .budget_ms = 20000};
}

/* The pictures of the list by their number above, newest first: "931". */
static void expect_query(const struct kiln_gallery_query *query, const char *numbers)
{
    struct seen seen = {0};
    struct kiln_gallery_page page;
    char found[PICTURES + 1] = "";
    kiln_test_ok(kiln_gallery_list(session, query, note, &seen, &page, &rig.err), rig.err);
    for (uint32_t i = 0; i < seen.count; i++)
        for (size_t k = 0; k < PICTURES; k++)
            if (seen.jobs[i] == made[k])
                snprintf(found + strlen(found), sizeof found - strlen(found), "%zu", k);
    if (strcmp(found, numbers) != 0)
        fail_msg("%s: found %s, expected %s", query->words ? query->words : "", found, numbers);
}

static void expect(const char *text, const char *numbers)
{
    struct kiln_gallery_query query = words(text);
    expect_query(&query, numbers);
}

static void words_phrases_prefixes_and_what_is_excluded(void **state)
{
    (void)state;
    expect("red", "310");
    expect("RED star", "10");
    expect("\"red star\"", "0");
    expect("\"star red\"", "1");
    expect("red -blue ", "30");
    expect("red -\"red star\" ", "31");
    expect("green", "32"); /* the prefix of the last word */
    expect("green ", "2");
    expect("gre* red ", "3");
    expect("star sea blue ", "");
    expect("o'hara", "8");
    expect("\"o'hara's quoted\"", "8");
    expect("étoile", "9");
    expect("Étoile -rouge ", "");
    expect("-star ", "111098765432");
}

/* The newest of a prompt among those that have the words. */
static void a_stack_is_of_the_pictures_found(void **state)
{
    (void)state;
    struct kiln_gallery_query query = words("zebra ");
    expect_query(&query, "1110");
    query.filter.stacked = true;
    expect_query(&query, "11");
    query.order = KILN_GALLERY_RELEVANCE;
    expect_query(&query, "11");
    query.words = "oldcode ";
    expect_query(&query, "10");
    query.order = KILN_GALLERY_NEWEST;
    expect_query(&query, "10");
}

static void every_script(void **state)
{
    (void)state;
    expect("红色", "4");
    expect("星", "54");
    expect("星星", "4");
    expect("赤い星", "5");
    expect("「夜空の」", "5");
    expect("빨간 ", "6");
    expect("별", "6");
    expect("красная ЗВЕЗДА", "7");
    expect("мор", "7");
}

static void names_are_words(void **state)
{
    (void)state;
    expect("neon-punk", "1");
    expect("ink_wash", "2");
    expect("order-77/b", "2");
    expect("\"fields order\"", ""); /* no phrase goes from one text to another */
}

/* Jobs that are found, and how many of them tiles show. */
static void expect_jobs(const struct kiln_gallery_query *query, uint32_t jobs, uint32_t shown)
{
    uint64_t at[KILN_GALLERY_ROWS_MAX];
    struct kiln_gallery_page page;
    struct seen seen = {0};
    int rc = kiln_gallery_jobs(session, query, at, &page, &rig.err);
    rc =
        rc ? rc : kiln_gallery_tiles(session, &query->filter, at, page.rows, note, &seen, &rig.err);
    kiln_test_ok(rc, rig.err);
    assert_true(page.rows == jobs && seen.count == shown);
}

static void filters_narrow_a_search(void **state)
{
    (void)state;
    struct kiln_gallery_query query = words("red");
    query.filter.level_max = KILN_SAFETY_CLEAR;
    expect_query(&query, "30");
    query = words("red");
    query.filter.tenant = "bob";
    expect_query(&query, "3");
    query = words("星");
    query.filter.batch = "other";
    expect_query(&query, "5");
    query = words("звезда");
    query.filter.mode = KILN_GALLERY_COARSE;
    expect_query(&query, "7");
    query.filter.mode = KILN_GALLERY_EXACT;
    expect_query(&query, "");
    query = words("green");
    query.filter.lora = "ink_wash";
    expect_query(&query, "2");
    query = words("rouge");
    query.filter.to_ms =
        1000 * (int64_t)kiln_test_count(rig.stack, "SELECT extract(epoch FROM now() - interval"
                                                   " '1 day')::bigint");
    expect_query(&query, "9");
    query.filter.to_ms = 86400000;
    expect_query(&query, "");
    expect_jobs(&query, 0, 0);
}

static void what_is_raised_or_removed_is_gone_at_once(void **state)
{
    (void)state;
    char sql[200];
    struct kiln_gallery_query query = words("greenhouse");
    query.filter.level_max = KILN_SAFETY_CLEAR;
    expect_query(&query, "3");
    snprintf(sql, sizeof sql, "UPDATE image SET safety_flag = 3 WHERE job_id = %llu",
             (unsigned long long)made[3]);
    free(kiln_test_sql(rig.stack, sql));
    expect_query(&query, ""); /* before the follower has come by */
    expect_jobs(&query, 1, 0);
    uint32_t count;
    bool more;
    kiln_test_ok(kiln_gallery_count(session, &query, &count, &more, &rig.err), rig.err);
    assert_int_equal(count, 0);
    settle();
    expect_jobs(&query, 0, 0);
    expect_query(&query, "");
    snprintf(sql, sizeof sql, "UPDATE image SET safety_flag = NULL WHERE job_id = %llu",
             (unsigned long long)made[3]);
    free(kiln_test_sql(rig.stack, sql));
    settle();
    expect_query(&query, "3");
}

static void an_index_that_is_being_made_says_so(void **state)
{
    (void)state;
    struct kiln_gallery_query query = words("red ");
    struct kiln_gallery_page page;
    struct seen seen = {0};
    kiln_test_ok(kiln_gallery_list(session, &query, note, &seen, &page, &rig.err), rig.err);
    assert_false(page.indexing);
    free(kiln_test_sql(rig.stack, "UPDATE gallery_state SET rebuilt = 3"));
    kiln_test_ok(kiln_gallery_list(session, &query, note, &seen, &page, &rig.err), rig.err);
    assert_true(page.indexing);
    free(kiln_test_sql(rig.stack, "UPDATE gallery_state SET rebuilt = NULL"));
}

static void a_search_that_holds_nothing_says_so(void **state)
{
    (void)state;
    struct kiln_gallery_query query = words(" -- ★");
    struct kiln_gallery_page page;
    struct seen seen = {0};
    assert_int_equal(kiln_gallery_list(session, &query, note, &seen, &page, &rig.err),
                     KILN_BAD_INPUT);
    assert_non_null(strstr(rig.err.text, "nothing to search for"));
}

/* --- with many pictures ------------------------------------------------------------------------
 */

#define MANY KILN_TEST_MANY

static void make_many(void **state)
{
    (void)state;
    kiln_test_many_shown(rig.stack);
    settle();
    free(kiln_test_sql(rig.stack, "ANALYZE"));
}

/* All hits, page by page. */
static uint32_t walk(struct kiln_gallery_query *query, bool *ret_late)
{
    struct kiln_gallery_page page = {.older = ""};
    char cursor[KILN_GALLERY_CURSOR_MAX] = "";
    uint32_t count = 0;
    uint64_t last = UINT64_MAX;
    *ret_late = false;
    do {
        struct seen seen = {0};
        query->cursor = cursor;
        kiln_test_ok(kiln_gallery_list(session, query, note, &seen, &page, &rig.err), rig.err);
        for (uint32_t i = 0; i < seen.count; i++) {
            assert_true(seen.jobs[i] < last);
            last = seen.jobs[i];
        }
        count += seen.count;
        if (page.out_of_time) {
            *ret_late = true;
            assert_true(page.searched_back_to_ms > 0);
        }
        snprintf(cursor, sizeof cursor, "%s", page.older);
    } while (*cursor);
    return count;
}

static void all_hits_are_found_by_walk_and_by_index(void **state)
{
    (void)state;
    bool late;
    struct kiln_gallery_query query = words("odd ");
    query.rows_max = 200;
    assert_int_equal(walk(&query, &late), 600);
    query = words("rare ");
    assert_int_equal(walk(&query, &late), 3);
    query = words("odd rare ");
    assert_int_equal(walk(&query, &late), 0);
    query = words("round odd ");
    assert_int_equal(walk(&query, &late), 200);
    query = words(NULL);
    query.filter.tenant = "bob";
    assert_int_equal(walk(&query, &late), 1);
    /* Words that are too frequent for the budget are walked, the rarer of them or a prefix decides.
     */
    query = words("odd -thing ");
    query.budget_ms = 1;
    assert_int_equal(walk(&query, &late), 0);
    assert_true(late);
    query = words("odd rar* ");
    assert_int_equal(walk(&query, &late), 0);
    assert_false(late);
    /* Without an index that is complete, the walk goes on, in as many pages as it needs. */
    free(kiln_test_sql(rig.stack, "UPDATE gallery_state SET rebuilt = 1"));
    query = words("rare ");
    query.budget_ms = 1;
    assert_int_equal(walk(&query, &late), 3);
    assert_true(late);
    free(kiln_test_sql(rig.stack, "UPDATE gallery_state SET rebuilt = NULL"));
}

static void relevance_ranks_blocks_of_the_newest(void **state)
{
    (void)state;
    struct kiln_gallery_query query = words("odd ");
    struct kiln_gallery_page page = {.older = ""};
    char cursor[KILN_GALLERY_CURSOR_MAX] = "";
    uint32_t count = 0;
    double last = 1e9;
    uint64_t ranked = 0;
    query.order = KILN_GALLERY_RELEVANCE;
    query.rows_max = 90;
    do {
        struct seen seen = {0};
        query.cursor = cursor;
        kiln_test_ok(kiln_gallery_list(session, &query, note, &seen, &page, &rig.err), rig.err);
        for (uint32_t i = 0; i < seen.count; i++, count++) {
            if (count == KILN_GALLERY_BLOCK)
                last = 1e9;
            assert_true(seen.relevance[i] <= last && seen.relevance[i] > 0);
            last = seen.relevance[i];
            ranked += seen.jobs[i];
        }
        snprintf(cursor, sizeof cursor, "%s", page.older);
    } while (*cursor);
    assert_int_equal(count, 600);
    assert_int_equal(ranked, kiln_test_count(rig.stack, "SELECT sum(job_id) FROM image WHERE prompt"
                                                        " ~ '\\modd'"));
    query.words = NULL;
    query.cursor = NULL;
    struct seen seen = {0};
    assert_int_equal(kiln_gallery_list(session, &query, note, &seen, &page, &rig.err),
                     KILN_BAD_INPUT);
}

static void counts_are_bounded(void **state)
{
    (void)state;
    uint32_t count;
    bool more;
    struct kiln_gallery_query query = words("odd ");
    kiln_test_ok(kiln_gallery_count(session, &query, &count, &more, &rig.err), rig.err);
    assert_int_equal(count, 600);
    assert_false(more);
    query = words("round ");
    kiln_test_ok(kiln_gallery_count(session, &query, &count, &more, &rig.err), rig.err);
    assert_int_equal(count, KILN_GALLERY_COUNT_MAX);
    assert_true(more);
    static const struct {
        const char *words;
        uint32_t count;
        bool more;
    } cases[] = {{NULL, 1000, true},           {"rare ", 3, false},
                 {"-thing ", PICTURES, false}, {"\"odd odd\"", 590, false},
                 {"round odd ", 200, false},   {"-odd ", 1000, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        query = words(cases[i].words);
        kiln_test_ok(kiln_gallery_count(session, &query, &count, &more, &rig.err), rig.err);
        assert_int_equal(count, cases[i].count);
        assert_int_equal(more, cases[i].more);
    }
    query = words(NULL);
    query.filter.pool = "another";
    kiln_test_ok(kiln_gallery_count(session, &query, &count, &more, &rig.err), rig.err);
    assert_int_equal(count, 0);
}

struct days {
    uint64_t pictures, count;
    int64_t last_ms;
};

static int add_day(void *arg, const struct kiln_gallery_day *day, struct kiln_error *err)
{
    (void)err;
    struct days *days = arg;
    assert_true(days->count == 0 || day->day_ms < days->last_ms);
    assert_int_equal(day->day_ms % 86400000, 0);
    days->pictures += day->pictures;
    days->count++;
    days->last_ms = day->day_ms;
    return 0;
}

static void days_are_counted_with_the_filter(void **state)
{
    (void)state;
    struct days days = {0};
    int64_t back_to_ms;
    struct kiln_gallery_query query = words(NULL);
    kiln_test_ok(kiln_gallery_days(session, &query, add_day, &days, &back_to_ms, &rig.err),
                 rig.err);
    assert_int_equal(days.pictures, MANY + PICTURES);
    assert_int_equal(days.count,
                     kiln_test_count(rig.stack, "SELECT count(DISTINCT (created_at AT TIME ZONE"
                                                " 'UTC')::date) FROM image"));
    static const struct {
        const char *words, *tenant;
        uint64_t pictures;
    } cases[] = {{"round ", NULL, MANY / 3}, {"odd ", NULL, 600}, {"rare ", NULL, 3},
                 {NULL, "eve", MANY},        {NULL, "bob", 1},    {"round ", "ann", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        days = (struct days){0};
        query = words(cases[i].words);
        query.filter.tenant = cases[i].tenant;
        kiln_test_ok(kiln_gallery_days(session, &query, add_day, &days, &back_to_ms, &rig.err),
                     rig.err);
        assert_int_equal(days.pictures, cases[i].pictures);
        assert_int_equal(back_to_ms, 0);
    }
    days = (struct days){0};
    query = words("round ");
    query.budget_ms = 1;
    kiln_test_ok(kiln_gallery_days(session, &query, add_day, &days, &back_to_ms, &rig.err),
                 rig.err);
    assert_true(days.pictures <= MANY / 3);
    assert_true((days.pictures < MANY / 3) == (back_to_ms > 0));
}

/* Whether the index is asked without a frequent beginning in these words. */
static bool is_loose(const char *text)
{
    const struct kiln_gallery_query query = words(text);
    struct kiln_gallery_question question;
    struct kiln_gallery_index index;
    kiln_test_ok(kiln_gallery_ask(session, &query, &question, &rig.err), rig.err);
    kiln_test_ok(kiln_gallery_look(session, &question, &index, &rig.err), rig.err);
    kiln_gallery_question_release(&question);
    assert_true(index.phrase == (index.frequent[0] != '\0'));
    return index.phrase;
}

/* The lists of all words with the beginning would take longer than to look at the rarer word's
 * pictures, or than a search has, and each picture must still have such a word. */
static void pictures_are_compared_with_a_frequent_beginning(void **state)
{
    (void)state;
    bool late, more;
    uint32_t count;
    int64_t back_to_ms;
    struct days days = {0};
    struct kiln_gallery_query query = words("odd rou");
    assert_true(is_loose("odd rou"));
    assert_false(is_loose("thing rou"));
    assert_false(is_loose("odd round ")); /* a whole word */
    assert_false(is_loose("rou"));        /* nothing else to ask for */
    assert_false(is_loose("round rar"));  /* of few pictures */
    assert_true(is_loose("rar* rou"));    /* where that stays */
    query.rows_max = 200;
    assert_int_equal(walk(&query, &late), 200);
    query.cursor = NULL;
    kiln_test_ok(kiln_gallery_count(session, &query, &count, &more, &rig.err), rig.err);
    assert_int_equal(count, 200);
    assert_false(more);
    kiln_test_ok(kiln_gallery_days(session, &query, add_day, &days, &back_to_ms, &rig.err),
                 rig.err);
    assert_int_equal(days.pictures, 200);
    assert_false(is_loose("8k rou")); /* nobody has counted words with digits */
    assert_true(is_loose("odd -rare rou"));
    static const struct {
        const char *words, *tenant;
    } cases[] = {{"odd -rare rou", NULL}, {"odd rou", "eve"}, {"odd rou", "bob"},
                 {"odd rou* thi", NULL},  {"rar* rou", NULL}, {"thing rou", "eve"}};
    free(kiln_test_sql(rig.stack, "UPDATE gallery_word SET pictures = pictures + 70000"
                                  " WHERE word = 'round'")); /* which makes its lists long */
    assert_true(is_loose("8k rou"));
    assert_true(is_loose("thing rou"));
    assert_false(is_loose("rou"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        query = words(cases[i].words);
        query.filter.tenant = cases[i].tenant;
        const uint32_t by_index = walk(&query, &late);
        free(kiln_test_sql(rig.stack, "UPDATE gallery_state SET rebuilt = 1"));
        assert_int_equal(walk(&query, &late), by_index);
        free(kiln_test_sql(rig.stack, "UPDATE gallery_state SET rebuilt = NULL"));
    }
    free(kiln_test_sql(rig.stack, "UPDATE gallery_word SET pictures = pictures - 70000"
                                  " WHERE word = 'round'"));
    query = words("rare rou");
    assert_int_equal(walk(&query, &late), 1);
    query = words("rare round ");
    assert_int_equal(walk(&query, &late), 1);
}

static void a_mistyped_word_has_a_suggestion(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"ruond", "round"},
        {"roound", "round"},
        {"rond", "round"},
        {"rounx", "round"},
        {"round", ""},
        {"xyzzy", ""},
        {"odd roumd -sea", "odd round -sea"},
        {"\"rond odd\"", ""},
        {"звезла", "звезда"},
    };
    char out[400];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kiln_gallery_query query = words(cases[i][0]);
        kiln_test_ok(kiln_gallery_suggest(session, &query, out, sizeof out, &rig.err), rig.err);
        assert_string_equal(out, cases[i][1]);
    }
    /* What is hidden is not suggested. */
    struct kiln_gallery_query query = words("blu");
    query.filter.level_max = KILN_SAFETY_CLEAR;
    kiln_test_ok(kiln_gallery_suggest(session, &query, out, sizeof out, &rig.err), rig.err);
    assert_string_equal(out, "");
}

/* The next window, after one that had so many hits, begins behind this job. */
static void expect_next(bool newer, const struct kiln_gallery_index *index, uint32_t had,
                        uint64_t job)
{
    struct kiln_parts window;
    bool more;
    kiln_parts_begin(&window, index, newer, newer ? 0 : INT64_MAX, newer ? INT64_MAX : 0, 49);
    assert_int_equal(window.parts, 1);
    kiln_test_ok(kiln_parts_go_on(&window, session, had, 49, INT64_MAX, &more, &rig.err), rig.err);
    assert_true(more);
    assert_int_equal(window.at, job);
}

static void a_window_without_hits_leads_to_the_next_picture(void **state)
{
    (void)state;
    char *text = kiln_test_sql(rig.stack, "SELECT max(job_id) FROM gallery_text");
    const uint64_t part = 1u << KILN_PART_BITS, last = strtoull(text, NULL, 10), far = 64 * part;
    struct kiln_gallery_index index = {.pictures = 1000000, .rarest = 900000, .first = 1};
    free(text);
    assert_true(last < 32 * part);
    index.last = far - 1; /* there was a picture, whose batch was removed */
    expect_next(false, &index, 1, far - part);
    expect_next(false, &index, 0, last + 1);
    free(kiln_test_sql(rig.stack, "INSERT INTO gallery_text (job_id, day, pool, tsv)"
                                  " VALUES (900000, '2026-01-01', 'p', '')"));
    index.first = (last / part + 1) * part; /* as above */
    expect_next(true, &index, 1, index.first + part - 1);
    expect_next(true, &index, 0, 899999);
    free(kiln_test_sql(rig.stack, "DELETE FROM gallery_text WHERE job_id = 900000"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_phrases_prefixes_and_what_is_excluded),
        cmocka_unit_test(a_stack_is_of_the_pictures_found),
        cmocka_unit_test(every_script),
        cmocka_unit_test(names_are_words),
        cmocka_unit_test(filters_narrow_a_search),
        cmocka_unit_test(what_is_raised_or_removed_is_gone_at_once),
        cmocka_unit_test(an_index_that_is_being_made_says_so),
        cmocka_unit_test(a_search_that_holds_nothing_says_so),
        cmocka_unit_test(make_many),
        cmocka_unit_test(all_hits_are_found_by_walk_and_by_index),
        cmocka_unit_test(relevance_ranks_blocks_of_the_newest),
        cmocka_unit_test(counts_are_bounded),
        cmocka_unit_test(days_are_counted_with_the_filter),
        cmocka_unit_test(pictures_are_compared_with_a_frequent_beginning),
        cmocka_unit_test(a_mistyped_word_has_a_suggestion),
        cmocka_unit_test(a_window_without_hits_leads_to_the_next_picture),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
