/* test_meaning_tokens.c - pictures found by the tokens of their prompts: on a real ledger, with an
 * encoder of the test's own whose features say the first letters of words. */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

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

/* Before any tokens are copied into the gallery's file. */
static void load_only(void)
{
    kiln_test_ok(kiln_meaning_load(meaning, session, &rig.err), rig.err);
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
        load_only();
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

static void tokens_of_all_prompts_are_read(void **state)
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
    load_only();
    assert_true(search(scratch, ODD, &grown).count > 1 && hits[0].job != job);
    embed_all(); /* and copied */
    assert_true(search(scratch, ODD, &grown).count > 1 && hits[0].job != job);
    close_gallery();
}

static void assert_copied(bool copied)
{
    assert_int_equal(kiln_meaning_has_copied(meaning), copied);
}

/* In the ledger, and then in the file; after a restart; and from another gallery. */
static void tokens_are_found_wherever_they_are(void **state)
{
    (void)state;
    const uint64_t job = show_words(0, SOME);
    free(kiln_test_sql(rig.stack, "DELETE FROM gallery_vector"));
    open_gallery(grown.pool, NULL);
    load_all(); /* of prompts that it has embedded itself */
    assert_finds(scratch, job);
    free(kiln_test_sql(rig.stack, "VACUUM FULL gallery_vector"));
    assert_finds(scratch, job);
    close_gallery();
    for (int copies = 0; copies < 2; copies++) {
        open_gallery(grown.pool, NULL);
        load_only();
        assert_copied(false);
        assert_finds(scratch, job);
        embed_all();
        assert_copied(true);
        assert_finds(scratch, job);
        load_only(); /* another world and its file, while the scratch knows the last one */
        assert_finds(scratch, job);
        embed_all();
        assert_finds(scratch, job);
        close_gallery();
    }

    /* Another gallery is faster than this one. */
    free(kiln_test_sql(rig.stack, "CREATE TABLE aside AS SELECT * FROM gallery_vector"));
    free(kiln_test_sql(rig.stack, "DELETE FROM gallery_vector"));
    open_gallery(grown.pool, NULL);
    load_only();
    bool more;
    kiln_test_ok(kiln_meaning_step(meaning, session, rig.ledger, &more, &rig.err), rig.err);
    assert_copied(true);
    free(kiln_test_sql(rig.stack, "INSERT INTO gallery_vector SELECT * FROM aside"
                                  " ON CONFLICT DO NOTHING"));
    free(kiln_test_sql(rig.stack, "DROP TABLE aside"));
    embed_all();
    assert_finds(scratch, job);
    close_gallery();
}

/* What is in the file needs no ledger; what is not, fails as a search by words does. */
static void a_search_without_the_ledger_finds_what_is_copied(void **state)
{
    (void)state;
    struct kiln_meaning_found found;
    const uint64_t job = show_words(0, 5);
    open_gallery(grown.pool, NULL);
    load_all();
    assert_finds(scratch, job);
    kiln_test_kill(rig.stack, KILN_TEST_POSTGRES);
    assert_finds(scratch, job);
    kiln_test_restart(rig.stack, KILN_TEST_POSTGRES, NULL);
    load_only();
    kiln_test_kill(rig.stack, KILN_TEST_POSTGRES);
    assert_int_equal(
        kiln_meaning_search(meaning, scratch, session, &grown, ODD, MOST, hits, &found, &rig.err),
        KILN_UNAVAILABLE);
    assert_int_equal(found.count, 0);
    kiln_test_restart(rig.stack, KILN_TEST_POSTGRES, NULL);
    assert_finds(scratch, job);
    close_gallery();
}

/* A file holds the first prompts, and searches find those and the others in the ledger. */
static void a_full_disk_leaves_the_rest_in_the_ledger(void **state)
{
    (void)state;
    static const rlim_t sizes[] = {0, 1, 5000, 20000};
    const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    const uint64_t job = show_words(0, SOME);
    struct kiln_meaning_found found;
    signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct rlimit small = {sizes[i], RLIM_INFINITY};
        open_gallery(grown.pool, NULL);
        load_only();
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        embed_all();
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
        assert_copied(false); /* and nothing more will be */
        assert_finds(scratch, job);
        kiln_test_kill(rig.stack, KILN_TEST_POSTGRES);
        assert_int_equal(kiln_meaning_search(meaning, scratch, session, &grown, ODD, MOST, hits,
                                             &found, &rig.err),
                         KILN_UNAVAILABLE);
        kiln_test_restart(rig.stack, KILN_TEST_POSTGRES, NULL);
        assert_finds(scratch, job);
        close_gallery();
    }
}

