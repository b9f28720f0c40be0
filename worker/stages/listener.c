/* listener.c - the thread that hears the scheduler: assignments and orders from the worker's
 * stream.
 *
 * An entry is deleted as soon as it is taken in, so the stream holds only what was not yet heard
 * and is always read from its beginning: an emptied Redis or a clock that jumped cannot make this
 * worker wait for ids that never come.  What was taken in is named by the heartbeat; if this
 * process dies, the beat dies with it and the ledger gives the jobs to somebody else.  An entry
 * that is seen twice (the deletion was lost) is known by its assignment id, or found done by the
 * ledger.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "schemas/log.h"
#include "storage/bus/bus.h"
#include "storage/daemon/health.h"
#include "storage/daemon/outage.h"
#include "worker/stages/prefetch.h"
#include "worker/state/identity.h"
#include "worker/state/worker.h"

#define READ_MAX 16
#define BLOCK_MS 500
#define ENTRY_ID_MAX 48 /* two 64-bit decimals and a dash */

/* What one read has brought, until its entries are deleted. */
struct catch
{
    struct kiln_worker *worker;
    struct kiln_holding *holdings[READ_MAX];
    char ids[READ_MAX][ENTRY_ID_MAX];
    size_t holding_count, entry_count;
};

static void take_assignment(struct catch *catch, const char *text, size_t length)
{
    struct kiln_assignment assignment = {0};
    struct kiln_holding *holding = NULL;
    struct kiln_error err;
    int code = kiln_assignment_decode(text, length, &assignment, &err);
    if (code == 0)
        code = kiln_holdings_add(&catch->worker->holdings, &assignment, kiln_monotonic_ms(),
                                 &holding, &err);
    kiln_assignment_release(&assignment);
    if (code == KILN_EXISTS)
        return;
    if (code != 0) {
        /* No beat will name it, so the scheduler takes its jobs back. */
        kiln_log(KILN_LOG_WARNING, "assignment_refused", kiln_f("error", "%s", err.text));
        return;
    }
    kiln_board_want(&catch->worker->board); /* with it: what is held and not wanted is drawn */
    catch->holdings[catch->holding_count++] = holding;
}

static void begin(struct kiln_worker *worker, struct kiln_holding *holding)
{
    kiln_log(KILN_LOG_DEBUG, "assignment_taken", kiln_f("assignment", "%s", holding->assignment.id),
             kiln_f("jobs", "%u", holding->assignment.job_count));
    if (kiln_queue_length(worker->ready) == 0) /* else the compute thread asks in its turn */
        kiln_worker_prefetch(worker, &holding->assignment);
    /* The queue has a place for every holding, so this never waits. */
    if (kiln_queue_push(worker->ready, holding, 1, 0) != 0) {
        kiln_board_settle(&worker->board);
        kiln_worker_hand_back(worker, holding);
    }
    kiln_board_kick(&worker->board);
}

static void ask_drain(struct kiln_worker *worker)
{
    int expected = KILN_DRAIN_NO;
    if (atomic_compare_exchange_strong(&worker->drain, &expected, KILN_DRAIN_ASKED))
        kiln_log(KILN_LOG_INFO, "drain", kiln_f("by", "order"));
}

static void follow_order(struct kiln_worker *worker, const char *text, size_t length)
{
    struct kiln_control order;
    struct kiln_error err;
    uint32_t stopped = 0;
    if (kiln_control_decode(text, length, &order, &err) != 0) {
        kiln_log(KILN_LOG_WARNING, "order_refused", kiln_f("error", "%s", err.text));
        return;
    }
    switch (order.kind) {
    case KILN_CONTROL_CANCEL_JOB:
        stopped = kiln_holdings_stop_job(&worker->holdings, order.job, KILN_STOP_CANCELLED);
        break;
    case KILN_CONTROL_DROP:
        stopped = kiln_holdings_stop_assignment(&worker->holdings, order.id, KILN_STOP_DROPPED);
        break;
    case KILN_CONTROL_DRAIN:
        /* By incarnation when two processes have this id: then only one of them is meant. */
        if (order.id[0] == '\0' || strcmp(order.id, worker->id) == 0 ||
            strcmp(order.id, worker->incarnation) == 0)
            ask_drain(worker);
        return;
    case KILN_CONTROL_CANCEL_BATCH: /* for the scheduler alone */
    case KILN_CONTROL_WAKE:
    case KILN_CONTROL_ASK:
        return;
    }
    kiln_log(KILN_LOG_INFO, "order", kiln_f("kind", "%d", (int)order.kind),
             kiln_f("stopped", "%u", stopped));
}

