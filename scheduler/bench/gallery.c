/* gallery.c - `kiln bench gallery`: how long searches take in the gallery of a ledger.
 *
 * The ledger is that of the settings, and is only read; scripts/bench/gallery_make.py fills one.
 * First the index of words is brought up to date, as the gallery does.  Then searches arrive in an
 * open loop: at random moments (Poisson), 20 a second, whether or not those before have ended.  A
 * search's time runs from the moment it was meant to begin, so waiting for others counts.  Classes
 * of searches take turns; their words are taken from the ledger by how many pictures have them.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/bench/bench.h"
#include "schemas/text/utf8.h"
#include "storage/daemon/config_file.h"
#include "storage/ledger/gallery/follow.h"
#include "storage/ledger/gallery/gallery.h"
#include "storage/ledger/ledger.h"

#define RATE 20.0 /* searches a second */
#define WORDS 32  /* of a frequency */
#define WORD_MAX 64
#define ROWS 48 /* of a page */
#define SEARCHES_MAX 200000
#define THREADS_MAX 16

enum frequency { RARE, SCARCE, SOME, OFTEN, COMMON, FREQUENCIES };
static const struct {
    double low, high;
} shares[FREQUENCIES] = {
    {0.00005, 0.0003}, {0.0007, 0.0015}, {0.007, 0.015}, {0.07, 0.15}, {0.22, 0.45}};

/* In a pattern a digit stands for a word of that frequency. */
static const struct sort {
    const char *name, *pattern;
    enum kiln_gallery_order order;
    bool count;
} classes[] = {
    {"newest", NULL, KILN_GALLERY_NEWEST, false},
    {"word, 0.01 %", "0 ", KILN_GALLERY_NEWEST, false},
    {"word, 0.1 %", "1 ", KILN_GALLERY_NEWEST, false},
    {"word, 1 %", "2 ", KILN_GALLERY_NEWEST, false},
    {"word, 10 %", "3 ", KILN_GALLERY_NEWEST, false},
    {"word, 30 %", "4 ", KILN_GALLERY_NEWEST, false},
    {"30 % and 1 %", "4 2 ", KILN_GALLERY_NEWEST, false},
    {"10 % and 10 %", "3 3 ", KILN_GALLERY_NEWEST, false},
    {"four of 30 %", "4 4 4 4 ", KILN_GALLERY_NEWEST, false},
    {"phrase of 30 %", "\"4 4\" ", KILN_GALLERY_NEWEST, false},
    {"phrase of 10 %", "\"3 3\" ", KILN_GALLERY_NEWEST, false},
    {"prefix", "1*", KILN_GALLERY_NEWEST, false},
    {"10 % without 30 %", "3 -4 ", KILN_GALLERY_NEWEST, false},
    {"10 %, relevance", "3 ", KILN_GALLERY_RELEVANCE, false},
    {"1 %, relevance", "2 ", KILN_GALLERY_RELEVANCE, false},
    {"1 %, counted", "2 ", KILN_GALLERY_NEWEST, true},
};
enum { CLASSES = sizeof classes / sizeof *classes };

struct words {
    char at[WORDS][WORD_MAX];
    uint32_t count;
};

struct search {
    double due_s, took_ms;
    uint32_t rows;
    bool cut; /* ended at its budget */
};

struct load {
    struct kiln_cli *cli; /* with the settings of the ledger */
    bool json;
    struct words words[FREQUENCIES];
    struct search *searches;
    long count;
    double start_s;
    atomic_long next;
    atomic_bool failed;
    pthread_mutex_t mutex; /* guards err */
    struct kiln_error err;
};

/* --- what is searched --------------------------------------------------------------------------
 */

static int add_word(void *arg, const char *word, uint64_t pictures, struct kiln_error *err)
{
    (void)pictures, (void)err;
    struct words *words = arg;
    snprintf(words->at[words->count++], WORD_MAX, "%s", word);
    return 0;
}

