/* test_meaning_tokens.c - pictures found by the tokens of their prompts: on a real ledger, with an
 * encoder of the test's own whose features say the first letters of words. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "pipeline/embed/captions/captions.h"
#include "scheduler/gallery/meaning/mixed.h"
#include "storage/formats/safetensors.h"
#include "storage/ledger/gallery/follow.h"
#include "storage/ledger/ledger.h"
#include "tests/support/gallery.h"
#include "tests/support/rig.h"

#define MOST 64

static struct kiln_ledger *session;
static struct kiln_embedder *embedder;
static struct kiln_meaning *meaning;
static struct kiln_meaning_scratch *scratch;
static struct kiln_meaning_hit hits[MOST];

static int start(void **state)
{
    int rc = kiln_rig_start(state);
    if (rc == 0)
        kiln_test_ok(kiln_ledger_open_reading(rig.stack->config, "gallery", 0, &session, &rig.err),
                     rig.err);
    return rc;
}

static int stop(void **state)
{
    kiln_ledger_close(session);
    return kiln_rig_stop(state);
}

#define LETTERS 26

static int encode_ms; /* that a text takes at least */

/* A token for each word, whose features say its first letter. */
static int encode_words(void *arg, const char *text, size_t len, float *features, size_t *ret_count,
                        struct kiln_error *err)
{
    (void)arg, (void)err;
    *ret_count = 0;
    nanosleep(&(struct timespec){.tv_nsec = encode_ms * 1000000L}, NULL);
    for (size_t i = 0; i < len && *ret_count < KILN_CAPTION_TOKENS_MAX; i++) {
        if (text[i] < 'a' || text[i] > 'z' || (i > 0 && text[i - 1] != ' '))
            continue;
        float *token = features + LETTERS * (*ret_count)++;
        memset(token, 0, LETTERS * sizeof *token);
        token[text[i] - 'a'] = 1;
    }
    return 0;
}

static void close_words(void *arg)
{
    (void)arg;
}

/* A fit that changes nothing, and a head by which words of an x count for nothing. */
static void write_files(void)
{
    static float mean[LETTERS], map[LETTERS * LETTERS], weight[3 * LETTERS];
    static const float shift[3];
    struct kiln_caption_fit fit = {.dims = LETTERS, .mean = mean, .removed = mean, .model = "abc"};
    for (int i = 0; i < LETTERS; i++)
        map[i * LETTERS + i] = 1;
    weight['x' - 'a'] = weight[LETTERS + 'x' - 'a'] = -20;
    const struct kiln_st_tensor tensors[] = {
        {"map", KILN_ST_F32, 2, {LETTERS, LETTERS}, map, sizeof map},
        {"shift", KILN_ST_F32, 1, {3}, shift, sizeof shift},
        {"vague_map", KILN_ST_F32, 2, {LETTERS, LETTERS}, map, sizeof map},
        {"weight", KILN_ST_F32, 2, {3, LETTERS}, weight, sizeof weight}};
    const char *const metadata[] = {"format", "kiln-caption-head-2", "model", "abc", NULL};
    kiln_test_ok(kiln_caption_fit_write(&fit, "fit.safetensors", &rig.err), rig.err);
    kiln_test_ok(kiln_st_write("head.safetensors", tensors, 4, metadata, &rig.err), rig.err);
}

/* The gallery of a pool, whose prompts get vectors as they are asked for. */
static void open_gallery(const char *pool, const char *head)
{
    const struct kiln_caption_encoder encoder = {
        .encode = encode_words, .close = close_words, .width = LETTERS, .model = "abc"};
    write_files();
    kiln_test_ok(kiln_captions_open(&encoder, "fit.safetensors", head, &embedder, &rig.err),
                 rig.err);
    kiln_test_ok(kiln_meaning_open(pool, embedder, &meaning, &rig.err), rig.err);
    kiln_test_ok(kiln_meaning_scratch_new(meaning, &scratch, &rig.err), rig.err);
}

static void close_gallery(void)
{
    kiln_meaning_scratch_free(scratch);
    kiln_meaning_close(meaning);
    kiln_embedder_close(embedder);
}

static void embed_all(void)
{
    bool more = true;
    for (int i = 0; i < 100 && more; i++)
        kiln_test_ok(kiln_meaning_step(meaning, session, rig.ledger, &more, &rig.err), rig.err);
    assert_false(more);
}

