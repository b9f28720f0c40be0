/* holdings.h - the assignments this worker holds, from receipt until every job is settled.
 *
 * The listener adds; the compute thread, the stages behind it and the committer work on the jobs
 * of a holding; the committer settles them one by one, and who settles the last job frees the
 * holding.  The heartbeat thread lists the ids: a batch that no beat names goes back to the queue.
 *
 * A job's stop flag is the one thing written by several threads: 0, or the first enum kiln_stop
 * that came.  The engine reads it before each step.
 */
#ifndef KILN_HOLDINGS_H
#define KILN_HOLDINGS_H

#include <pthread.h>

#include "schemas/wire.h"

enum kiln_stop {
    KILN_STOP_NONE = 0,
    KILN_STOP_CANCELLED, /* somebody cancelled the job */
    KILN_STOP_DROPPED,   /* the ledger has given it to somebody else */
    KILN_STOP_DRAINED,   /* this worker is to end at the next step */
};

struct kiln_holding {
    struct kiln_assignment assignment;
    int32_t stops[KILN_ASSIGN_MAX]; /* enum kiln_stop by job; through the functions below */
    bool settled[KILN_ASSIGN_MAX];  /* under the table's mutex */
    uint32_t open;                  /* jobs not settled; under the table's mutex */
    double received_ms;             /* monotonic clock */
    double compute_ms, switch_ms;   /* by the collector, before it lets the last job go */
};

struct kiln_holdings {
    pthread_mutex_t mutex;
    struct kiln_holding *at[KILN_HEARTBEAT_HELD_MAX];
    uint32_t count;
};

void kiln_holdings_init(struct kiln_holdings *table);
void kiln_holdings_release(struct kiln_holdings *table); /* frees what is still held */

/* Moves *assignment in.  KILN_EXISTS: an assignment of that id is held already; KILN_FULL: the
 * table is; KILN_BAD_INPUT: no jobs or too many.  On failure *assignment is untouched. */
int kiln_holdings_add(struct kiln_holdings *table, struct kiln_assignment *assignment,
                      double now_ms, struct kiln_holding **ret,
                      struct kiln_error *err) KILN_MUST_CHECK;

/* Job `index` needs nothing more.  True if that was the last one: the holding is then out of the
 * table and the caller's, to be freed with kiln_holding_free. */
bool kiln_holdings_settle(struct kiln_holdings *table, struct kiln_holding *holding,
                          uint32_t index);
void kiln_holding_free(struct kiln_holding *holding);

/* Raise flags; they return how many jobs that stopped.  A flag that is up keeps its first reason.
 */
uint32_t kiln_holdings_stop_job(struct kiln_holdings *table, uint64_t job, enum kiln_stop why);
uint32_t kiln_holdings_stop_assignment(struct kiln_holdings *table, const char *id,
                                       enum kiln_stop why);
uint32_t kiln_holdings_stop_all(struct kiln_holdings *table, enum kiln_stop why);
enum kiln_stop kiln_holding_stop(const struct kiln_holding *holding, uint32_t index);

/* Fills held and held_count of a beat. */
void kiln_holdings_list(struct kiln_holdings *table, struct kiln_heartbeat *beat);
uint32_t kiln_holdings_count(struct kiln_holdings *table);

#endif
