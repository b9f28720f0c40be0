/* load.c - `kiln bench gallery-load`: a gallery with all that it has to do at once.
 *
 * The ledger is that of the settings; scripts/bench/gallery_make.py fills one.  The bench adds
 * pictures to it and removes them at its end, so it must not be one that is needed.  In turn:
 *
 *   1. the gallery is started: how soon its first page comes, and the first search by meaning; then
 *      it has time to copy the tokens of all prompts
 *   2. commits, 200 a second, through kiln_ledger_commit, in turns of 6 s, since a machine is
 *      faster in one minute than in the next: while the gallery is stopped (SIGSTOP); beside a
 *      gallery that follows them and is asked nothing; and beside searches by words, searches by
 *      meaning, first pages of searches with their counts and days, pages of the newest, pages of
 *      one picture and thumbnails, in open loops (web.h)
 *   3. memory of the gallery; what its scan finds of the exact order, in this process (recall.h);
 *      not for a model's own encoder, which would need hours for a million prompts
 *
 * A file beside the commits shows what the disk does (disk.h).
 *
 * With --apart the threads that stand for browsers and workers, which in a fleet are on other
 * machines, run on other processors than the gallery, which keeps those that the bench was started
 * on.  Postgres is not started here: `taskset -c 0,1 kiln up` puts it there too.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scheduler/bench/bench.h"
#include "scheduler/bench/gallery/commits.h"
#include "scheduler/bench/gallery/recall.h"
#include "scheduler/bench/gallery/web.h"
#include "scheduler/bench/gallery/words.h"
#include "scheduler/cli/core/paths.h"
#include "scheduler/cli/core/programs.h"
#include "schemas/clock.h"
#include "schemas/text/text.h"
#include "storage/ledger/ledger.h"

#define COMMITS_A_SECOND 200.0
#define TURN_S 6.0
#define WARM_UP_S 2.0
#define CATCH_UP_S 5.0 /* for what was committed while the gallery was stopped */
#define SEARCHES 512   /* different ones of a kind */
#define PAGES 10       /* of the newest pictures, that people browse */
#define PAGES_MAX 5000 /* that are looked through for them */
#define QUERIES 100    /* whose recall is measured */
#define START_LIMIT_S 120.0
#define APART_LEAST 3 /* processors */

enum { WORDS, MEANING, FOUND, PAGE, PICTURE, THUMBNAIL, KINDS };
enum { STOPPED, FOLLOWS, BUSY, TURNS }; /* what the gallery does beside the commits */
static const char *const turn_names[TURNS] = {"gallery stopped", "gallery follows",
                                              "beside all of this"};

struct phases {
    struct kiln_bench_commit_times commits[TURNS];
    double browse_s, search_s;                   /* from the start of the gallery */
    uint64_t start_bytes, end_bytes, most_bytes; /* of memory: after the start, at the end, ever */
    struct kiln_bench_web web[KINDS];
    double browsers_ms; /* processor time of the thread that asks */
    struct kiln_bench_recall recall;
};

struct load {
    struct kiln_bench *bench;
    bool own_encoder; /* the embedder is "auto": that of the model of the settings */
    double seconds;
    struct kiln_bench_words words;
    struct kiln_bench_commits *commits;
    struct kiln_bench_disk *disk;
    char **prompts; /* of the pictures that are browsed */
    uint32_t prompt_count;
    struct phases phases;
    pid_t gallery;
    uint16_t port, metrics_port;
    cpu_set_t own_cpus; /* with --apart: of the gallery */
};

/* --- the gallery -------------------------------------------------------------------------------
 */

static uint64_t memory_of(pid_t pid, const char *what)
{
    char path[64], line[256];
    unsigned long long kib = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, what, strlen(what)) == 0)
            kib = strtoull(line + strlen(what) + 1, NULL, 10);
    if (file)
        fclose(file);
    return kib * 1024;
}

/* One that no program has now. */
static uint16_t free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0 &&
                       getsockname(fd, (struct sockaddr *)&at, &size) == 0;
    if (fd >= 0)
        close(fd);
    return bound ? ntohs(at.sin_port) : 0;
}