/* Temporary files without a name that this process holds. */
static int files_held(void)
{
    int held = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char target[512];
        const ssize_t len = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
        target[len > 0 ? len : 0] = '\0';
        held += strstr(target, "/kiln-tokens-") != NULL;
    }
    closedir(dir);
    return held;
}

/* A gigabyte of an old world would stay on the disk. */
static void a_search_that_has_ended_holds_no_file(void **state)
{
    (void)state;
    const struct kiln_gallery_filter nobody = {.pool = "grown", .tenant = "no such tenant"};
    const uint64_t job = show_words(0, 5);
    open_gallery(grown.pool, NULL);
    load_all();
    assert_int_equal(files_held(), 1);
    assert_int_equal(search(scratch, ODD, &nobody).count, 0);
    load_all();
    assert_int_equal(files_held(), 1);
    assert_finds(scratch, job);
    load_all();
    assert_int_equal(files_held(), 1);
    close_gallery();
    assert_int_equal(files_held(), 0);
}

/* Vectors of another gallery are taken beside searches, and then a new prompt has its turn. */
static void a_step_that_finds_all_vectors_is_followed_by_others(void **state)
{
    (void)state;
    uint32_t pictures, prompts, waiting = 1;
    bool more;
    show_words(0, SOME);
    open_gallery(grown.pool, NULL);
    load_all();
    free(kiln_test_sql(rig.stack, "CREATE TABLE aside AS SELECT * FROM gallery_vector"));
    free(kiln_test_sql(rig.stack, "DELETE FROM gallery_vector"));
    load_only();
    free(kiln_test_sql(rig.stack, "INSERT INTO gallery_vector SELECT * FROM aside"));
    free(kiln_test_sql(rig.stack, "DELETE FROM gallery_vector WHERE prompt_hash ="
                                  " (SELECT max(prompt_hash) FROM gallery_vector)"));
    free(kiln_test_sql(rig.stack, "DROP TABLE aside"));
    for (int i = 0; i < 200 && waiting > 0; i++) {
        (void)search(scratch, ODD, &grown);
        kiln_test_ok(kiln_meaning_step(meaning, session, rig.ledger, &more, &rig.err), rig.err);
        kiln_meaning_progress(meaning, &pictures, &prompts, &waiting);
    }
    assert_int_equal(waiting, 0);
    assert_int_equal(kiln_meaning_rest(meaning), 15);
    close_gallery();
}

static _Atomic bool ended;

static void *search_on(void *arg)
{
    struct kiln_meaning_scratch *own;
    struct kiln_ledger *reader;
    struct kiln_error err;
    static struct kiln_meaning_hit found_hits[MOST];
    kiln_test_ok(kiln_ledger_open_reading(rig.stack->config, "gallery", 0, &reader, &err), err);
    kiln_test_ok(kiln_meaning_scratch_new(meaning, &own, &err), err);
    while (!ended) {
        struct kiln_meaning_found found;
        kiln_test_ok(
            kiln_meaning_search(meaning, own, reader, &grown, ODD, MOST, found_hits, &found, &err),
            err);
        assert_true(found.count > 1 && found_hits[0].job == *(uint64_t *)arg &&
                    found_hits[0].score > 0.99f);
    }
    kiln_meaning_scratch_free(own);
    kiln_ledger_close(reader);
    return NULL;
}

/* A search holds the file that it found its places in, while another world takes over. */
static void worlds_may_come_and_go_during_searches(void **state)
{
    (void)state;
    pthread_t thread;
    uint64_t job = show_words(0, SOME);
    open_gallery(grown.pool, NULL);
    load_all();
    ended = false;
    assert_int_equal(pthread_create(&thread, NULL, search_on, &job), 0);
    for (int i = 0; i < 20; i++)
        load_all();
    ended = true;
    pthread_join(thread, NULL);
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
    load_only();
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
        cmocka_unit_test(tokens_of_all_prompts_are_read),
        cmocka_unit_test(tokens_are_found_wherever_they_are),
        cmocka_unit_test(a_list_whose_tokens_come_late_has_its_words),
        cmocka_unit_test(a_search_without_the_ledger_finds_what_is_copied),
        cmocka_unit_test(a_full_disk_leaves_the_rest_in_the_ledger),
        cmocka_unit_test(a_search_that_has_ended_holds_no_file),
        cmocka_unit_test(a_step_that_finds_all_vectors_is_followed_by_others),
        cmocka_unit_test(worlds_may_come_and_go_during_searches),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