static void load_all(void)
{
    kiln_test_ok(kiln_meaning_load(meaning, session, &rig.err), rig.err);
    embed_all();
}

static struct kiln_meaning_found search(struct kiln_meaning_scratch *s, const char *text,
                                        const struct kiln_gallery_filter *filter)
{
    struct kiln_meaning_found found;
    kiln_test_ok(
        kiln_meaning_search(meaning, s, session, filter, text, MOST, hits, &found, &rig.err),
        rig.err);
    return found;
}

/* The pictures that are nearest to one and to a text, for an embedder with such a head. */
static void ask_tokens(const char *head, uint64_t of, const char *text, uint64_t *ret_similar,
                       uint64_t *ret_second)
{
    static const struct kiln_gallery_filter letters = {.pool = "letters", .show_unchecked = true};
    struct kiln_meaning_found found;
    open_gallery("letters", head);
    for (int loads = 0; loads < 2; loads++) /* the second finds all vectors in the ledger */
        load_all();
    kiln_test_ok(
        kiln_meaning_similar(meaning, scratch, session, &letters, of, MOST, hits, &found, &rig.err),
        rig.err);
    assert_true(found.count > 1);
    *ret_similar = hits[0].job;
    assert_true(search(scratch, text, &letters).count > 1 && hits[0].score > 0.99f);
    const bool first =
        hits[0].job == of; /* the other one may be as near: both have all that counts */
    assert_true(first || (hits[1].job == of && hits[1].score > 0.99f));
    *ret_second = hits[first].job;
    close_gallery();
}

/* Words that a head passes over make nothing alike, and nothing of a search. */
static void a_head_says_which_words_count(void **state)
{
    (void)state;
    static const char *const prompts[] = {"apple xeno xylo xray", "mango xeno xylo xray",
                                          "apple plum", "grape plum", "kiwi lime"};
    uint64_t jobs[5], similar, second;
    for (int i = 0; i < 5; i++)
        jobs[i] = kiln_test_shown(
            rig.stack, &(struct kiln_test_shown){.prompt = prompts[i], .pool = "letters"});
    ask_tokens(NULL, jobs[0], prompts[0], &similar, &second);
    assert_true(similar == jobs[1] && second == jobs[1]);
    ask_tokens("head.safetensors", jobs[0], prompts[0], &similar, &second);
    assert_true(similar == jobs[2] && second == jobs[2]);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM gallery_vector"
                                                " WHERE recipe LIKE 'captions-%'"),
                     2 * 5); /* of two recipes */
}

/* In a small gallery half of the prompts may share a word with the query. */
static void what_is_alike_stands_out_of_few_prompts(void **state)
{
    (void)state;
    static const struct kiln_gallery_filter few = {.pool = "few", .show_unchecked = true};
    static const char *const prompts[] = {"ra sa", "rb sb", "rc ab", "ra bc", "sb ca",
                                          "sc ea", "fa gb", "hc ia", "ja kb", "lc ma"};
    uint64_t jobs[10];
    for (int i = 0; i < 10; i++)
        jobs[i] = kiln_test_shown(
            rig.stack, &(struct kiln_test_shown){.prompt = prompts[i], .pool = few.pool});
    open_gallery(few.pool, "head.safetensors");
    load_all();
    const uint32_t near = search(scratch, "rx sx", &few).near;
    assert_in_range(near, 2, 6);
    assert_true(hits[0].job == jobs[1] && hits[1].job == jobs[0]);
    assert_int_equal(search(scratch, "nx ox", &few).near, 0);
    close_gallery();
}

/* The next step makes the vectors that this one left; none is made twice or left out. */
static void a_search_ends_a_long_step(void **state)
{
    (void)state;
    static const struct kiln_gallery_filter slow = {.pool = "slow", .show_unchecked = true};
    uint32_t pictures, prompts = 0, waiting = 0;
    bool more = false;
    open_gallery(slow.pool, NULL);
    for (int round = 0; round < 5 && waiting == 0; round++) { /* a slow machine may pause longer */
        for (int i = 0; i < 6; i++) {
            char prompt[32];
            snprintf(prompt, sizeof prompt, "slow %d words", round * 6 + i);
            kiln_test_shown(rig.stack,
                            &(struct kiln_test_shown){.prompt = prompt, .pool = slow.pool});
        }
        encode_ms = 0;
        kiln_test_ok(kiln_meaning_load(meaning, session, &rig.err), rig.err);
        (void)search(scratch, "slow", &slow);
        encode_ms = 60;
        kiln_test_ok(kiln_meaning_step(meaning, session, rig.ledger, &more, &rig.err), rig.err);
        kiln_meaning_progress(meaning, &pictures, &prompts, &waiting);
    }
    encode_ms = 0;
    assert_true(more && waiting > 0 && waiting < 6);
    embed_all();
    kiln_meaning_progress(meaning, &pictures, &prompts, &waiting);
    assert_int_equal(waiting, 0);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(DISTINCT v.prompt_hash) FROM image i"
                                                " JOIN gallery_vector v USING (prompt_hash)"
                                                " WHERE i.pool = 'slow'"),
                     prompts);
    close_gallery();
}