static int launch(struct load *load, const char *url_file, struct kiln_error *err)
{
    struct kiln_bench *bench = load->bench;
    char program[PATH_MAX] = "";
    ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
    char *slash = len > 0 ? strrchr(program, '/') : NULL;
    if (!slash)
        return kiln_fail(err, KILN_IO, "the program kiln-gallery is not beside this one");
    snprintf(slash + 1, sizeof program - (size_t)(slash + 1 - program), "kiln-gallery");
    char metrics_port[8];
    load->metrics_port = free_port();
    if (load->metrics_port == 0)
        return kiln_fail(err, KILN_IO, "no port of 127.0.0.1 is free for the gallery's metrics");
    snprintf(metrics_port, sizeof metrics_port, "%u", load->metrics_port);
    const char *argv[] = {program,
                          "gallery",
                          "serve",
                          "--port",
                          "0",
                          "--url-file",
                          url_file,
                          "--config",
                          bench->own.config_path,
                          "--gallery-embedder",
                          bench->embedder,
                          "--gallery-unchecked",
                          "show",
                          "--gallery-metrics-port",
                          metrics_port,
                          "--log-level",
                          "error",
                          NULL};
    const struct kiln_launch wanted = {.argv = argv,
                                       .in_fd = -1,
                                       .out_fd = -1,
                                       .err_fd = STDERR_FILENO,
                                       .own_session = true,
                                       .dies_with_us = true};
    return kiln_launch(&wanted, &load->gallery, err);
}

/* Moves this thread, and those that it starts later, to the processors that the bench was not
 * started on. */
static int leave_processors(struct load *load, struct kiln_error *err)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t elsewhere;
    if (online < APART_LEAST)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "--apart needs %d processors or more, two of them for the gallery; this "
                         "machine has %ld",
                         APART_LEAST, online);
    CPU_ZERO(&elsewhere);
    int rc = sched_getaffinity(0, sizeof load->own_cpus, &load->own_cpus);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (!CPU_ISSET(cpu, &load->own_cpus))
            CPU_SET(cpu, &elsewhere);
    if (rc == 0 && sched_setaffinity(0, sizeof elsewhere, &elsewhere) == 0)
        return 0;
    return kiln_fail(err, KILN_BAD_INPUT,
                     "--apart: no processor is left for browsers and workers; start the bench on "
                     "some of them only: taskset -c 0,1 kiln bench gallery-load --apart ...");
}

static void come_back(const struct load *load)
{
    (void)sched_setaffinity(0, sizeof load->own_cpus, &load->own_cpus);
}

static void stop_gallery(struct load *load)
{
    if (load->gallery > 0) {
        kill(load->gallery, SIGTERM);
        waitpid(load->gallery, NULL, 0);
    }
    load->gallery = 0;
}

/* Asks until the answer has these words.  Returns false after START_LIMIT_S. */
static bool wait_for(uint16_t port, const char *path, const char *words, double start_s)
{
    for (; kiln_now_s() - start_s < START_LIMIT_S; kiln_sleep_s(0.02)) {
        unsigned status;
        char *body;
        kiln_bench_web_get(port, path, &status, &body);
        bool there = status == 200 && strstr(body, words);
        free(body);
        if (there)
            return true;
    }
    return false;
}

static int start_gallery(struct load *load, struct kiln_error *err)
{
    char path[PATH_MAX];
    unsigned port = 0;
    const double start_s = kiln_now_s();
    kiln_join(path, load->bench->dir, "gallery.url");
    int rc = launch(load, path, err);
    while (rc == 0 && port == 0 && kiln_now_s() - start_s < START_LIMIT_S) {
        FILE *file = fopen(path, "re");
        if (file && fscanf(file, "http://127.0.0.1:%u/", &port) != 1)
            port = 0;
        if (file)
            fclose(file);
        if (waitpid(load->gallery, NULL, WNOHANG) == load->gallery) {
            load->gallery = 0;
            return kiln_fail(err, KILN_UNAVAILABLE, "the gallery has ended at its start");
        }
        kiln_sleep_s(0.005);
    }
    load->port = (uint16_t)port;
    if (rc == 0 && !wait_for(load->port, "/", "<img", start_s))
        rc = kiln_fail(err, KILN_TIMEOUT, "the gallery shows no picture");
    load->phases.browse_s = kiln_now_s() - start_s;
    kiln_bench_web_get(load->port, "/v1/pictures?q=red", &(unsigned){0}, NULL); /* it is wanted */
    if (rc == 0 && !wait_for(load->port, "/help", "whose prompts mean the same", start_s))
        rc = kiln_fail(err, KILN_TIMEOUT, "the gallery does not search by meaning");
    load->phases.search_s = kiln_now_s() - start_s;
    load->phases.start_bytes = memory_of(load->gallery, "VmRSS:");
    return rc;
}

