/* test_meaning.c - pictures found by meaning: on a real ledger, with the small static table of
 * tests/golden/embed, in which prompts are alike as far as they share words.  By tokens:
 * test_meaning_tokens.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "scheduler/gallery/alike/alike.h"
#include "scheduler/gallery/meaning/mixed.h"
#include "storage/ledger/gallery/follow.h"
#include "storage/ledger/gallery/prompts.h"
#include "storage/ledger/ledger.h"
#include "tests/support/gallery.h"
#include "tests/support/rig.h"

#define MOST 64

static struct kiln_ledger *session;
static struct kiln_embedder *embedder;
static struct kiln_meaning *meaning;
static struct kiln_meaning_scratch *scratch;
static struct kiln_follower *follower;
static uint64_t lamp[3], harbour, hidden, tall;
static const struct kiln_gallery_filter all = {.pool = "p", .show_unchecked = true};

static uint64_t show(const char *prompt, const char *level, unsigned height)
{
    return kiln_test_shown(
        rig.stack, &(struct kiln_test_shown){.prompt = prompt, .level = level, .height = height});
}

/* The follower reports, the meaning applies, until neither has more to do. */
static void keep_up(struct kiln_meaning *m)
{
    struct kiln_follower_progress progress = {.more = true};
    bool more = true;
    for (int i = 0; i < 100 && (progress.more || more); i++) {
        kiln_test_ok(kiln_follower_step(follower, &progress, &rig.err), rig.err);
        kiln_test_ok(kiln_meaning_step(m, session, rig.ledger, &more, &rig.err), rig.err);
    }
    assert_false(progress.more || more);
}

static int start(void **state)
{
    char dir[512];
    int rc = kiln_rig_start(state);
    if (rc != 0)
        return rc;
    snprintf(dir, sizeof dir, "%s/tests/golden/embed/potion", getenv("KILN_SOURCE"));
    kiln_test_ok(kiln_embedder_open(dir, NULL, &embedder, &rig.err), rig.err);
    kiln_test_ok(kiln_ledger_open_reading(rig.stack->config, "gallery", 0, &session, &rig.err),
                 rig.err);
    for (int i = 0; i < 3; i++)
        lamp[i] = show("a brass lamp on a wooden table", "0", 256);
    harbour = show("ships in the harbour at dawn", "NULL", 256);
    hidden = show("a brass lamp on a wooden chair", "2", 256);
    tall = show("a wooden lamp beside a brass table", "0", 512);
    for (int i = 0; i < 30; i++) { /* what is no resemblance */
        char prompt[64];
        snprintf(prompt, sizeof prompt, "number %d: %c%c%c %c%c", i * 37, 'a' + i % 26, 'k' + i % 7,
                 'b' + i % 11, 'q' + i % 5, 'c' + i % 13);
        show(prompt, "0", 256);
    }
    kiln_test_ok(kiln_meaning_open("p", embedder, &meaning, &rig.err), rig.err);
    assert_true(kiln_meaning_has_copied(meaning)); /* it has no tokens */
    kiln_test_ok(kiln_meaning_scratch_new(meaning, &scratch, &rig.err), rig.err);
    struct kiln_follower_options options = {.each = kiln_meaning_note, .arg = meaning};
    kiln_test_ok(kiln_follower_open(rig.stack->config, "gallery", &options, &follower, &rig.err),
                 rig.err);
    kiln_test_ok(kiln_meaning_load(meaning, session, &rig.err), rig.err);
    keep_up(meaning);
    return 0;
}

static int stop(void **state)
{
    kiln_follower_close(follower);
    kiln_meaning_scratch_free(scratch);
    kiln_meaning_close(meaning);
    kiln_embedder_close(embedder);
    kiln_ledger_close(session);
    return kiln_rig_stop(state);
}

static struct kiln_meaning_hit hits[MOST];

/* The pictures of a text in a gallery, into hits. */
static struct kiln_meaning_found search_in(struct kiln_meaning *m, struct kiln_meaning_scratch *s,
                                           const struct kiln_gallery_filter *filter,
                                           const char *text)
{
    struct kiln_meaning_found found;
    kiln_test_ok(
        kiln_meaning_search(m, s, session, filter, text, MOST, hits, &found, &rig.err), rig.err);
    for (uint32_t i = 1; i < found.count; i++)
        assert_true(hits[i].score <= hits[i - 1].score);
    return found;
}

static struct kiln_meaning_found search(const char *text, const struct kiln_gallery_filter *filter)
{
    return search_in(meaning, scratch, filter, text);
}

