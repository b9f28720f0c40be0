/* searches.c - `kiln bench gallery`: how long searches take in the gallery of a ledger.
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
#include "scheduler/bench/gallery/times.h"
#include "scheduler/bench/gallery/words.h"
#include "storage/daemon/config_file.h"
#include "storage/ledger/gallery/follow.h"
#include "storage/ledger/gallery/gallery.h"
#include "storage/ledger/ledger.h"

#define RATE 20.0 /* searches a second */
#define ROWS 48   /* of a page */
#define SEARCHES_MAX 200000
#define THREADS_MAX 16

struct search {
    double due_s, took_ms;
    uint32_t rows;
    bool cut; /* ended at its budget */
};

struct load {
    struct kiln_cli *cli; /* with the settings of the ledger */
    bool json;
    struct kiln_bench_words words;
    struct search *searches;
    long count;
    double start_s;
    atomic_long next;
    atomic_bool failed;
    pthread_mutex_t mutex; /* guards err */
    struct kiln_error err;
};

static int count_tile(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    (void)tile, (void)err;
    ++*(uint32_t *)arg;
    return 0;
}

static int search(const struct load *load, struct kiln_ledger *session, long n, struct search *ret,
                  struct kiln_error *err)
{
    const struct kiln_bench_search *sort = &kiln_bench_searches[n % kiln_bench_search_count];
    char text[512];
    struct kiln_gallery_page page = {0};
    kiln_bench_words_put(&load->words, sort, n / kiln_bench_search_count, text, sizeof text);
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

/* Until the sessions are open. */
#define OPENING_S 0.5

static int schedule(struct load *load, struct kiln_error *err)
{
    double *due_s = malloc((size_t)load->count * sizeof *due_s);
    if (!due_s)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %ld searches", load->count);
    kiln_bench_arrivals(RATE, INFINITY, 1, due_s, (uint32_t)load->count);
    for (long n = 0; n < load->count; n++)
        load->searches[n].due_s = OPENING_S + due_s[n];
    free(due_s);
    return 0;
}

static int run_load(struct load *load, long threads, struct kiln_error *err)
{
    pthread_t running[THREADS_MAX];
    long started = 0;
    int rc = schedule(load, err);
    if (rc)
        return rc;
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

/* All searches of a class; of all classes for -1. */
static int report(const struct load *load, long class, json_t *list, struct kiln_error *err)
{
    struct kiln_bench_times times = {0};
    long rows = 0, cut = 0;
    int rc = kiln_bench_times_fit(&times, (uint32_t)load->count, err);
    if (rc)
        return rc;
    for (long n = 0; n < load->count; n++)
        if (class < 0 || n % kiln_bench_search_count == class) {
            kiln_bench_times_add(&times, load->searches[n].took_ms);
            rows += load->searches[n].rows;
            cut += load->searches[n].cut;
        }
    const char *name = class < 0 ? "all" : kiln_bench_searches[class].name;
    const double p50 = kiln_bench_times_at(&times, 0.5), p99 = kiln_bench_times_at(&times, 0.99);
    const double most = kiln_bench_times_at(&times, 1);
    if (!load->json && times.count > 0)
        printf("%-18s %8.1f %8.1f %8.1f ms  p50, p99, most of %u; %.0f rows, %ld cut\n", name, p50,
               p99, most, times.count, (double)rows / times.count, cut);
    json_array_append_new(list, json_pack("{s:s, s:I, s:f, s:f, s:f, s:I}", "class", name,
                                          "searches", (json_int_t)times.count, "p50_ms", p50,
                                          "p99_ms", p99, "most_ms", most, "cut", (json_int_t)cut));
    kiln_bench_times_release(&times);
    return 0;
}

int kiln_bench_use_settings(struct kiln_bench *bench, struct kiln_error *err)
{
    struct kiln_config *config = NULL;
    int rc = kiln_config_load(bench->cli->config_path, &config, &bench->own.config_path, err);
    if (rc)
        return rc;
    kiln_config_free(bench->own.config);
    bench->own.config = config;
    return 0;
}

int kiln_bench_index_words(struct kiln_bench *bench, struct kiln_error *err)
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
        rc = kiln_bench_words_find(session, &load->words, err);
    kiln_ledger_close(session);
    if (rc == 0)
        rc = run_load(load, bench->workers, err);
    if (rc)
        return rc;
    json_t *list = json_array();
    for (long class = -1; rc == 0 && class < kiln_bench_search_count; class ++)
        rc = report(load, class, list, err);
    if (bench->cli->json)
        (void)kiln_print_json(bench->cli, json_pack("{s:s, s:f, s:O}", "bench", "gallery",
                                                    "searches_per_s", RATE, "classes", list));
    json_decref(list);
    return rc;
}

int kiln_bench_gallery(struct kiln_bench *bench, struct kiln_error *err)
{
    struct load load = {.cli = &bench->own, .json = bench->cli->json, .count = bench->jobs};
    if (load.count > SEARCHES_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "--jobs: at most %d searches", SEARCHES_MAX);
    load.searches = calloc((size_t)load.count, sizeof *load.searches);
    if (!load.searches)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %ld searches", load.count);
    int rc = kiln_bench_use_settings(bench, err);
    if (rc == 0)
        rc = kiln_bench_index_words(bench, err);
    if (rc == 0)
        rc = measure(bench, &load, err);
    free(load.searches);
    return rc;
}