/* Until the tokens are copied: for the first seconds of a gallery, searches take longer. */
static int settle(const struct load *load, struct kiln_error *err)
{
    char words[128];
    snprintf(words, sizeof words, "kiln_gallery_meaning_complete{pool=\"%s\"} 1",
             kiln_pool(&load->bench->own));
    return wait_for(load->metrics_port, "/metrics", words, kiln_now_s())
               ? 0
               : kiln_fail(err, KILN_TIMEOUT, "the gallery's metrics do not say %s", words);
}

/* --- what is asked for -------------------------------------------------------------------------
 */

static int add_path(struct kiln_bench_web *kind, struct kiln_text *text, struct kiln_error *err)
{
    char *path = kiln_text_take(text);
    char **paths = realloc(kind->paths, (kind->path_count + 1) * sizeof *paths);
    if (paths)
        kind->paths = paths;
    if (!path || !paths) {
        free(path);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the requests");
    }
    kind->paths[kind->path_count++] = path;
    return 0;
}

/* A model's own encoder finds nothing by meaning for words that its model does not know, so each of
 * its searches also has one of these, which are in its lists and in gallery_make.py's prompts. */
static const char *const known_words[] = {"red", "blue", "star", "green"};

/* The classes of `kiln bench gallery` that are lists with words; by meaning those without quotes or
 * a minus, which the search by meaning leaves to words. */
static int add_searches(struct load *load, struct kiln_error *err)
{
    int rc = 0;
    for (long n = 0; rc == 0 && n < SEARCHES; n++) {
        const struct kiln_bench_search *search = &kiln_bench_searches[n % kiln_bench_search_count];
        char words[512];
        if (!search->pattern || search->count)
            continue;
        kiln_bench_words_put(&load->words, search, n / kiln_bench_search_count, words,
                             sizeof words);
        for (int kind = WORDS; kind <= FOUND && rc == 0; kind++) {
            struct kiln_text path = {0};
            if (kind == MEANING ? strpbrk(words, "\"-") != NULL
                                : search->order != KILN_GALLERY_NEWEST)
                continue;
            kiln_text_puts(&path, kind == FOUND ? "/?q=" : "/v1/pictures?q=");
            kiln_text_percent(&path, words, "");
            if (kind == MEANING && load->own_encoder)
                kiln_text_printf(
                    &path, "+%s",
                    known_words[(size_t)n % (sizeof known_words / sizeof *known_words)]);
            if (kind != MEANING)
                kiln_text_puts(&path, "&sort=newest");
            rc = add_path(&load->phases.web[kind], &path, err);
        }
    }
    return rc;
}

/* A picture of the newest pages; those of an earlier run of this bench have no files. */
static int add_thumbnail(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err)
{
    struct load *load = arg;
    const char *name = strrchr(tile->small.key, '/');
    struct kiln_text path = {0};
    if (!name || strcmp(tile->tenant, KILN_BENCH_TENANT) == 0)
        return 0;
    char **prompts = realloc(load->prompts, (load->prompt_count + 1) * sizeof *prompts);
    if (prompts)
        load->prompts = prompts;
    if (!prompts || !(prompts[load->prompt_count++] = strdup(tile->prompt)))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for prompts");
    kiln_text_printf(&path, "/o/%" PRIu64 "%s", tile->job, name);
    int rc = add_path(&load->phases.web[THUMBNAIL], &path, err);
    kiln_text_printf(&path, "/p/%" PRIu64, tile->job);
    return rc ? rc : add_path(&load->phases.web[PICTURE], &path, err);
}