static struct kiln_meaning_found search_like(uint64_t job)
{
    struct kiln_meaning_found found;
    kiln_test_ok(kiln_meaning_similar(meaning, scratch, session, &all, job, MOST, hits, &found,
                                      &rig.err),
                 rig.err);
    return found;
}

static bool has(uint32_t count, uint64_t job)
{
    for (uint32_t i = 0; i < count; i++)
        if (hits[i].job == job)
            return true;
    return false;
}

static void the_newest_picture_of_each_prompt_is_found(void **state)
{
    (void)state;
    struct kiln_meaning_found found = search("brass lamp on a wooden table", &all);
    assert_true(found.known);
    assert_true(hits[0].job == lamp[2]);
    assert_false(has(found.count, lamp[0]) || has(found.count, lamp[1]));
    assert_true(found.near >= 1 && found.near < found.count);
    assert_false(has(found.count, hidden));
    assert_false(search("", &all).known);
}

static void filters_hold_inside_the_search(void **state)
{
    (void)state;
    struct kiln_gallery_filter filter = {
        .pool = "p", .show_unchecked = true, .aspect = KILN_GALLERY_TALL};
    assert_int_equal(search("brass lamp", &filter).count, 1);
    assert_true(hits[0].job == tall);
    filter = (struct kiln_gallery_filter){.pool = "p"};
    assert_false(has(search("ships in the harbour", &filter).count, harbour));
    filter.show_unchecked = true;
    search("ships in the harbour", &filter);
    assert_true(hits[0].job == harbour);
    filter.level_max = 2;
    assert_true(has(search("brass lamp on a wooden chair", &filter).count, hidden));
}

static void similar_pictures_are_of_other_prompts(void **state)
{
    (void)state;
    struct kiln_meaning_found found = search_like(lamp[0]);
    assert_true(found.known);
    assert_true(has(5, tall)); /* nobody trained this table: others may be as near */
    assert_false(has(found.count, lamp[2]) || has(found.count, hidden));
    found = search_like(999999);
    assert_false(found.known);
    assert_int_equal(found.count, 0);
}

static void changes_are_followed(void **state)
{
    (void)state;
    char sql[128];
    uint64_t kite = show("a paper kite over the dunes", "0", 256);
    assert_false(has(search("paper kite over dunes", &all).count, kite));
    keep_up(meaning);
    search("paper kite over dunes", &all);
    assert_true(hits[0].job == kite);

    uint64_t later = show("a paper kite over the dunes", "0", 256);
    keep_up(meaning);
    search("paper kite over dunes", &all);
    assert_true(hits[0].job == later);

    snprintf(sql, sizeof sql, "UPDATE image SET safety_flag = 3 WHERE job_id = %llu",
             (unsigned long long)later);
    free(kiln_test_sql(rig.stack, sql));
    keep_up(meaning);
    search("paper kite over dunes", &all);
    assert_true(hits[0].job == kite);

    snprintf(sql, sizeof sql, "DELETE FROM object WHERE job_id = %llu", (unsigned long long)kite);
    free(kiln_test_sql(rig.stack, sql));
    snprintf(sql, sizeof sql, "DELETE FROM image WHERE job_id = %llu", (unsigned long long)kite);
    free(kiln_test_sql(rig.stack, sql));
    keep_up(meaning);
    struct kiln_meaning_found found = search("paper kite over dunes", &all);
    assert_false(has(found.count, kite) || has(found.count, later));
}

static void vectors_are_kept_in_the_ledger(void **state)
{
    (void)state;
    struct kiln_meaning *other;
    struct kiln_meaning_scratch *its;
    uint32_t pictures, prompts, waiting;
    bool more;
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM gallery_vector"),
                     kiln_test_count(rig.stack, "SELECT count(DISTINCT prompt_hash) FROM image"));
    kiln_test_ok(kiln_meaning_open("p", embedder, &other, &rig.err), rig.err);
    kiln_test_ok(kiln_meaning_load(other, session, &rig.err), rig.err);
    kiln_test_ok(kiln_meaning_step(other, session, NULL, &more, &rig.err), rig.err);
    assert_false(more);
    kiln_meaning_progress(other, &pictures, &prompts, &waiting);
    assert_int_equal(pictures, kiln_test_count(rig.stack, "SELECT count(*) FROM image"));
    kiln_test_ok(kiln_meaning_scratch_new(other, &its, &rig.err), rig.err);
    struct kiln_meaning_hit again[MOST];
    const struct kiln_meaning_found found = search_in(other, its, &all, "brass lamp");
    memcpy(again, hits, sizeof again);
    assert_int_equal(search("brass lamp", &all).count, found.count);
    for (uint32_t i = 0; i < found.count; i++)
        assert_true(again[i].score == hits[i].score);
    kiln_meaning_scratch_free(its);
    kiln_meaning_close(other);
}