/* --- a gallery that grows -------------------------------------------------------------------- */
#define SOME 300 /* prompts: more than say what is usual */
#define ODD "qua vox"

static const struct kiln_gallery_filter grown = {.pool = "grown", .show_unchecked = true};

/* So many new prompts of three words that begin with a to o, and one more picture of ODD. */
static uint64_t show_words(int from, int count)
{
    struct kiln_test_shown picture = {.pool = grown.pool};
    for (int i = from; i < from + count; i++) {
        char prompt[32];
        snprintf(prompt, sizeof prompt, "%ca %cb %cc", 'a' + i % 15, 'a' + i / 15 % 15,
                 'a' + i / 225 % 15);
        picture.prompt = prompt;
        kiln_test_shown(rig.stack, &picture);
    }
    picture.prompt = ODD;
    return kiln_test_shown(rig.stack, &picture);
}

/* Finds that picture alone alike, with samples from before or with none yet. */
static void assert_finds(struct kiln_meaning_scratch *s, uint64_t job)
{
    const struct kiln_meaning_found found = search(s, ODD, &grown);
    assert_true(found.known && found.count > 1);
    assert_int_equal(found.near, 1);
    assert_true(hits[0].job == job && hits[0].score > 0.99f);
}

static void tokens_of_all_prompts_are_read_from_the_ledger(void **state)
{
    (void)state;
    struct kiln_meaning_scratch *fresh;
    uint64_t job = show_words(0, 5);
    open_gallery(grown.pool, NULL);
    load_all();
    assert_finds(scratch, job);
    job = show_words(5, SOME);
    load_all(); /* another world */
    assert_finds(scratch, job);
    kiln_test_ok(kiln_meaning_scratch_new(meaning, &fresh, &rig.err), rig.err);
    assert_finds(fresh, job);
    kiln_meaning_scratch_free(fresh);

    /* A prompt whose tokens are missing comes last. */
    free(kiln_test_sql(rig.stack,
                       "UPDATE gallery_vector SET tokens = NULL WHERE prompt_hash ="
                       " (SELECT prompt_hash FROM image WHERE prompt = '" ODD "' LIMIT 1)"));
    const uint32_t count = search(scratch, ODD, &grown).count;
    assert_true(count > 1 && hits[0].job != job);
    close_gallery();
}

/* The rows of all vectors, written anew in this order. */
static void rewrite_rows(const char *order)
{
    char sql[200];
    free(kiln_test_sql(rig.stack, "CREATE TABLE aside AS SELECT * FROM gallery_vector"));
    free(kiln_test_sql(rig.stack, "TRUNCATE gallery_vector"));
    snprintf(sql, sizeof sql, "INSERT INTO gallery_vector SELECT * FROM aside ORDER BY %s", order);
    free(kiln_test_sql(rig.stack, sql));
    free(kiln_test_sql(rig.stack, "DROP TABLE aside"));
}

/* Each row knows its prompt, so that a gallery may know old addresses. */
static void tokens_are_those_of_the_prompt_wherever_its_row_is(void **state)
{
    (void)state;
    const uint64_t job = show_words(0, SOME);
    free(kiln_test_sql(rig.stack, "DELETE FROM gallery_vector"));
    open_gallery(grown.pool, NULL);
    load_all();
    assert_finds(scratch, job);
    free(kiln_test_sql(rig.stack, "VACUUM FULL gallery_vector"));
    assert_finds(scratch, job);
    rewrite_rows("prompt_hash");
    assert_finds(scratch, job);
    rewrite_rows("prompt_hash DESC"); /* at each address there is another prompt now */
    assert_finds(scratch, job);
    close_gallery();
    open_gallery(grown.pool, NULL);
    load_all(); /* as after a restart */
    assert_finds(scratch, job);
    close_gallery();

    /* Another gallery is faster than this one. */
    free(kiln_test_sql(rig.stack, "CREATE TABLE aside AS SELECT * FROM gallery_vector"));
    free(kiln_test_sql(rig.stack, "DELETE FROM gallery_vector"));
    open_gallery(grown.pool, NULL);
    kiln_test_ok(kiln_meaning_load(meaning, session, &rig.err), rig.err);
    free(kiln_test_sql(rig.stack, "INSERT INTO gallery_vector SELECT * FROM aside"));
    free(kiln_test_sql(rig.stack, "DROP TABLE aside"));
    embed_all();
    assert_finds(scratch, job);
    close_gallery();
}