/* The newest pages before the bench has added pictures, and their thumbnails. */
static int add_pages(struct load *load, struct kiln_ledger *session, struct kiln_error *err)
{
    struct kiln_bench_web *pages = &load->phases.web[PAGE], *thumbnails = &pages[THUMBNAIL - PAGE];
    struct kiln_gallery_page page = {0};
    char cursor[KILN_GALLERY_CURSOR_MAX] = "";
    int rc = 0;
    for (int i = 0; i < PAGES_MAX && rc == 0 && pages->path_count < PAGES; i++) {
        const struct kiln_gallery_query query = {.filter = {.pool = kiln_pool(&load->bench->own),
                                                            .show_unchecked = true,
                                                            .level_max = KILN_SAFETY_UNSURE},
                                                 .cursor = cursor,
                                                 .rows_max = 48};
        const uint32_t before = thumbnails->path_count;
        struct kiln_text path = {0};
        rc = kiln_gallery_list(session, &query, add_thumbnail, load, &page, err);
        kiln_text_printf(&path, "/?variants=all&c=%s", cursor);
        if (rc == 0 && thumbnails->path_count > before)
            rc = add_path(pages, &path, err);
        else
            kiln_text_release(&path);
        snprintf(cursor, sizeof cursor, "%s", page.older);
        if (!cursor[0])
            break;
    }
    return rc;
}

static void release_paths(struct load *load)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct kiln_bench_web *web = &load->phases.web[kind];
        for (uint32_t i = 0; i < web->path_count; i++)
            free(web->paths[i]);
        free(web->paths);
        kiln_bench_times_release(&web->times);
    }
    for (uint32_t i = 0; i < load->prompt_count; i++)
        free(load->prompts[i]);
    free(load->prompts);
}

/* --- phases ------------------------------------------------------------------------------------
 */

static int commit_for(struct load *load, int turn, double seconds, struct kiln_error *err)
{
    return kiln_bench_commits_run(load->commits, COMMITS_A_SECOND, seconds, load->disk,
                                  &load->phases.commits[turn], err);
}

struct beside {
    struct load *load;
    double seconds;
    struct kiln_error err;
    int rc;
};

static void *commit_beside(void *arg)
{
    struct beside *beside = arg;
    beside->rc = commit_for(beside->load, BUSY, beside->seconds, &beside->err);
    return NULL;
}

static void teach_files(const struct load *load)
{
    const struct kiln_bench_web *pages = &load->phases.web[PAGE];
    for (uint32_t i = 0; i < pages->path_count; i++)
        kiln_bench_web_get(load->port, pages->paths[i], &(unsigned){0}, NULL);
}

/* A gallery's sessions plan each statement when they first run it, and nobody searches much in the
 * first seconds of a gallery. */
static int warm_up(struct load *load, struct kiln_error *err)
{
    teach_files(load);
    int rc = kiln_bench_web_run(load->port, load->phases.web, KINDS, WARM_UP_S, err);
    for (int kind = 0; kind < KINDS; kind++)
        kiln_bench_web_forget(&load->phases.web[kind]);
    return rc;
}

static int run_all(struct load *load, double seconds, struct kiln_error *err)
{
    struct beside beside = {.load = load, .seconds = seconds};
    pthread_t thread;
    teach_files(load);
    if (pthread_create(&thread, NULL, commit_beside, &beside) != 0)
        return kiln_fail(err, KILN_NO_MEMORY, "no thread for commits");
    const double before_ms = kiln_ms_of(CLOCK_THREAD_CPUTIME_ID);
    int rc = kiln_bench_web_run(load->port, load->phases.web, KINDS, seconds, err);
    load->phases.browsers_ms += kiln_ms_of(CLOCK_THREAD_CPUTIME_ID) - before_ms;
    pthread_join(thread, NULL);
    if (rc == 0 && beside.rc)
        *err = beside.err;
    return rc ? rc : beside.rc;
}