/* Of another gallery, say, or of pictures that went and came back.  This one is of another prompt,
 * which shows that it was taken as it is. */
static void a_vector_in_the_ledger_is_not_made_again(void **state)
{
    (void)state;
    const char *prompt = "a heron between the reeds";
    char sql[512];
    snprintf(
        sql, sizeof sql,
        "INSERT INTO gallery_vector (recipe, prompt_hash, scale, v) SELECT recipe,"
        " encode(sha256('%s'), 'hex'), scale, v FROM gallery_vector WHERE prompt_hash ="
        " (SELECT prompt_hash FROM image WHERE job_id = %llu)",
        prompt, (unsigned long long)harbour);
    free(kiln_test_sql(rig.stack, sql));
    const uint64_t heron = show(prompt, "0", 256), shore = show("herons on the shore", "0", 256);
    keep_up(meaning);
    assert_true(has(search("ships in the harbour at dawn", &all).near, heron));
    assert_false(has(search(prompt, &all).near, heron));
    assert_true(has(search("herons on the shore", &all).near, shore)); /* beside one that is */
}

/* --- words and meaning in one list ------------------------------------------------------------ */
static int take_tile(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    uint32_t *count = arg;
    (void)err;
    hits[(*count)++].job = tile->job;
    return 0;
}

static uint32_t list(struct kiln_mixed *mixed, const char *words, const char *cursor,
                     struct kiln_gallery_page *page)
{
    const struct kiln_gallery_query query = {
        .filter = all, .words = words, .cursor = cursor, .rows_max = 2, .budget_ms = 5000};
    uint32_t count = 0;
    kiln_test_ok(kiln_mixed_list(mixed, session, &query, take_tile, &count, page, &rig.err),
                 rig.err);
    assert_int_equal(page->rows, count);
    return count;
}

static void words_and_meaning_are_one_list(void **state)
{
    (void)state;
    struct kiln_mixed *mixed;
    struct kiln_gallery_page page, next;
    uint32_t count_tiles;
    kiln_test_ok(kiln_mixed_new(rig.stack->config, meaning, &mixed, &rig.err), rig.err);
    assert_int_equal(list(mixed, "brass lamp table", NULL, &page), 2);
    assert_true(has(2, lamp[2])); /* in both lists */
    assert_true(page.older[0] == 'm');

    uint64_t first[2] = {hits[0].job, hits[1].job};
    show("a brass lamp on the table", "0", 256); /* the list stays as it is */
    keep_up(meaning);
    assert_true(list(mixed, "brass lamp table", page.older, &next) > 0);
    assert_false(has(next.rows, first[0]) || has(next.rows, first[1]));
    assert_int_equal(list(mixed, "brass lamp table", next.newer, &page), 2);
    assert_true(hits[0].job == first[0] && hits[1].job == first[1]);

    char odd[KILN_GALLERY_CURSOR_MAX]; /* of this list, and not as it is written */
    snprintf(odd, sizeof odd, "%.18s+2", next.newer);
    const char *const wrong[] = {"m0123456789abcdef-2", "m", "x", "m-1", odd, next.newer};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct kiln_gallery_query query = {
            .filter = all, .words = "brass lamp table", .cursor = wrong[i], .rows_max = 2};
        if (wrong[i] == next.newer) /* of another set of levels, which would show what is hidden */
            query.filter.level_max = all.level_max ? 0 : KILN_SAFETY_EXPLICIT;
        uint32_t count = 0;
        assert_int_equal(
            kiln_mixed_list(mixed, session, &query, take_tile, &count, &page, &rig.err),
            KILN_BAD_INPUT);
    }
    count_tiles = 0;
    kiln_test_ok(
        kiln_mixed_similar(mixed, session, &all, lamp[0], 5, take_tile, &count_tiles, &rig.err),
        rig.err);
    assert_true(count_tiles <= 5);
    assert_false(has(count_tiles, lamp[2]));
    kiln_mixed_free(mixed);
}

