/* reporter.c - the thread that writes events into the events stream.
 *
 * It has its own connection, since the listener's is in a blocking read most of the time.  During
 * an outage of the bus events wait up to a limit and are then dropped: the scheduler manages
 * without them, from the heartbeats and the ledger.  Events that Redis refuses, because another
 * program has used the stream's name, are dropped at once: a retry would be refused too.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/telemetry/log.h"
#include "storage/bus/bus.h"
#include "storage/daemon/outage.h"
#include "worker/state/worker.h"

#define EVENTS_KEPT 100000 /* of the stream, about */
#define EVENTS_AT_ONCE 64

struct reporter {
    struct kiln_worker *worker;
    struct kiln_bus *bus;
    struct kiln_outage outage;
    bool refused; /* the last events, by a Redis that answers */
};

/* Appends the events in one go; the last append trims the stream and waits for the answers. */
static int send_events(struct reporter *reporter, char *const *texts, size_t count,
                       struct kiln_error *err)
{
    const struct kiln_worker *worker = reporter->worker;
    struct kiln_bus **bus = &reporter->bus;
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

/* Retries until the events are sent or refused; once only when the worker ends.  An event may be
 * sent twice. */
static void deliver(struct reporter *reporter, char *const *texts, size_t count)
{
    struct kiln_worker *worker = reporter->worker;
    struct kiln_error err;
    while (send_events(reporter, texts, count, &err) != 0) {
        bool refused = reporter->bus && kiln_bus_refusal(reporter->bus) != KILN_BUS_NOT_REFUSED;
        int wait_ms = refused ? 0 : kiln_outage_fail(&reporter->outage, &err);
        if (refused) {
            kiln_outage_over(&reporter->outage); /* it answers */
            if (!reporter->refused)
                kiln_log(KILN_LOG_WARNING, "events_refused", kiln_f("stream", "%s", worker->events),
                         kiln_f("error", "%s", err.text),
                         kiln_f("effect", "%s", "events are dropped; jobs are not affected"));
            reporter->refused = true;
        }
        if (refused || kiln_worker_drain(worker) != KILN_DRAIN_NO) {
            atomic_fetch_add(&worker->reports_lost, count);
            return;
        }
        kiln_worker_pause(worker, wait_ms);
    }
    reporter->refused = false;
    kiln_outage_over(&reporter->outage);
}

static void log_losses(struct kiln_worker *worker)
{
    uint64_t lost = atomic_exchange(&worker->reports_lost, 0);
    if (lost > 0)
        kiln_log(KILN_LOG_WARNING, "events_lost", kiln_f("count", "%" PRIu64, lost));
}

static void greet(struct reporter *reporter, enum kiln_event_kind kind)
{
    struct kiln_event event = {.kind = kind};
    memcpy(event.worker, reporter->worker->id, sizeof event.worker);
    char *text = kiln_event_encode(&event);
    if (text)
        deliver(reporter, &text, 1);
    free(text);
}

void *kiln_reporter(void *arg)
{
    struct kiln_worker *worker = arg;
    struct reporter reporter = {.worker = worker,
                                .outage = {KILN_OUTAGE_OF("bus"), .effect = "events wait"}};
    greet(&reporter, KILN_EVENT_HELLO);
    for (;;) {
        struct kiln_event *events[EVENTS_AT_ONCE];
        char *texts[EVENTS_AT_ONCE];
        size_t taken, count = 0;
        int code = kiln_queue_pop(worker->reports, (void **)events, EVENTS_AT_ONCE, &taken, 1000);
        if (code == KILN_CANCELLED)
            break;
        for (size_t i = 0; i < taken; i++) {
            texts[count] = kiln_event_encode(events[i]);
            count += texts[count] != NULL;
            free(events[i]);
        }
        if (count > 0)
            deliver(&reporter, texts, count);
        for (size_t i = 0; i < count; i++)
            free(texts[i]);
        if (!kiln_outage_is(&reporter.outage) && !reporter.refused)
            log_losses(worker);
    }
    greet(&reporter, KILN_EVENT_BYE);
    log_losses(worker);
    kiln_bus_close(reporter.bus);
    atomic_fetch_sub(&worker->threads, 1);
    return NULL;
}