static int run_turns(struct load *load, struct kiln_error *err)
{
    int rc = 0;
    for (double left = load->seconds; rc == 0 && left > 0; left -= TURN_S) {
        const double seconds = left < TURN_S ? left : TURN_S;
        kill(load->gallery, SIGSTOP); /* if this ends meanwhile, the gallery is killed (launch) */
        rc = commit_for(load, STOPPED, seconds, err);
        kill(load->gallery, SIGCONT);
        if (rc == 0)
            kiln_sleep_s(CATCH_UP_S);
        rc = rc ? rc : commit_for(load, FOLLOWS, seconds, err);
        rc = rc ? rc : run_all(load, seconds, err);
    }
    return rc;
}

static int measure(struct load *load, struct kiln_ledger *session, struct kiln_error *err)
{
    struct phases *p = &load->phases;
    struct kiln_cli *cli = load->bench->cli;
    const uint32_t commits = (uint32_t)(COMMITS_A_SECOND * TURNS * load->seconds * 1.2);
    p->web[WORDS] = (struct kiln_bench_web){.name = "search by words", .rate = 20};
    p->web[MEANING] = (struct kiln_bench_web){.name = "search by words and meaning", .rate = 20};
    p->web[FOUND] = (struct kiln_bench_web){.name = "first page of words, counted", .rate = 2};
    p->web[PAGE] = (struct kiln_bench_web){.name = "page of 48", .rate = 4};
    p->web[PICTURE] = (struct kiln_bench_web){.name = "page of a picture", .rate = 4};
    p->web[THUMBNAIL] = (struct kiln_bench_web){.name = "thumbnail", .rate = 2000};
    int rc = kiln_bench_words_find(session, &load->words, err);
    rc = rc ? rc : add_searches(load, err);
    rc = rc ? rc : add_pages(load, session, err);
    if (rc == 0 && p->web[THUMBNAIL].path_count == 0)
        rc = kiln_fail(err, KILN_NOT_FOUND,
                       "the newest pictures have no files: gallery_make.py "
                       "--store links some");
    kiln_say(cli, "%u jobs are inserted and assigned", commits);
    rc = rc ? rc
            : kiln_bench_commits_new(load->bench->own.config, load->prompts, load->prompt_count,
                                     commits, &load->commits, err);
    rc = rc ? rc : kiln_bench_disk_new(load->bench->dir, &load->disk, err);
    rc = rc ? rc : start_gallery(load, err);
    rc = rc ? rc : settle(load, err);
    if (rc == 0 && load->bench->apart)
        rc = leave_processors(load, err);
    kiln_say(cli, "commits while the gallery is stopped, beside it, beside everything: %.0f s each",
             load->seconds);
    rc = rc ? rc : warm_up(load, err);
    rc = rc ? rc : run_turns(load, err);
    if (rc == 0) {
        p->end_bytes = memory_of(load->gallery, "VmRSS:");
        p->most_bytes = memory_of(load->gallery, "VmHWM:");
    }
    stop_gallery(load);
    if (rc == 0 && load->bench->apart)
        come_back(load);
    return rc || load->own_encoder
               ? rc
               : kiln_bench_recall(load->bench->own.config, load->bench->embedder, &load->words,
                                   QUERIES, &p->recall, err);
}

/* --- results -----------------------------------------------------------------------------------
 */

static void report_commits(struct kiln_bench_commit_times *commits, const char *turn,
                           double seconds, json_t *list)
{
    const struct {
        const char *what;
        struct kiln_bench_times *times;
    } rows[] = {{"commit", &commits->all},
                {"commit, disk calm", &commits->calm},
                {"sync of a file", &commits->disk}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s, %s", rows[i].what, turn);
        kiln_bench_times_report(rows[i].times, name, seconds, list);
    }
}

/* Where a p99 comes from: which requests took longest, and when. */
static void print_slowest(const struct kiln_bench_web *kind)
{
    for (int i = 0; i < KILN_BENCH_SLOWEST && kind->slowest[i].path; i++)
        printf("    %8.1f ms, due after %5.2f s: %s\n", kind->slowest[i].ms, kind->slowest[i].due_s,
               kind->slowest[i].path);
}

