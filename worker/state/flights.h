/* flights.h - the assignments in flight at this worker, each from its receipt until every job is
 * settled.
 *
 * The listener adds a flight; the compute thread and the stages behind it work on its jobs; the
 * committer settles them one by one, and the thread that settles the last job frees the flight. The
 * heartbeat lists the ids: the scheduler returns an assignment that no heartbeat names.
 *
 * A job's stop flag is the one field that several threads write: 0, or the first enum kiln_stop
 * raised.  The engine reads it before each step.
 */
#ifndef KILN_FLIGHTS_H
#define KILN_FLIGHTS_H

#include <pthread.h>

#include "schemas/wire/wire.h"
#include "worker/state/lora_disk.h"

enum kiln_stop {
    KILN_STOP_NONE = 0,
    KILN_STOP_CANCELLED, /* somebody cancelled the job */
    KILN_STOP_DROPPED,   /* the ledger has moved the job: another attempt, or done */
    KILN_STOP_DRAINED,   /* this worker ends at the next step */
    KILN_STOP_REFUSED,   /* the store has refused this worker's pictures for long */
};

struct kiln_flight {
    struct kiln_assignment assignment;
    int32_t stops[KILN_ASSIGN_MAX]; /* enum kiln_stop by job; through the functions below */
    bool settled[KILN_ASSIGN_MAX];  /* under the table's mutex */
    uint32_t open;                  /* jobs not settled; under the table's mutex */
    double received_ms;             /* monotonic clock */
    /* Of the LoRAs that are used from the disk cache, by the starts thread before the first portion
     * is passed on; NULL: from lora_dir. */
    struct kiln_lora_pin *pins[KILN_LORAS_MAX];
    double fetch_ms; /* of one of its LoRAs from the store; 0: none was.  By the starts thread,
                        likewise */
    double compute_ms, switch_ms; /* by the collector, before it passes the last job on */
};

struct kiln_flights {
    pthread_mutex_t mutex;
    struct kiln_flight *at[KILN_HEARTBEAT_HELD_MAX];
    uint32_t count;
};

void kiln_flights_init(struct kiln_flights *table);
void kiln_flights_release(struct kiln_flights *table); /* frees what is still in flight */

/* Moves *assignment in.  KILN_EXISTS: that id is in flight already; KILN_FULL: the table is full;
 * KILN_BAD_INPUT: no jobs or too many.  On failure *assignment is untouched. */
int kiln_flights_add(struct kiln_flights *table, struct kiln_assignment *assignment, double now_ms,
                     struct kiln_flight **ret, struct kiln_error *err) KILN_MUST_CHECK;

/* Job `index` is settled.  True for the last one: the flight has then left the table, and the
 * caller frees it with kiln_flight_free. */
bool kiln_flights_settle(struct kiln_flights *table, struct kiln_flight *flight, uint32_t index);
void kiln_flight_free(struct kiln_flight *flight);

/* Raise flags and return how many jobs that stopped.  A raised flag keeps its first reason. */
uint32_t kiln_flights_stop_job(struct kiln_flights *table, uint64_t job, enum kiln_stop why);
uint32_t kiln_flights_stop_assignment(struct kiln_flights *table, const char *id,
                                      enum kiln_stop why);
uint32_t kiln_flights_stop_all(struct kiln_flights *table, enum kiln_stop why);
enum kiln_stop kiln_flight_stop(const struct kiln_flight *flight, uint32_t index);

/* Fills held and held_count of a heartbeat. */
void kiln_flights_list(struct kiln_flights *table, struct kiln_heartbeat *beat);

#endif
