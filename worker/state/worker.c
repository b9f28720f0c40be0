/* worker.c - the worker's state: names, queues, and the small moves that several threads make. */
#include "worker/state/worker.h"

#include "schemas/clock.h"
#include "worker/state/device_class.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "schemas/names.h"
#include "schemas/telemetry/log.h"

/* The limits of the queues.  Rendered pictures are raw pixels, 3 MB at 1024x1024; the files of one
 * take half a megabyte.  The compute thread begins nothing while RENDERED_ITEMS pictures or a call
 * wait; the queue has places for the pictures of calls that have begun by then. */
#define ASKED_ITEMS 1
#define RENDERED_ITEMS 64
#define RENDERED_BYTES ((size_t)256 << 20)
#define CALLS_UNDER_WAY 2 /* one that the collector waits for and the next one */
#define AGAIN_ITEMS (CALLS_UNDER_WAY + KILN_ASSIGN_MAX) /* and all calls of one portion */
#define FILES_ITEMS 128
#define FILES_BYTES ((size_t)128 << 20)
#define OUTCOMES_ITEMS 128
#define OUTCOMES_BYTES ((size_t)128 << 20)
#define REPORTS_ITEMS 4096

/* Makes a valid name from the name of a host or device. */
static void name_safe(char *name)
{
    for (char *c = name; *c; c++)
        if (!kiln_name_valid(c, 1, 1) && (c == name || !strchr("._-", *c)))
            *c = c == name ? 'x' : '-';
}

static int set_names(struct kiln_worker *worker, const char *id, struct kiln_error *err)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    snprintf(worker->host, sizeof worker->host, "%.40s", host[0] ? host : "localhost");
    name_safe(worker->host);
    const char *pool = kiln_config_text(worker->config, KILN_KEY_POOL);
    if (!kiln_name_valid(pool, strlen(pool), KILN_NAME_MAX))
        return kiln_fail(err, KILN_CONFIG, "pool \"%.80s\": expected up to %d " KILN_NAME_RULE,
                         pool, KILN_NAME_MAX);
    snprintf(worker->pool, sizeof worker->pool, "%s", pool);
    if (id && !kiln_name_valid(id, strlen(id), KILN_NAME_MAX))
        return kiln_fail(err, KILN_CONFIG, "worker id \"%.80s\": expected up to %d " KILN_NAME_RULE,
                         id, KILN_NAME_MAX);
    /* HOST-gpu0, HOST-cpu: as the units of systemd and `kiln worker start` name their workers. */
    const char *device = kiln_config_text(worker->config, KILN_KEY_DEVICE);
    bool gpu = strncmp(device, "cuda:", 5) == 0;
    snprintf(worker->id, sizeof worker->id, "%.40s-%s%.20s", worker->host, gpu ? "gpu" : "",
             gpu ? device + 5 : device);
    if (id)
        snprintf(worker->id, sizeof worker->id, "%s", id);
    name_safe(worker->id);
    kiln_device_class(kiln_config_text(worker->config, KILN_KEY_DEVICE), worker->device_class,
                      sizeof worker->device_class);
    worker->started_ms = kiln_wall_ms();
    snprintf(worker->incarnation, sizeof worker->incarnation, "%" PRIx64 "-%ld",
             (uint64_t)worker->started_ms, (long)getpid());
    kiln_wire_key(worker->stream, sizeof worker->stream, worker->pool, "worker", worker->id);
    kiln_wire_key(worker->beat, sizeof worker->beat, worker->pool, "beat", worker->id);
    kiln_wire_key(worker->events, sizeof worker->events, worker->pool, "events", NULL);
    return 0;
}

int kiln_worker_init(struct kiln_worker *worker, const struct kiln_config *config, const char *id,
                     struct kiln_error *err)
{
    struct kiln_settings settings;
    memset(worker, 0, sizeof *worker);
    worker->config = config;
    int code = set_names(worker, id, err);
    if (code != 0)
        return code;
    kiln_settings_read(config, &settings);
    kiln_flights_init(&worker->flights);
    kiln_board_init(&worker->board, &settings);
    worker->arrived = kiln_queue_new(KILN_HEARTBEAT_HELD_MAX, KILN_HEARTBEAT_HELD_MAX);
    worker->ready = kiln_queue_new(KILN_HEARTBEAT_HELD_MAX, KILN_PORTION_BYTES);
    worker->asked = kiln_queue_new(ASKED_ITEMS, ASKED_ITEMS);
    worker->again = kiln_queue_new(AGAIN_ITEMS, AGAIN_ITEMS);
    worker->rendered = kiln_queue_new(RENDERED_ITEMS + CALLS_UNDER_WAY * KILN_ASSIGN_MAX, SIZE_MAX);
    worker->files = kiln_queue_new(FILES_ITEMS, FILES_BYTES);
    worker->outcomes = kiln_queue_new(OUTCOMES_ITEMS, OUTCOMES_BYTES);
    worker->reports = kiln_queue_new(REPORTS_ITEMS, REPORTS_ITEMS);
    worker->lora_disk = kiln_lora_disk_new(
        kiln_config_text(config, KILN_KEY_LORA_CACHE_DIR),
        (uint64_t)(kiln_config_number(config, KILN_KEY_LORA_CACHE_GB) * 1e9), &worker->drain);
    worker->call_times = kiln_call_times_new();
    if (!worker->lora_disk || !worker->call_times || !worker->arrived || !worker->ready ||
        !worker->asked || !worker->again || !worker->rendered || !worker->files ||
        !worker->outcomes || !worker->reports) {
        kiln_worker_release(worker);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the worker's queues");
    }
    return 0;
}

