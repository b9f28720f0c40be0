/* reporter.c - the thread that tells the events stream what happened.
 *
 * It has its own connection, since the listener's waits in a blocking read most of the time.  While
 * the bus is away events pile up to a bound and are then dropped: the scheduler does without them,
 * from the heartbeat and the ledger.  If Redis refuses them (another program has used the stream's
 * name), the scheduler has a while to repair that before they are dropped.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/log.h"
#include "storage/bus/bus.h"
#include "storage/daemon/outage.h"
#include "worker/state/worker.h"

#define EVENTS_KEPT 100000 /* of the stream, about */
#define EVENTS_AT_ONCE 64
#define REFUSALS_MAX 8 /* of the same events, with growing pauses: some ten seconds */

/* Appends the events in one go; the last append trims the stream and waits for the answers. */
static int send_events(struct kiln_worker *worker, struct kiln_bus **bus, char *const *texts,
                       size_t count, struct kiln_error *err)
{
    int code = *bus ? 0 : kiln_bus_open(worker->config, bus, err);
    for (size_t i = 0; i < count && code == 0; i++) {
        const char *fields[2] = {"event", texts[i]};
        const size_t lengths[2] = {strlen("event"), strlen(texts[i])};
        if (i + 1 < count) {
            code = kiln_bus_append_async(*bus, worker->events, fields, lengths, 1, err);
            continue;
        }
        code = kiln_bus_flush(*bus, err);
        if (code == 0)
            code = kiln_bus_append(*bus, worker->events, EVENTS_KEPT, fields, lengths, 1, err);
    }
    return code;
}

/* Tries until they are out; when the worker ends, once.  An event may be told twice. */
static void deliver(struct kiln_worker *worker, struct kiln_bus **bus, struct kiln_outage *outage,
                    char *const *texts, size_t count)
{
    struct kiln_error err;
    int refusals = 0;
    while (send_events(worker, bus, texts, count, &err) != 0) {
        int wait_ms = kiln_outage_fail(outage, &err);
        refusals += *bus && kiln_bus_refusal(*bus) != KILN_BUS_NOT_REFUSED;
        if (refusals == REFUSALS_MAX || kiln_worker_drain(worker) != KILN_DRAIN_NO) {
            atomic_fetch_add(&worker->reports_lost, count);
            return;
        }
        kiln_worker_pause(worker, wait_ms);
    }
    kiln_outage_over(outage);
}

/* Encodes and frees the events; returns how many have a text. */
static size_t encode_events(struct kiln_event *const *events, size_t count, char **ret_texts)
{
    size_t made = 0;
    for (size_t i = 0; i < count; i++) {
        ret_texts[made] = kiln_event_encode(events[i]);
        made += ret_texts[made] != NULL;
        free(events[i]);
    }
    return made;
}

static void log_losses(struct kiln_worker *worker)
{
    uint64_t lost = atomic_exchange(&worker->reports_lost, 0);
    if (lost > 0)
        kiln_log(KILN_LOG_WARNING, "events_lost", kiln_f("count", "%" PRIu64, lost));
}

static void greet(struct kiln_worker *worker, struct kiln_bus **bus, struct kiln_outage *outage,
                  enum kiln_event_kind kind)
{
    struct kiln_event event = {.kind = kind};
    memcpy(event.worker, worker->id, sizeof event.worker);
    char *text = kiln_event_encode(&event);
    if (text)
        deliver(worker, bus, outage, &text, 1);
    free(text);
}

void *kiln_reporter(void *arg)
{
    struct kiln_worker *worker = arg;
    struct kiln_bus *bus = NULL;
    struct kiln_outage outage = {.what = "bus", .effect = "events wait"};
    greet(worker, &bus, &outage, KILN_EVENT_HELLO);
    for (;;) {
        struct kiln_event *events[EVENTS_AT_ONCE];
        char *texts[EVENTS_AT_ONCE];
        size_t count;
        int code = kiln_queue_pop(worker->reports, (void **)events, EVENTS_AT_ONCE, &count, 1000);
        if (code == KILN_CANCELLED)
            break;
        count = encode_events(events, count, texts);
        if (count > 0)
            deliver(worker, &bus, &outage, texts, count);
        for (size_t i = 0; i < count; i++)
            free(texts[i]);
        if (!kiln_outage_is(&outage))
            log_losses(worker);
    }
    greet(worker, &bus, &outage, KILN_EVENT_BYE);
    log_losses(worker);
    kiln_bus_close(bus);
    atomic_fetch_sub(&worker->threads, 1);
    return NULL;
}
