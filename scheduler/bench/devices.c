/* devices.c - `kiln bench fleet`: what a second, a fourth, an eighth device is worth.
 *
 * A private stack with the real scheduler and one real worker process a device.  Each number of
 * devices gets the same work a device: jobs of all sizes and LoRA sets in turn, sent at once, so
 * that the queue is full until its end.  Before that every worker renders every size once, because
 * the first picture of a size is slower (graphs, searches for the fastest kernels).
 *
 * A rate is pictures over the time from the first assignment to the last commit.  That includes the
 * tail: after the last assignment devices run out of work.  Idle is the time before the tail in
 * which devices did not compute, by their own clocks; heartbeats report it at the end of each
 * batch. The times of encoding and storing show whether these keep up with the devices.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/bench/watch.h"
#include "scheduler/cli/core/paths.h"
#include "scheduler/cli/stack/stack.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/read.h"

#define COUNTS_MAX 8  /* numbers of --devices */
#define WORDS_MAX 16  /* sizes, or LoRA sets */
#define STAGES_OF 200 /* pictures at most whose times of encoding and storing are read */

struct words {
    char at[WORDS_MAX][64];
    int count;
};

struct fleet {
    struct kiln_bench *bench;
    struct words sizes, loras; /* a LoRA set of "" is none */
    struct kiln_devices devices;
    long batch_max;
};

/* One number of devices with its queue. */
struct row {
    long devices, jobs;
    double seconds;     /* first assignment to last commit, by the ledger's clock */
    double tail_s;      /* the part of them after the last assignment */
    double rate, share; /* pictures a second; a device's rate as a share of the first row's */
    double idle, idle_in_hand;   /* shares of time without computing; negative: unknown */
    double job_p50_s, job_p95_s; /* assignment to commit */
    double encode_ms, upload_ms; /* mean of a picture */
};

/* --- the command line ------------------------------------------------------------------------- */

static int split(const char *text, const char *what, struct words *ret, struct kiln_error *err)
{
    for (const char *at = text; at;) {
        size_t len = strcspn(at, ",");
        if (ret->count == WORDS_MAX || len >= sizeof ret->at[0])
            return kiln_fail(err, KILN_BAD_INPUT, "--%s: up to %d of up to %zu letters", what,
                             WORDS_MAX, sizeof ret->at[0] - 1);
        snprintf(ret->at[ret->count++], sizeof ret->at[0], "%.*s", (int)len, at);
        at = at[len] ? at + len + 1 : NULL;
    }
    return 0;
}

static int read_counts(const char *text, long *counts, int *ret_count, struct kiln_error *err)
{
    struct words words = {0};
    int rc = split(text, "devices", &words, err);
    for (int i = 0; i < words.count && rc == 0; i++) {
        char *end;
        counts[i] = strtol(words.at[i], &end, 10);
        bool good = *end == '\0' && counts[i] >= 1 && counts[i] <= KILN_STACK_DEVICES_MAX;
        if (!good || words.count > COUNTS_MAX || (i > 0 && counts[i] <= counts[i - 1]))
            rc =
                kiln_fail(err, KILN_BAD_INPUT, "--devices %s: up to %d rising numbers from 1 to %d",
                          text, COUNTS_MAX, KILN_STACK_DEVICES_MAX);
    }
    *ret_count = words.count;
    return rc;
}

/* Takes over the user's settings; the engine is the test card unless they name a model or an
 * engine. */