static void take_entry(struct catch *catch, const struct kiln_bus_entry *entry)
{
    snprintf(catch->ids[catch->entry_count++], ENTRY_ID_MAX, "%s", entry->id);
    /* An entry is one message in one field. */
    const char *name = entry->field_count == 1 ? entry->fields[0] : "several, or none";
    if (strcmp(name, "assign") == 0)
        take_assignment(catch, entry->fields[1], entry->lengths[1]);
    else if (strcmp(name, "order") == 0)
        follow_order(catch->worker, entry->fields[1], entry->lengths[1]);
    else
        kiln_log(KILN_LOG_WARNING, "entry_unknown", kiln_f("field", "%.40s", name));
}

/* Takes in what waits in the stream, removes it there, then begins it. */
static int read_stream(struct kiln_worker *worker, struct kiln_bus *bus, uint32_t block_ms,
                       struct kiln_error *err)
{
    struct catch catch = {.worker = worker};
    struct kiln_bus_entries entries;
    const char *stream = worker->stream, *after = "0";
    int code = kiln_bus_read(bus, &stream, &after, 1, READ_MAX, block_ms, &entries, err);
    if (code != 0)
        return kiln_identity_mend(bus, worker->stream, code, err);
    kiln_board_heard(&worker->board);
    kiln_health_heard(KILN_PEER_BUS);
    for (size_t i = 0; i < entries.count && i < READ_MAX; i++)
        take_entry(&catch, &entries.at[i]);
    /* The entries were borrowed from the connection; from here only the copies are used. */
    for (size_t i = 0; i < catch.entry_count && code == 0; i++)
        code = kiln_bus_delete_entry(bus, worker->stream, catch.ids[i], err);
    for (size_t i = 0; i < catch.holding_count; i++)
        begin(worker, catch.holdings[i]);
    return code;
}

void *kiln_listener(void *arg)
{
    struct kiln_worker *worker = arg;
    struct kiln_outage outage = {KILN_OUTAGE_OF("bus"), .effect = "what is held goes on"};
    struct kiln_bus *bus = NULL;
    struct kiln_error err;
    while (kiln_worker_drain(worker) == KILN_DRAIN_NO) {
        int code = bus ? 0 : kiln_bus_open(worker->config, &bus, &err);
        if (code == 0) { /* one that has fallen silent is given up before the scheduler minds */
            double lease_s = kiln_board_settings(&worker->board).lease_s;
            kiln_bus_limit(bus, (uint32_t)(lease_s * 1e3 / 2));
            code = read_stream(worker, bus, BLOCK_MS, &err);
        }
        if (code == 0)
            kiln_outage_over(&outage);
        else
            kiln_worker_pause(worker, kiln_outage_fail(&outage, &err));
    }
    /* The beat says draining now.  What was assigned before the scheduler saw that arrives here and
     * is handed back by the compute thread; later than this, the lease does it. */
    kiln_board_kick(&worker->board);
    if (bus && !kiln_outage_is(&outage) && read_stream(worker, bus, 200, &err) != 0)
        kiln_log(KILN_LOG_WARNING, "bus_away", kiln_f("error", "%s", err.text));
    kiln_bus_close(bus);
    kiln_queue_close(worker->ready);
    atomic_fetch_sub(&worker->threads, 1);
    return NULL;
}