/* What is new is told also where it is none of the best matches. */
static void a_feed_has_the_newest_of_the_list(void **state)
{
    (void)state;
    const struct kiln_gallery_query query = {
        .filter = all, .words = "violet anchor rope", .rows_max = 2, .budget_ms = 5000};
    struct kiln_mixed *mixed;
    struct kiln_gallery_page page;
    uint32_t count = 0;
    show("a violet anchor rope", "0", 256);
    show("the violet anchor rope", "0", 256);
    const uint64_t newest = show("a violet anchor", "0", 256);
    keep_up(meaning);
    kiln_test_ok(kiln_mixed_new(rig.stack->config, meaning, &mixed, &rig.err), rig.err);
    assert_int_equal(list(mixed, query.words, NULL, &page), 2);
    assert_false(has(2, newest));
    kiln_test_ok(kiln_mixed_newest(mixed, session, &query, take_tile, &count, &rig.err), rig.err);
    assert_int_equal(count, 2);
    assert_true(hits[0].job == newest && hits[1].job < newest);
    kiln_mixed_free(mixed);
}

struct lighthouses {
    uint32_t tiles, count;
};

static int count_lighthouse(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    struct lighthouses *found = arg;
    (void)err;
    found->tiles++;
    found->count += strcmp(tile->prompt, "a lighthouse") == 0;
    return 0;
}

static void a_list_goes_on_with_older_pictures_of_its_words(void **state)
{
    (void)state;
    struct kiln_mixed *mixed;
    struct kiln_gallery_page page = {.older = ""};
    struct lighthouses found = {0};
    struct kiln_gallery_query query = {
        .filter = all, .words = "lighthouse", .rows_max = 90, .budget_ms = 5000};
    char cursor[KILN_GALLERY_CURSOR_MAX] = "";
    for (int i = 0; i < KILN_MIXED_WORDS + 5; i++)
        show("a lighthouse", "0", 256);
    keep_up(meaning);
    kiln_test_ok(kiln_mixed_new(rig.stack->config, meaning, &mixed, &rig.err), rig.err);
    query.cursor = cursor;
    do {
        kiln_test_ok(
            kiln_mixed_list(mixed, session, &query, count_lighthouse, &found, &page, &rig.err),
            rig.err);
        assert_false(page.no_words);
        snprintf(cursor, sizeof cursor, "%s", page.older);
    } while (cursor[0] == KILN_MIXED_CURSOR);
    assert_int_equal(found.count, KILN_MIXED_WORDS);
    assert_true(cursor[0] != '\0');
    kiln_test_ok(kiln_gallery_list(session, &query, count_lighthouse, &found, &page, &rig.err),
                 rig.err);
    assert_int_equal(found.count, KILN_MIXED_WORDS + 5);
    assert_true(page.older[0] == '\0');
    assert_true(list(mixed, "brass lmap", NULL, &page) > 0 && page.no_words);
    kiln_mixed_free(mixed);
}

/* --- the ledger and other threads ------------------------------------------------------------- */
static void too_many_changes_wait_for_a_step(void **state)
{
    (void)state;
    bool more;
    for (uint64_t i = 0; i < KILN_MEANING_NOTES_MAX; i++)
        kiln_test_ok(kiln_meaning_note(meaning, 900000 + i, i % 2, &rig.err), rig.err);
    assert_int_equal(kiln_meaning_note(meaning, 1, false, &rig.err), KILN_FULL);
    kiln_test_ok(kiln_meaning_step(meaning, session, rig.ledger, &more, &rig.err), rig.err);
    kiln_test_ok(kiln_meaning_note(meaning, 1, false, &rig.err), rig.err);
    keep_up(meaning);
}

/* The number of a line of the page of metrics. */
static double gauge_of(struct kiln_alike *alike, const char *name)
{
    struct kiln_text text = {0};
    char line[128];
    kiln_alike_gauges(alike, &text);
    snprintf(line, sizeof line, "\n%s ", name);
    char *page = kiln_text_take(&text), *at = page ? strstr(page, line) : NULL;
    assert_non_null(at);
    const double value = strtod(at + strlen(line), NULL);
    free(page);
    return value;
}

#define WAITS "kiln_gallery_fingerprints_waits_total"
#define LOOKED "kiln_gallery_unreadable_total" /* these pictures have no files */
static struct kiln_alike *alike;

static void wait_for(const char *name, double wanted)
{
    for (int i = 0; i < 6000 && gauge_of(alike, name) < wanted; i++)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    assert_true(gauge_of(alike, name) >= wanted);
}

/* A search that is being prepared comes before the walk over all pictures, however many there are.
 */
