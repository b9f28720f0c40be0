/* reporter.c - the thread that tells the events stream what happened.
 *
 * It has its own connection, since the listener's waits in a blocking read most of the time.  While
 * the bus is away events pile up to a bound and are then dropped: the scheduler does without them,
 * from the heartbeat and the ledger.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/log.h"
#include "storage/bus.h"
#include "worker/outage.h"
#include "worker/worker.h"

#define EVENTS_KEPT 100000 /* of the stream, about */

static int send_event(struct kiln_worker *worker, struct kiln_bus *bus, const char *text,
                      struct kiln_error *err)
{
    const char *fields[2] = {"event", text};
    const size_t lengths[2] = {strlen("event"), strlen(text)};
    return kiln_bus_append(bus, worker->events, EVENTS_KEPT, fields, lengths, 1, err);
}

/* Tries until it is out; when the worker ends, once. */
static void deliver(struct kiln_worker *worker, struct kiln_bus **bus, struct kiln_outage *outage,
                    const struct kiln_event *event)
{
    struct kiln_error err;
    char *text = kiln_event_encode(event);
    while (text) {
        int code = *bus ? 0 : kiln_bus_open(worker->config, bus, &err);
        if (code == 0)
            code = send_event(worker, *bus, text, &err);
        if (code == 0) {
            kiln_outage_over(outage);
            break;
        }
        int wait_ms = kiln_outage_fail(outage, &err);
        if (kiln_worker_drain(worker) != KILN_DRAIN_NO) {
            atomic_fetch_add(&worker->reports_lost, 1);
            break;
        }
        kiln_worker_pause(worker, wait_ms);
    }
    free(text);
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
    deliver(worker, bus, outage, &event);
}

void *kiln_reporter(void *arg)
{
    struct kiln_worker *worker = arg;
    struct kiln_bus *bus = NULL;
    struct kiln_outage outage = {.what = "bus", .effect = "events wait"};
    greet(worker, &bus, &outage, KILN_EVENT_HELLO);
    for (;;) {
        void *item;
        size_t count;
        int code = kiln_queue_pop(worker->reports, &item, 1, &count, 1000);
        if (code == KILN_CANCELLED)
            break;
        if (code != 0)
            continue;
        deliver(worker, &bus, &outage, item);
        free(item);
        if (!kiln_outage_is(&outage))
            log_losses(worker);
    }
    greet(worker, &bus, &outage, KILN_EVENT_BYE);
    log_losses(worker);
    kiln_bus_close(bus);
    atomic_fetch_sub(&worker->threads, 1);
    return NULL;
}