static int find_words(struct load *load, struct kiln_ledger *session, struct kiln_error *err)
{
    int rc = 0;
    for (int i = 0; i < FREQUENCIES && rc == 0; i++) {
        rc = kiln_gallery_frequent(session, shares[i].low, shares[i].high, WORDS, add_word,
                                   &load->words[i], err);
        if (rc == 0 && load->words[i].count < 4)
            rc = kiln_fail(err, KILN_NOT_FOUND,
                           "the gallery has too few words that %.2f to %.2f %% of its pictures "
                           "have: fill it with scripts/bench/gallery_make.py",
                           shares[i].low * 100, shares[i].high * 100);
    }
    return rc;
}

/* The n-th search of a class; each has other words. */
static void put_words(const struct load *load, const struct sort *sort, long n, char *out,
                      size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (const char *at = sort->pattern; at && *at && len + WORD_MAX + 2 < size; at++) {
        if (*at >= '0' && *at < '0' + FREQUENCIES) {
            const struct words *words = &load->words[*at - '0'];
            const char *word = words->at[(uint32_t)(n * 7 + (at - sort->pattern)) % words->count];
            /* A prefix is the word without its end. */
            size_t whole = strlen(word);
            size_t keep = at[1] == '*' && whole > 4 ? kiln_utf8_whole(word, whole - 1) : whole;
            len += (size_t)snprintf(out + len, size - len, "%.*s", (int)keep, word);
        } else {
            out[len++] = *at;
            out[len] = '\0';
        }
    }
}

static int count_tile(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    (void)tile, (void)err;
    ++*(uint32_t *)arg;
    return 0;
}

static int search(const struct load *load, struct kiln_ledger *session, long n, struct search *ret,
                  struct kiln_error *err)
{
    const struct sort *sort = &classes[n % CLASSES];
    char text[512];
    struct kiln_gallery_page page = {0};
    put_words(load, sort, n / CLASSES, text, sizeof text);
    struct kiln_gallery_query query = {
        .filter = {.pool = kiln_pool(load->cli),
                   .show_unchecked = true,
                   .level_max = KILN_SAFETY_UNSURE},
        .words = sort->pattern ? text : NULL,
        .order = sort->order,
        .rows_max = ROWS,
    };
    if (sort->count)
        return kiln_gallery_count(session, &query, &ret->rows, &ret->cut, err);
    int rc = kiln_gallery_list(session, &query, count_tile, &ret->rows, &page, err);
    ret->cut = page.out_of_time;
    return rc;
}

/* --- the open loop -----------------------------------------------------------------------------
 */

static void *serve(void *arg)
{
    struct load *load = arg;
    struct kiln_ledger *session = NULL;
    struct kiln_error err;
    int rc = kiln_open_reader(load->cli, &session, &err);
    for (long n; rc == 0 && !load->failed && (n = load->next++) < load->count;) {
        struct search *at = &load->searches[n];
        double wait_s = load->start_s + at->due_s - kiln_now_s();
        if (wait_s > 0)
            kiln_sleep_s(wait_s);
        rc = search(load, session, n, at, &err);
        at->took_ms = (kiln_now_s() - load->start_s - at->due_s) * 1e3;
    }
    if (rc) {
        pthread_mutex_lock(&load->mutex);
        load->err = err;
        pthread_mutex_unlock(&load->mutex);
        load->failed = true;
    }
    kiln_ledger_close(session);
    return NULL;
}

/* Moments of arrival with exponential pauses; the same in each run. */
static void schedule(struct load *load)
{
    uint64_t state = 1;
    double at_s = 0.5; /* until the sessions are open */
    for (long n = 0; n < load->count; n++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        at_s += -log(((double)(state >> 11) + 1) / 9007199254740993.0) / RATE;
        load->searches[n].due_s = at_s;
    }
}

static int run_load(struct load *load, long threads, struct kiln_error *err)
{
    pthread_t running[THREADS_MAX];
    long started = 0;
    schedule(load);
    load->start_s = kiln_now_s();
    pthread_mutex_init(&load->mutex, NULL);
    while (started < threads && started < THREADS_MAX &&
           pthread_create(&running[started], NULL, serve, load) == 0)
        started++;
    for (long i = 0; i < started; i++)
        pthread_join(running[i], NULL);
    pthread_mutex_destroy(&load->mutex);
    if (load->failed)
        *err = load->err;
    return load->failed   ? err->code
           : started == 0 ? kiln_fail(err, KILN_NO_MEMORY, "no thread for the searches")
                          : 0;
}