static int take_settings(struct fleet *fleet, struct kiln_error *err)
{
    const struct kiln_config *given = fleet->bench->cli->config;
    int rc = 0;
    for (int key = 0; key < KILN_KEY_COUNT && rc == 0; key++)
        if (strcmp(kiln_config_origin(given, (enum kiln_key)key), "default") != 0)
            rc = kiln_bench_set(fleet->bench, kiln_keys[key].name,
                                kiln_config_text(given, (enum kiln_key)key), err);
    bool named = strcmp(kiln_config_origin(given, KILN_KEY_ENGINE), "default") != 0;
    if (rc == 0 && !named && kiln_config_text(given, KILN_KEY_MODEL)[0])
        rc = kiln_bench_set(fleet->bench, "engine", "pipeline", err);
    bool batched = strcmp(kiln_config_origin(given, KILN_KEY_BATCH_MAX), "default") != 0;
    if (rc == 0 && !batched)
        rc = kiln_bench_set(fleet->bench, "batch_max", kiln_config_text(given, KILN_KEY_BATCH_MAX),
                            err);
    fleet->batch_max = (long)kiln_config_int(fleet->bench->own.config, KILN_KEY_BATCH_MAX);
    return rc ? rc
              : kiln_devices_read(kiln_config_text(given, KILN_KEY_DEVICE), &fleet->devices, err);
}

/* Sets `device` to the first `count` devices.  A GPU serves one worker, a CPU several. */
static int choose_devices(struct fleet *fleet, long count, struct kiln_error *err)
{
    char text[KILN_STACK_DEVICES_MAX * 40] = "";
    const struct kiln_devices *all = &fleet->devices;
    if (count > all->count && strcmp(all->at[0], "cpu") != 0)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "--devices %ld: --device names %d; cuda:all are all of this machine",
                         count, all->count);
    for (long i = 0; i < count; i++) {
        size_t len = strlen(text);
        snprintf(text + len, sizeof text - len, "%s%s", i ? "," : "", all->at[i % all->count]);
    }
    return kiln_bench_set(fleet->bench, "device", text, err);
}

/* --- jobs ------------------------------------------------------------------------------------- */

/* Line i has size i and LoRA set i / sizes, in turns; size >= 0: only this size, no LoRA. */
static int write_lines(struct fleet *fleet, long lines, int size, struct kiln_error *err)
{
    static const char *const colors[] = {"red", "blue", "green", "yellow", "violet"};
    struct kiln_bench *bench = fleet->bench;
    char pace[32] = "";
    if (strcmp(kiln_config_text(bench->own.config, KILN_KEY_ENGINE), "testcard") == 0)
        snprintf(pace, sizeof pace, " @step_ms=%ld", bench->step_ms);
    FILE *file = kiln_bench_file(bench);
    for (long i = 0; file && i < lines; i++) {
        const char *lora = fleet->loras.at[i / fleet->sizes.count % fleet->loras.count];
        fprintf(file,
                "{\"prompt\":\"a %s lighthouse above a stormy sea, number %ld, oil on canvas, with "
                "gulls around its lamp and a small boat that comes home%s\",\"seed\":%ld,"
                "\"size\":\"%s\",\"steps\":8,\"loras\":",
                colors[i % 5], i, pace, i * 7919,
                fleet->sizes.at[size >= 0 ? size : i % fleet->sizes.count]);
        if (size >= 0 || !lora[0])
            fputs("\"none\"}\n", file);
        else
            fprintf(file, "[{\"name\":\"%s\",\"scale\":1}]}\n", lora);
    }
    return kiln_bench_file_close(bench, file, err);
}

/* Every worker renders every size: all are idle, so each gets its share of a batch. */
static int warm_up(struct fleet *fleet, long devices, struct kiln_error *err)
{
    int rc = 0;
    for (int size = 0; size < fleet->sizes.count && rc == 0; size++) {
        char batch[48];
        long lines = devices * fleet->batch_max;
        snprintf(batch, sizeof batch, "warm-%ld-%d", devices, size);
        rc = write_lines(fleet, lines, size, err);
        rc = rc ? rc : kiln_bench_send(fleet->bench, batch, lines, NULL, NULL, err);
        rc = rc ? rc : kiln_bench_wait(fleet->bench, batch, (uint64_t)lines, true, NULL, NULL, err);
    }
    return rc;
}

/* --- times of the jobs ------------------------------------------------------------------------ */

struct times {
    double *job_s;
    uint64_t *ids;
    long count, room;
    int64_t first_ms, last_ms, last_assigned_ms;
};