void kiln_worker_release(struct kiln_worker *worker)
{
    kiln_queue_free(worker->arrived);
    kiln_queue_free(worker->ready);
    kiln_queue_free(worker->asked);
    kiln_queue_free(worker->again);
    kiln_queue_free(worker->rendered);
    kiln_queue_free(worker->files);
    kiln_queue_free(worker->outcomes);
    kiln_queue_free(worker->reports);
    kiln_board_release(&worker->board);
    kiln_flights_release(&worker->flights);
    kiln_lora_disk_free(worker->lora_disk);
    kiln_call_times_free(worker->call_times);
    kiln_renderer_close(worker->engine);
    memset(worker, 0, sizeof *worker);
}

enum kiln_drain kiln_worker_drain(const struct kiln_worker *worker)
{
    return (enum kiln_drain)atomic_load(&worker->drain);
}

/* Raises the drain at once: until the main thread noticed, a worker without its device would use up
 * tries of jobs that it can return. */
void kiln_worker_fail(struct kiln_worker *worker, const struct kiln_error *why)
{
    int none = KILN_DRAIN_NO;
    if (atomic_exchange(&worker->failing, true))
        return;
    worker->why = *why;
    atomic_store(&worker->failure, why->code);
    if (atomic_compare_exchange_strong(&worker->drain, &none, KILN_DRAIN_ASKED))
        kiln_log(KILN_LOG_INFO, "drain", kiln_f("by", "a failure"), kiln_f("how", "finish"));
    kiln_board_kick(&worker->board);
}

void kiln_worker_pause(struct kiln_worker *worker, int wait_ms)
{
    const int slice_ms = 20;
    enum kiln_drain before = kiln_worker_drain(worker);
    for (; wait_ms > 0 && kiln_worker_drain(worker) == before; wait_ms -= slice_ms) {
        int ms = wait_ms < slice_ms ? wait_ms : slice_ms;
        nanosleep(&(struct timespec){0, ms * 1000000L}, NULL);
    }
}

bool kiln_worker_may_probe(const struct kiln_worker *worker, enum kiln_peer peer, bool away)
{
    const _Atomic uint32_t *missed =
        peer == KILN_PEER_STORE ? &worker->stores_away : &worker->ledgers_away;
    return kiln_worker_drain(worker) == KILN_DRAIN_NO && atomic_load(missed) == away &&
           kiln_health_due(peer);
}

bool kiln_worker_may_begin(struct kiln_worker *worker, int wait_ms)
{
    return kiln_queue_await(worker->rendered, RENDERED_ITEMS, RENDERED_BYTES, wait_ms) == 0 &&
           kiln_queue_await(worker->asked, ASKED_ITEMS, ASKED_ITEMS, wait_ms) == 0;
}

void kiln_worker_pass(struct kiln_queue *queue, struct kiln_picture *picture)
{
    size_t weight = kiln_picture_weight(picture);
    int code;
    /* The next stage always makes room, at the latest when the worker ends. */
    while ((code = kiln_queue_push(queue, picture, weight, 1000)) == KILN_TIMEOUT)
        continue;
    /* Closed: only a listener that returns late from a dead bus gets here. */
    if (code != 0)
        kiln_picture_free(picture);
}

void kiln_worker_end_job(struct kiln_worker *worker, struct kiln_flight *flight, uint32_t index,
                         enum kiln_stop why)
{
    struct kiln_picture *picture;
    while (!(picture = kiln_picture_new(flight, index)))
        kiln_worker_pause(worker, 100); /* memory comes back, or the process is killed */
    kiln_picture_stop(picture, why);
    kiln_worker_pass(worker->outcomes, picture);
}

static void return_job(struct kiln_worker *worker, struct kiln_flight *flight, uint32_t index,
                       enum kiln_stop why)
{
    enum kiln_stop raised = kiln_flight_stop(flight, index);
    kiln_worker_end_job(worker, flight, index, raised == KILN_STOP_NONE ? why : raised);
}

void kiln_worker_return(struct kiln_worker *worker, const struct kiln_portion *portion,
                        enum kiln_stop why)
{
    for (uint32_t i = 0; i < portion->job_count; i++)
        return_job(worker, portion->flight, portion->jobs[i].index, why);
}

void kiln_worker_return_flight(struct kiln_worker *worker, struct kiln_flight *flight)
{
    /* Settling the last job frees the flight: count first. */
    uint32_t count = flight->assignment.job_count;
    for (uint32_t i = 0; i < count; i++)
        return_job(worker, flight, i, KILN_STOP_DRAINED);
}

void kiln_worker_report(struct kiln_worker *worker, const struct kiln_event *event)
{
    struct kiln_event *copy = malloc(sizeof *copy);
    if (copy) {
        *copy = *event;
        snprintf(copy->worker, sizeof copy->worker, "%s", worker->id);
        if (kiln_queue_push(worker->reports, copy, 1, 0) == 0)
            return;
        free(copy);
    }
    /* The state of every job is in the ledger, so an event may be lost. */
    atomic_fetch_add(&worker->reports_lost, 1);
}