/* --- results -----------------------------------------------------------------------------------
 */

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* All searches of a class; of all classes for -1. */
static void report(const struct load *load, int class, double *times, json_t *list)
{
    long count = 0, rows = 0, cut = 0;
    for (long n = 0; n < load->count; n++)
        if (class < 0 || n % CLASSES == class) {
            times[count++] = load->searches[n].took_ms;
            rows += load->searches[n].rows;
            cut += load->searches[n].cut;
        }
    if (count == 0)
        return;
    qsort(times, (size_t)count, sizeof *times, by_size);
    const char *name = class < 0 ? "all" : classes[class].name;
    double p50 = times[count / 2], p99 = times[count * 99 / 100], most = times[count - 1];
    if (!load->json)
        printf("%-18s %8.1f %8.1f %8.1f ms  p50, p99, most of %ld; %.0f rows, %ld cut\n", name, p50,
               p99, most, count, (double)rows / (double)count, cut);
    json_array_append_new(list, json_pack("{s:s, s:I, s:f, s:f, s:f, s:I}", "class", name,
                                          "searches", (json_int_t)count, "p50_ms", p50, "p99_ms",
                                          p99, "most_ms", most, "cut", (json_int_t)cut));
}

/* Other benches bring their own servers; this one goes to those of the user. */
static int use_settings(struct kiln_bench *bench, struct kiln_error *err)
{
    struct kiln_config *config = NULL;
    int rc = kiln_config_load(bench->cli->config_path, &config, &bench->own.config_path, err);
    if (rc)
        return rc;
    kiln_config_free(bench->own.config);
    bench->own.config = config;
    return 0;
}

static int index_all(struct kiln_bench *bench, struct kiln_error *err)
{
    struct kiln_follower *follower = NULL;
    struct kiln_follower_progress progress = {.more = true};
    uint64_t written = 0;
    double start_s = kiln_now_s();
    int rc = kiln_follower_open(bench->own.config, "kiln bench gallery",
                                &(struct kiln_follower_options){0}, &follower, err);
    while (rc == 0 && progress.more) {
        rc = kiln_follower_step(follower, &progress, err);
        written += progress.written;
    }
    kiln_follower_close(follower);
    if (rc == 0 && written > 0)
        kiln_say(bench->cli, "%s indexed in %s", KILN_COUNT(written, "picture"),
                 KILN_SECONDS(kiln_now_s() - start_s));
    return rc;
}

static int measure(struct kiln_bench *bench, struct load *load, struct kiln_error *err)
{
    struct kiln_ledger *session = NULL;
    int rc = kiln_open_reader(&bench->own, &session, err);
    if (rc == 0)
        rc = find_words(load, session, err);
    kiln_ledger_close(session);
    if (rc == 0)
        rc = run_load(load, bench->workers, err);
    if (rc)
        return rc;
    double *times = calloc((size_t)load->count, sizeof *times);
    json_t *list = json_array();
    for (int class = -1; times && class < CLASSES; class ++)
        report(load, class, times, list);
    free(times);
    if (bench->cli->json)
        (void)kiln_print_json(bench->cli, json_pack("{s:s, s:f, s:O}", "bench", "gallery",
                                                    "searches_per_s", RATE, "classes", list));
    json_decref(list);
    return 0;
}

int kiln_bench_gallery(struct kiln_bench *bench, struct kiln_error *err)
{
    struct load load = {.cli = &bench->own, .json = bench->cli->json, .count = bench->jobs};
    if (load.count > SEARCHES_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "--jobs: at most %d searches", SEARCHES_MAX);
    load.searches = calloc((size_t)load.count, sizeof *load.searches);
    if (!load.searches)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %ld searches", load.count);
    int rc = use_settings(bench, err);
    if (rc == 0)
        rc = index_all(bench, err);
    if (rc == 0)
        rc = measure(bench, &load, err);
    free(load.searches);
    return rc;
}