/* As a search by words does. */
static void a_search_without_the_ledger_fails(void **state)
{
    (void)state;
    struct kiln_meaning_found found;
    show_words(0, 5);
    open_gallery(grown.pool, NULL);
    load_all();
    assert_true(search(scratch, ODD, &grown).count > 1);
    kiln_test_kill(rig.stack, KILN_TEST_POSTGRES);
    assert_int_equal(
        kiln_meaning_search(meaning, scratch, session, &grown, ODD, MOST, hits, &found, &rig.err),
        KILN_UNAVAILABLE);
    assert_int_equal(found.count, 0);
    kiln_test_restart(rig.stack, KILN_TEST_POSTGRES, NULL);
    assert_true(search(scratch, ODD, &grown).count > 1);
    close_gallery();
}

/* As a gallery does that follows the ledger. */
static void index_words(void)
{
    struct kiln_follower_options options = {.each = kiln_meaning_note, .arg = meaning};
    struct kiln_follower_progress progress = {.more = true};
    struct kiln_follower *follower;
    kiln_test_ok(kiln_follower_open(rig.stack->config, "gallery", &options, &follower, &rig.err),
                 rig.err);
    for (int i = 0; i < 100 && progress.more; i++)
        kiln_test_ok(kiln_follower_step(follower, &progress, &rig.err), rig.err);
    assert_false(progress.more);
    kiln_follower_close(follower);
}

static void *hold_tokens(void *arg)
{
    free(kiln_test_sql(rig.stack, "BEGIN; LOCK TABLE gallery_vector; SELECT pg_sleep(3); COMMIT"));
    return arg;
}

static int count_tile(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    (void)tile, (void)err;
    ++*(uint32_t *)arg;
    return 0;
}

/* Pictures that have the words are not lost with those that only mean the same. */
static void a_list_whose_tokens_come_late_has_its_words(void **state)
{
    (void)state;
    struct kiln_mixed *mixed;
    struct kiln_gallery_page page;
    struct kiln_gallery_query query = {.filter = grown, .words = ODD, .rows_max = 10};
    uint32_t count = 0, late = 0;
    pthread_t holder;
    show_words(0, 5);
    open_gallery(grown.pool, NULL);
    load_all();
    index_words();
    kiln_test_ok(kiln_mixed_new(rig.stack->config, meaning, &mixed, &rig.err), rig.err);
    kiln_test_ok(kiln_mixed_list(mixed, session, &query, count_tile, &count, &page, &rig.err),
                 rig.err);
    assert_int_equal(pthread_create(&holder, NULL, hold_tokens, NULL), 0);
    nanosleep(&(struct timespec){1, 0}, NULL);
    kiln_test_ok(kiln_mixed_list(mixed, session, &query, count_tile, &late, &page, &rig.err),
                 rig.err);
    pthread_join(holder, NULL);
    assert_true(count > 0 && late > 0 && late <= count);
    count = 0;
    kiln_test_ok(kiln_mixed_list(mixed, session, &query, count_tile, &count, &page, &rig.err),
                 rig.err);
    assert_true(count >= late);
    kiln_mixed_free(mixed);
    close_gallery();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_says_which_words_count),
        cmocka_unit_test(what_is_alike_stands_out_of_few_prompts),
        cmocka_unit_test(a_search_ends_a_long_step),
        cmocka_unit_test(tokens_of_all_prompts_are_read_from_the_ledger),
        cmocka_unit_test(tokens_are_those_of_the_prompt_wherever_its_row_is),
        cmocka_unit_test(a_list_whose_tokens_come_late_has_its_words),
        cmocka_unit_test(a_search_without_the_ledger_fails),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