static int add_job(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    struct times *times = arg;
    if (times->count == times->room)
        return kiln_fail(err, KILN_INTERNAL, "the batch has more jobs than were sent");
    times->ids[times->count] = row->job.id;
    times->job_s[times->count++] = (double)(row->finished_ms - row->assigned_ms) / 1e3;
    if (!times->first_ms || row->assigned_ms < times->first_ms)
        times->first_ms = row->assigned_ms;
    if (row->finished_ms > times->last_ms)
        times->last_ms = row->finished_ms;
    if (row->assigned_ms > times->last_assigned_ms)
        times->last_assigned_ms = row->assigned_ms;
    return 0;
}

/* Means over pictures of the whole batch. */
static int read_stages(struct kiln_ledger *ledger, const struct times *times, struct row *row,
                       struct kiln_error *err)
{
    long step = (times->count + STAGES_OF - 1) / STAGES_OF, looked = 0;
    int rc = 0;
    for (long i = 0; i < times->count && rc == 0; i += step, looked++) {
        struct kiln_made made;
        rc = kiln_ledger_made(ledger, times->ids[i], &made, err);
        row->encode_ms += rc ? 0 : made.encode_ms;
        row->upload_ms += rc ? 0 : made.upload_ms;
    }
    row->encode_ms /= (double)looked;
    row->upload_ms /= (double)looked;
    return rc;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int read_times(struct fleet *fleet, const char *batch, struct row *row,
                      struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    struct times times = {.job_s = calloc((size_t)row->jobs, sizeof(double)),
                          .ids = calloc((size_t)row->jobs, sizeof(uint64_t)),
                          .room = row->jobs};
    int rc = times.job_s && times.ids
                 ? kiln_open_ledger(&fleet->bench->own, &ledger, err)
                 : kiln_fail(err, KILN_NO_MEMORY, "no memory for %ld jobs", row->jobs);
    rc = rc ? rc
            : kiln_ledger_jobs(ledger, kiln_pool(&fleet->bench->own), batch, KILN_JOB_DONE, add_job,
                               &times, err);
    if (rc == 0 && (times.count != row->jobs || times.last_ms <= times.first_ms))
        rc = kiln_fail(err, KILN_INTERNAL, "%ld of %ld jobs are done", times.count, row->jobs);
    if (rc == 0) {
        qsort(times.job_s, (size_t)times.count, sizeof(double), by_value);
        row->seconds = (double)(times.last_ms - times.first_ms) / 1e3;
        row->tail_s = (double)(times.last_ms - times.last_assigned_ms) / 1e3;
        row->rate = (double)row->jobs / row->seconds;
        row->job_p50_s = times.job_s[(times.count - 1) / 2];
        row->job_p95_s = times.job_s[(times.count - 1) * 95 / 100];
        rc = read_stages(ledger, &times, row, err);
    }
    kiln_ledger_close(ledger);
    free(times.job_s);
    free(times.ids);
    return rc;
}

/* --- one number of devices -------------------------------------------------------------------- */

static int measure(struct fleet *fleet, struct row *row, struct kiln_error *err)
{
    struct kiln_bench *bench = fleet->bench;
    struct kiln_bench_watch *watch = NULL;
    char batch[32];
    snprintf(batch, sizeof batch, "fleet-%ld", row->devices);
    row->jobs = bench->jobs * row->devices;
    int rc = choose_devices(fleet, row->devices, err);
    rc = rc ? rc : kiln_stack_up(&bench->own, bench->dir, row->devices, &bench->stack, err);
    rc = rc ? rc : warm_up(fleet, row->devices, err);
    rc = rc ? rc : write_lines(fleet, row->jobs, -1, err);
    rc = rc ? rc : kiln_bench_watch_open(bench, (uint64_t)row->jobs, &watch, err);
    rc = rc ? rc : kiln_bench_send(bench, batch, row->jobs, NULL, NULL, err);
    rc = rc ? rc
            : kiln_bench_wait(bench, batch, (uint64_t)row->jobs, true, kiln_bench_watch_look, watch,
                              err);
    struct kiln_bench_idle idle = kiln_bench_watch_close(watch);
    row->idle = idle.of_all;
    row->idle_in_hand = idle.in_hand;
    return rc ? rc : read_times(fleet, batch, row, err);
}

/* --- the report ------------------------------------------------------------------------------- */

static const char *percent(double share, char out[16])
{
    snprintf(out, 16, share < 0 ? "-" : "%.2f %%", 100 * share);
    return out;
}

static void print_rows(const struct kiln_bench *bench, const struct row *rows, int count)
{
    const struct kiln_config *config = bench->own.config;
    if (bench->cli->json) {
        json_t *list = json_array();
        for (const struct row *row = rows; row < rows + count; row++)
            json_array_append_new(
                list,
                json_pack("{s:I, s:I, s:f, s:f, s:f, s:o, s:o, s:f, s:f, s:f, s:f, s:f}", "devices",
                          (json_int_t)row->devices, "jobs", (json_int_t)row->jobs, "seconds",
                          row->seconds, "pictures_per_s", row->rate, "efficiency", row->share,
                          "idle_share", kiln_bench_share_json(row->idle), "idle_in_hand_share",
                          kiln_bench_share_json(row->idle_in_hand), "job_p50_s", row->job_p50_s,
                          "job_p95_s", row->job_p95_s, "tail_s", row->tail_s, "encode_ms",
                          row->encode_ms, "upload_ms", row->upload_ms));
        (void)kiln_print_json(
            bench->cli,
            json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:I}", "bench", "fleet", "engine",
                      kiln_config_text(config, KILN_KEY_ENGINE), "model",
                      kiln_config_text(config, KILN_KEY_MODEL), "dtype",
                      kiln_config_text(config, KILN_KEY_DTYPE), "sizes", bench->sizes, "loras",
                      bench->loras, "batch_max", kiln_config_int(config, KILN_KEY_BATCH_MAX),
                      "measured", list, "cores", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN)));
        return;
    }
    printf("%-8s %6s %9s %11s %11s %9s %9s %8s %8s %7s %7s %7s\n", "DEVICES", "JOBS", "SECONDS",
           "PICTURES/S", "EFFICIENCY", "IDLE", "IN HAND", "JOB P50", "P95 s", "TAIL s", "ENCODE",
           "STORE ms");
    for (int i = 0; i < count; i++) {
        const struct row *row = &rows[i];
        char idle[16], in_hand[16];
        printf("%-8ld %6ld %9.2f %11.2f %9.1f %% %9s %9s %8.2f %8.2f %7.2f %7.1f %7.1f\n",
               row->devices, row->jobs, row->seconds, row->rate, 100 * row->share,
               percent(row->idle, idle), percent(row->idle_in_hand, in_hand), row->job_p50_s,
               row->job_p95_s, row->tail_s, row->encode_ms, row->upload_ms);
    }
}

int kiln_bench_devices(struct kiln_bench *bench, struct kiln_error *err)
{
    struct fleet fleet = {.bench = bench};
    struct row rows[COUNTS_MAX] = {0};
    long counts[WORDS_MAX];
    int count = 0;
    int rc = read_counts(bench->devices, counts, &count, err);
    rc = rc ? rc : split(bench->sizes, "sizes", &fleet.sizes, err);
    rc = rc ? rc : split(bench->loras, "loras", &fleet.loras, err);
    rc = rc ? rc : take_settings(&fleet, err);
    for (int i = 0; i < count && rc == 0; i++) {
        rows[i].devices = counts[i];
        rc = measure(&fleet, &rows[i], err);
        rows[i].share =
            rows[i].rate / (double)rows[i].devices / (rows[0].rate / (double)rows[0].devices);
        if (rc == 0)
            kiln_say(bench->cli, "%ld device%s: %ld pictures in %.2f s", rows[i].devices,
                     rows[i].devices == 1 ? "" : "s", rows[i].jobs, rows[i].seconds);
    }
    if (rc == 0)
        print_rows(bench, rows, count);
    return rc;
}