static void fingerprints_wait_for_a_search_that_is_prepared(void **state)
{
    (void)state;
    char dir[256], store[512];
    assert_int_equal(mkdir("store", 0755), 0);
    assert_non_null(getcwd(dir, sizeof dir));
    snprintf(store, sizeof store, "file://%s/store", dir);
    kiln_test_ok(kiln_config_set(rig.stack->config, "store", store, "test", &rig.err), rig.err);
    kiln_test_ok(kiln_alike_start(rig.stack->config, &alike, &rig.err), rig.err);
    kiln_alike_hold(alike, true);
    kiln_alike_step(alike, true, false);
    wait_for(WAITS, 2); /* whatever was in work has ended */
    const double looks = gauge_of(alike, LOOKED);
    for (int i = 0; i < 3; i++)
        kiln_alike_note(alike, lamp[i], false);
    wait_for(WAITS, gauge_of(alike, WAITS) + 5);
    assert_true(gauge_of(alike, LOOKED) == looks);
    kiln_alike_hold(alike, false);
    wait_for(LOOKED, looks + 30);
    assert_true(kiln_alike_stop(alike));
}

static void vectors_of_prompts_that_went_are_forgotten(void **state)
{
    (void)state;
    struct kiln_vector_place place = {"", ""};
    long long before = kiln_test_count(rig.stack, "SELECT count(*) FROM gallery_vector");
    free(kiln_test_sql(rig.stack,
                       "INSERT INTO gallery_vector (recipe, prompt_hash, made_at, scale, v)"
                       " SELECT r, h, now() - a, 1, '' FROM (VALUES ('a', 'old', interval '2"
                       " days'), ('z', 'old', '2 days'), ('z', 'new', '1 hour'),"
                       "  ('z', (SELECT max(prompt_hash) FROM image), '2 days')) x (r, h, a)"));
    int calls = 0;
    do
        kiln_test_ok(kiln_gallery_vectors_forget(rig.ledger, 3, &place, &rig.err), rig.err);
    while (place.recipe[0] && ++calls < 1000);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM gallery_vector"), before + 2);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM gallery_vector WHERE"
                                                " prompt_hash = 'old'"),
                     0);
}

struct vectors {
    uint32_t count, sum, ends_at; /* with an error at that number; 0: never */
};

static int add_vector(void *arg, const struct kiln_prompt_vector *vector, struct kiln_error *err)
{
    struct vectors *vectors = arg;
    vectors->sum += vector->row[3];
    return ++vectors->count == vectors->ends_at ? kiln_fail(err, KILN_FULL, "enough") : 0;
}

/* They come in pages of a thousand, and the next page is on its way while one is read. */
static void many_vectors_are_read_and_an_error_ends_it(void **state)
{
    (void)state;
    struct vectors vectors = {0}, some = {.ends_at = 1100};
    free(kiln_test_sql(rig.stack, "INSERT INTO gallery_vector (recipe, prompt_hash, scale, v)"
                                  " SELECT 'many', md5(n::text), 1, decode(CASE n % 100 WHEN 7"
                                  "  THEN '0102' ELSE '010203' || lpad(to_hex(n % 100), 2, '0')"
                                  " END, 'hex') FROM generate_series(0, 3499) n"));
    kiln_test_ok(kiln_gallery_vectors(session, "many", 4, add_vector, &vectors, &rig.err), rig.err);
    assert_int_equal(vectors.count, 3500 - 35); /* those of two values are passed over */
    assert_int_equal(vectors.sum, 35 * (100 * 128 + 99 * 50 - 128 - 7));
    assert_int_equal(kiln_gallery_vectors(session, "many", 4, add_vector, &some, &rig.err),
                     KILN_FULL);
    assert_string_equal(rig.err.text, "enough");
    assert_int_equal(some.count, 1100);
    vectors = (struct vectors){0};
    kiln_test_ok(kiln_gallery_vectors(session, "many", 4, add_vector, &vectors, &rig.err), rig.err);
    assert_int_equal(vectors.count, 3500 - 35);
    free(kiln_test_sql(rig.stack, "DELETE FROM gallery_vector WHERE recipe = 'many'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_picture_of_each_prompt_is_found),
        cmocka_unit_test(filters_hold_inside_the_search),
        cmocka_unit_test(similar_pictures_are_of_other_prompts),
        cmocka_unit_test(changes_are_followed),
        cmocka_unit_test(vectors_are_kept_in_the_ledger),
        cmocka_unit_test(a_vector_in_the_ledger_is_not_made_again),
        cmocka_unit_test(words_and_meaning_are_one_list),
        cmocka_unit_test(a_feed_has_the_newest_of_the_list),
        cmocka_unit_test(a_list_goes_on_with_older_pictures_of_its_words),
        cmocka_unit_test(too_many_changes_wait_for_a_step),
        cmocka_unit_test(fingerprints_wait_for_a_search_that_is_prepared),
        cmocka_unit_test(vectors_of_prompts_that_went_are_forgotten),
        cmocka_unit_test(many_vectors_are_read_and_an_error_ends_it),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
