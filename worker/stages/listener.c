/* listener.c - the thread that reads the worker's stream: assignments and control messages.
 *
 * An entry is deleted as soon as it is accepted, so the stream contains only unread entries and is
 * always read from its beginning: after a flush of Redis or a clock that jumped, this worker does
 * not wait for ids that never come.  The heartbeat names the accepted assignments; if this process
 * dies, the heartbeat expires and the scheduler returns the jobs.  An entry that is read twice,
 * because its deletion was lost, is recognised by its assignment id or by the ledger.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "storage/bus/bus.h"
#include "storage/daemon/health.h"
#include "storage/daemon/outage.h"
#include "worker/state/identity.h"
#include "worker/state/worker.h"

#define READ_MAX 16
#define BLOCK_MS 500
#define ENTRY_ID_MAX 48 /* two 64-bit decimals and a dash */

/* The entries of one read, until they are deleted. */
struct reading {
    struct kiln_worker *worker;
    struct kiln_flight *flights[READ_MAX];
    char ids[READ_MAX][ENTRY_ID_MAX];
    size_t flight_count, entry_count;
};

static void take_assignment(struct reading *reading, const char *text, size_t length)
{
    struct kiln_assignment assignment = {0};
    struct kiln_flight *flight = NULL;
    struct kiln_error err;
    int code = kiln_assignment_decode(text, length, &assignment, &err);
    if (code == 0)
        code = kiln_flights_add(&reading->worker->flights, &assignment, kiln_monotonic_ms(),
                                &flight, &err);
    kiln_assignment_release(&assignment);
    if (code == KILN_EXISTS)
        return;
    if (code != 0) {
        /* No heartbeat will name it, so the scheduler returns its jobs. */
        kiln_log(KILN_LOG_WARNING, "assignment_refused", kiln_f("error", "%s", err.text));
        return;
    }
    /* Before a heartbeat lists it: listed but not counted means rendered. */
    kiln_board_want(&reading->worker->board);
    reading->flights[reading->flight_count++] = flight;
}

static void begin(struct kiln_worker *worker, struct kiln_flight *flight)
{
    kiln_log(KILN_LOG_DEBUG, "assignment_taken", kiln_f("assignment", "%s", flight->assignment.id),
             kiln_f("jobs", "%u", flight->assignment.job_count));
    atomic_fetch_add(&worker->waiting, 1);
    /* The queue has a place for every flight, so this never waits. */
    if (kiln_queue_push(worker->arrived, flight, 1, 0) != 0) {
        kiln_board_settle(&worker->board);
        kiln_worker_return_flight(worker, flight);
    }
    kiln_board_kick(&worker->board);
}

static void obey(struct kiln_worker *worker, const char *text, size_t length)
{
    struct kiln_control control;
    struct kiln_error err;
    uint32_t stopped = 0;
    int no = KILN_DRAIN_NO;
    if (kiln_control_decode(text, length, &control, &err) != 0) {
        kiln_log(KILN_LOG_WARNING, "order_refused", kiln_f("error", "%s", err.text));
        return;
    }
    switch (control.kind) {
    case KILN_CONTROL_CANCEL_JOB:
        stopped = kiln_flights_stop_job(&worker->flights, control.job, KILN_STOP_CANCELLED);
        break;
    case KILN_CONTROL_DROP:
        stopped = kiln_flights_stop_assignment(&worker->flights, control.id, KILN_STOP_DROPPED);
        break;
    case KILN_CONTROL_DRAIN:
        /* By incarnation when two processes have this id, and one of them is meant. */
        if ((control.id[0] == '\0' || strcmp(control.id, worker->id) == 0 ||
             strcmp(control.id, worker->incarnation) == 0) &&
            atomic_compare_exchange_strong(&worker->drain, &no, KILN_DRAIN_ASKED))
            kiln_log(KILN_LOG_INFO, "drain", kiln_f("by", "order"));
        return;
    case KILN_CONTROL_CANCEL_BATCH: /* for the scheduler alone */
    case KILN_CONTROL_WAKE:
    case KILN_CONTROL_ASK:
        return;
    }
    kiln_log(KILN_LOG_INFO, "order", kiln_f("kind", "%d", (int)control.kind),
             kiln_f("stopped", "%u", stopped));
}

/* Reads the stream, deletes the entries there, then begins the assignments. */
static int read_stream(struct kiln_worker *worker, struct kiln_bus *bus, uint32_t block_ms,
                       struct kiln_error *err)
{
    struct reading reading = {.worker = worker};
    struct kiln_bus_entries entries;
    const char *stream = worker->stream, *after = "0";
    int code = kiln_bus_read(bus, &stream, &after, 1, READ_MAX, block_ms, &entries, err);
    if (code != 0)
        return kiln_identity_repair(bus, worker->stream, code, err);
    kiln_board_heard(&worker->board);
    kiln_health_heard(KILN_PEER_BUS);
    for (size_t i = 0; i < entries.count && i < READ_MAX; i++) {
        const struct kiln_bus_entry *entry = &entries.at[i];
        snprintf(reading.ids[reading.entry_count++], ENTRY_ID_MAX, "%s", entry->id);
        /* An entry is one message in one field. */
        const char *name = entry->field_count == 1 ? entry->fields[0] : "several, or none";
        if (strcmp(name, "assign") == 0)
            take_assignment(&reading, entry->fields[1], entry->lengths[1]);
        else if (strcmp(name, "order") == 0)
            obey(worker, entry->fields[1], entry->lengths[1]);
        else
            kiln_log(KILN_LOG_WARNING, "entry_unknown", kiln_f("field", "%.40s", name));
    }
    /* The entries belong to the connection; from here only the copies are used. */
    for (size_t i = 0; i < reading.entry_count && code == 0; i++)
        code = kiln_bus_delete_entry(bus, worker->stream, reading.ids[i], err);
    for (size_t i = 0; i < reading.flight_count; i++)
        begin(worker, reading.flights[i]);
    return code;
}

void *kiln_listener(void *arg)
{
    struct kiln_worker *worker = arg;
    struct kiln_outage outage = {KILN_OUTAGE_OF("bus"), .effect = "assignments in flight continue"};
    struct kiln_bus *bus = NULL;
    struct kiln_error err;
    while (kiln_worker_drain(worker) == KILN_DRAIN_NO) {
        int code = bus ? 0 : kiln_bus_open(worker->config, &bus, &err);
        if (code == 0) { /* a silent connection is closed before the lease expires */
            double lease_s = kiln_board_settings(&worker->board).lease_s;
            kiln_bus_limit(bus, (uint32_t)(lease_s * 1e3 / 2));
            code = read_stream(worker, bus, BLOCK_MS, &err);
        }
        if (code == 0)
            kiln_outage_over(&outage);
        else
            kiln_worker_pause(worker, kiln_outage_fail(&outage, &err));
    }
    /* The heartbeat says draining now.  Assignments that were sent before the scheduler read that
     * arrive here, and the compute thread returns them; later ones return with the lease. */
    kiln_board_kick(&worker->board);
    if (bus && !kiln_outage_is(&outage) && read_stream(worker, bus, 200, &err) != 0)
        kiln_log(KILN_LOG_WARNING, "bus_away", kiln_f("error", "%s", err.text));
    kiln_bus_close(bus);
    kiln_queue_close(worker->arrived);
    atomic_fetch_sub(&worker->threads, 1);
    return NULL;
}