static void report(struct load *load)
{
    struct phases *p = &load->phases;
    json_t *list = load->bench->cli->json ? json_array() : NULL;
    for (int kind = 0; kind < KINDS; kind++) {
        kiln_bench_times_report(&p->web[kind].times, p->web[kind].name, load->seconds, list);
        if (!list)
            print_slowest(&p->web[kind]);
    }
    for (int turn = 0; turn < TURNS; turn++)
        report_commits(&p->commits[turn], turn_names[turn], load->seconds, list);
    if (!load->own_encoder) {
        kiln_bench_times_report(&p->recall.scan, "scan alone, query encoded", 1, list);
        kiln_bench_times_report(&p->recall.exact, "exact fp32 scan alone", 1, list);
    }
    if (list) {
        (void)kiln_print_json(
            load->bench->cli,
            json_pack("{s:s, s:f, s:o, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:f}", "bench",
                      "gallery-load", "seconds", load->seconds, "times", list, "browsers_cpu_s",
                      p->browsers_ms / 1e3, "browse_s", p->browse_s, "search_s", p->search_s,
                      "memory_start_bytes", (json_int_t)p->start_bytes, "memory_bytes",
                      (json_int_t)p->end_bytes, "memory_most_bytes", (json_int_t)p->most_bytes,
                      "prompts", (json_int_t)p->recall.prompts, "dims", (json_int_t)p->recall.dims,
                      "recall_at_10", p->recall.at_10));
        return;
    }
    printf("the thread that stands for browsers took %.0f ms a second of a processor\n"
           "memory of the gallery: %.0f MB at its start, %.0f at the end, %.0f at most\n"
           "from its start to the first page %.2f s, to the first search by meaning %.2f s\n",
           p->browsers_ms / load->seconds, (double)p->start_bytes / 1e6, (double)p->end_bytes / 1e6,
           (double)p->most_bytes / 1e6, p->browse_s, p->search_s);
    if (!load->own_encoder)
        printf("recall@10 of the scan against exact fp32: %.3f (%u prompts of %u dimensions)\n",
               p->recall.at_10, p->recall.prompts, p->recall.dims);
}

int kiln_bench_gallery_load(struct kiln_bench *bench, struct kiln_error *err)
{
    struct kiln_ledger *session = NULL;
    struct load *load = calloc(1, sizeof *load);
    if (!load)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the bench");
    load->bench = bench;
    load->seconds = (double)bench->jobs;
    int rc = bench->embedder
                 ? kiln_bench_use_settings(bench, err)
                 : kiln_fail(err, KILN_BAD_INPUT,
                             "gallery-load needs --embedder DIR, the embedder of the "
                             "gallery (scripts/bench/gallery_embedder.py makes one), or "
                             "auto for the encoder of the model of the settings");
    if (rc == 0 && bench->apart) { /* before anything is made that would be in vain */
        rc = leave_processors(load, err);
        if (rc == 0)
            come_back(load);
    }
    load->own_encoder = rc == 0 && strcmp(bench->embedder, "auto") == 0;
    rc = rc ? rc : kiln_bench_index_words(bench, err);
    rc = rc ? rc : kiln_open_reader(&bench->own, &session, err);
    rc = rc ? rc : measure(load, session, err);
    if (rc == 0)
        report(load);
    stop_gallery(load);
    struct kiln_error later;
    const int removed =
        load->commits ? kiln_bench_commits_remove(load->commits, rc ? &later : err) : 0;
    rc = rc ? rc : removed;
    rc = rc ? rc : kiln_bench_index_words(bench, err);
    kiln_ledger_close(session);
    kiln_bench_commits_free(load->commits);
    kiln_bench_disk_free(load->disk);
    for (int turn = 0; turn < TURNS; turn++)
        kiln_bench_commit_times_release(&load->phases.commits[turn]);
    kiln_bench_recall_release(&load->phases.recall);
    release_paths(load);
    free(load);
    return rc;
}
