/* flights.c - a table of at most KILN_HEARTBEAT_HELD_MAX assignments under one mutex.
 *
 * The table is so small that walking it is cheaper than any index.  The thread that settles the
 * last job takes the flight out of the table, reports it, and frees it.
 */
#include "worker/state/flights.h"

#include <stdlib.h>
#include <string.h>

void kiln_flights_init(struct kiln_flights *table)
{
    memset(table, 0, sizeof *table);
    pthread_mutex_init(&table->mutex, NULL);
}

void kiln_flight_free(struct kiln_flight *flight)
{
    if (!flight)
        return;
    for (int i = 0; i < KILN_LORAS_MAX; i++)
        kiln_lora_unpin(flight->pins[i]);
    kiln_assignment_release(&flight->assignment);
    free(flight);
}

void kiln_flights_release(struct kiln_flights *table)
{
    for (uint32_t i = 0; i < table->count; i++)
        kiln_flight_free(table->at[i]);
    pthread_mutex_destroy(&table->mutex);
    memset(table, 0, sizeof *table);
}

static int find_place(const struct kiln_flights *table, const struct kiln_assignment *assignment,
                      struct kiln_error *err)
{
    for (uint32_t i = 0; i < table->count; i++)
        if (strcmp(table->at[i]->assignment.id, assignment->id) == 0)
            return kiln_fail(err, KILN_EXISTS, "assignment %s is in flight already",
                             assignment->id);
    if (table->count == KILN_HEARTBEAT_HELD_MAX)
        return kiln_fail(err, KILN_FULL, "assignment %s: %u are in flight already", assignment->id,
                         table->count);
    return 0;
}

int kiln_flights_add(struct kiln_flights *table, struct kiln_assignment *assignment, double now_ms,
                     struct kiln_flight **ret, struct kiln_error *err)
{
    if (assignment->job_count < 1 || assignment->job_count > KILN_ASSIGN_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "assignment %s has %u jobs; 1 to %d are allowed",
                         assignment->id, assignment->job_count, KILN_ASSIGN_MAX);
    struct kiln_flight *flight = calloc(1, sizeof *flight);
    if (!flight)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for assignment %s", assignment->id);
    pthread_mutex_lock(&table->mutex);
    int code = find_place(table, assignment, err);
    if (code == 0) {
        flight->assignment = *assignment;
        flight->open = assignment->job_count;
        flight->received_ms = now_ms;
        table->at[table->count++] = flight;
    }
    pthread_mutex_unlock(&table->mutex);
    if (code != 0) {
        free(flight);
        return code;
    }
    memset(assignment, 0, sizeof *assignment); /* moved: releasing the caller's is now harmless */
    *ret = flight;
    return 0;
}

bool kiln_flights_settle(struct kiln_flights *table, struct kiln_flight *flight, uint32_t index)
{
    bool last = false;
    pthread_mutex_lock(&table->mutex);
    if (!flight->settled[index]) {
        flight->settled[index] = true;
        last = --flight->open == 0;
    }
    for (uint32_t i = 0; last && i < table->count; i++)
        if (table->at[i] == flight) {
            table->at[i] = table->at[--table->count];
            break;
        }
    pthread_mutex_unlock(&table->mutex);
    return last;
}

/* The first reason wins: a cancelled job stays cancelled when the worker drains afterwards. */
static bool raise_flag(struct kiln_flight *flight, uint32_t index, enum kiln_stop why)
{
    int32_t none = KILN_STOP_NONE;
    if (flight->settled[index])
        return false; /* too late to stop: the ledger has it */
    return __atomic_compare_exchange_n(&flight->stops[index], &none, (int32_t)why, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* One walk for all three: id NULL and job 0 match everything. */
static uint32_t stop_matching(struct kiln_flights *table, const char *id, uint64_t job,
                              enum kiln_stop why)
{
    uint32_t stopped = 0;
    pthread_mutex_lock(&table->mutex);
    for (uint32_t i = 0; i < table->count; i++) {
        struct kiln_flight *flight = table->at[i];
        if (id && strcmp(flight->assignment.id, id) != 0)
            continue;
        for (uint32_t j = 0; j < flight->assignment.job_count; j++)
            if (job == 0 || flight->assignment.jobs[j].id == job)
                stopped += raise_flag(flight, j, why);
    }
    pthread_mutex_unlock(&table->mutex);
    return stopped;
}

uint32_t kiln_flights_stop_job(struct kiln_flights *table, uint64_t job, enum kiln_stop why)
{
    return job == 0 ? 0 : stop_matching(table, NULL, job, why);
}

uint32_t kiln_flights_stop_assignment(struct kiln_flights *table, const char *id,
                                      enum kiln_stop why)
{
    return stop_matching(table, id, 0, why);
}

uint32_t kiln_flights_stop_all(struct kiln_flights *table, enum kiln_stop why)
{
    return stop_matching(table, NULL, 0, why);
}

enum kiln_stop kiln_flight_stop(const struct kiln_flight *flight, uint32_t index)
{
    return (enum kiln_stop)__atomic_load_n(&flight->stops[index], __ATOMIC_ACQUIRE);
}

void kiln_flights_list(struct kiln_flights *table, struct kiln_heartbeat *beat)
{
    pthread_mutex_lock(&table->mutex);
    beat->held_count = table->count;
    for (uint32_t i = 0; i < table->count; i++)
        memcpy(beat->held[i], table->at[i]->assignment.id, sizeof beat->held[i]);
    pthread_mutex_unlock(&table->mutex);
}
