/* holdings.c - a table of at most KILN_HEARTBEAT_HELD_MAX assignments under one mutex.
 *
 * The table is so small that walking it is cheaper than any index.  A holding outlives its place in
 * the table for a moment: who settles the last job takes it out and frees it after reporting.
 */
#include "worker/state/holdings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void kiln_holdings_init(struct kiln_holdings *table)
{
    memset(table, 0, sizeof *table);
    pthread_mutex_init(&table->mutex, NULL);
}

void kiln_holding_free(struct kiln_holding *holding)
{
    if (!holding)
        return;
    kiln_assignment_release(&holding->assignment);
    free(holding);
}

void kiln_holdings_release(struct kiln_holdings *table)
{
    for (uint32_t i = 0; i < table->count; i++)
        kiln_holding_free(table->at[i]);
    pthread_mutex_destroy(&table->mutex);
    memset(table, 0, sizeof *table);
}

static int find_place(const struct kiln_holdings *table, const struct kiln_assignment *assignment,
                      struct kiln_error *err)
{
    for (uint32_t i = 0; i < table->count; i++)
        if (strcmp(table->at[i]->assignment.id, assignment->id) == 0)
            return kiln_fail(err, KILN_EXISTS, "assignment %s is held already", assignment->id);
    if (table->count == KILN_HEARTBEAT_HELD_MAX)
        return kiln_fail(err, KILN_FULL, "assignment %s: %u are held already", assignment->id,
                         table->count);
    return 0;
}

int kiln_holdings_add(struct kiln_holdings *table, struct kiln_assignment *assignment,
                      double now_ms, struct kiln_holding **ret, struct kiln_error *err)
{
    if (assignment->job_count < 1 || assignment->job_count > KILN_ASSIGN_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "assignment %s has %u jobs; 1 to %d are allowed",
                         assignment->id, assignment->job_count, KILN_ASSIGN_MAX);
    struct kiln_holding *holding = calloc(1, sizeof *holding);
    if (!holding)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for assignment %s", assignment->id);
    pthread_mutex_lock(&table->mutex);
    int code = find_place(table, assignment, err);
    if (code == 0) {
        holding->assignment = *assignment;
        holding->open = assignment->job_count;
        holding->received_ms = now_ms;
        table->at[table->count++] = holding;
    }
    pthread_mutex_unlock(&table->mutex);
    if (code != 0) {
        free(holding);
        return code;
    }
    memset(assignment, 0, sizeof *assignment); /* moved: releasing the caller's is now harmless */
    *ret = holding;
    return 0;
}

bool kiln_holdings_settle(struct kiln_holdings *table, struct kiln_holding *holding, uint32_t index)
{
    bool last = false;
    pthread_mutex_lock(&table->mutex);
    if (!holding->settled[index]) {
        holding->settled[index] = true;
        last = --holding->open == 0;
    }
    for (uint32_t i = 0; last && i < table->count; i++)
        if (table->at[i] == holding) {
            table->at[i] = table->at[--table->count];
            break;
        }
    pthread_mutex_unlock(&table->mutex);
    return last;
}

/* The first reason wins: a cancelled job stays cancelled when the worker drains afterwards. */
static bool raise_flag(struct kiln_holding *holding, uint32_t index, enum kiln_stop why)
{
    int32_t none = KILN_STOP_NONE;
    if (holding->settled[index])
        return false; /* too late to stop: it is written down already */
    return __atomic_compare_exchange_n(&holding->stops[index], &none, (int32_t)why, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* One walk for all three: id NULL and job 0 match everything. */
static uint32_t stop_matching(struct kiln_holdings *table, const char *id, uint64_t job,
                              enum kiln_stop why)
{
    uint32_t stopped = 0;
    pthread_mutex_lock(&table->mutex);
    for (uint32_t i = 0; i < table->count; i++) {
        struct kiln_holding *holding = table->at[i];
        if (id && strcmp(holding->assignment.id, id) != 0)
            continue;
        for (uint32_t j = 0; j < holding->assignment.job_count; j++)
            if (job == 0 || holding->assignment.jobs[j].id == job)
                stopped += raise_flag(holding, j, why);
    }
    pthread_mutex_unlock(&table->mutex);
    return stopped;
}

uint32_t kiln_holdings_stop_job(struct kiln_holdings *table, uint64_t job, enum kiln_stop why)
{
    return job == 0 ? 0 : stop_matching(table, NULL, job, why);
}

uint32_t kiln_holdings_stop_assignment(struct kiln_holdings *table, const char *id,
                                       enum kiln_stop why)
{
    return stop_matching(table, id, 0, why);
}

uint32_t kiln_holdings_stop_all(struct kiln_holdings *table, enum kiln_stop why)
{
    return stop_matching(table, NULL, 0, why);
}

enum kiln_stop kiln_holding_stop(const struct kiln_holding *holding, uint32_t index)
{
    return (enum kiln_stop)__atomic_load_n(&holding->stops[index], __ATOMIC_ACQUIRE);
}

void kiln_holdings_list(struct kiln_holdings *table, struct kiln_heartbeat *beat)
{
    pthread_mutex_lock(&table->mutex);
    beat->held_count = table->count;
    for (uint32_t i = 0; i < table->count; i++)
        memcpy(beat->held[i], table->at[i]->assignment.id, sizeof beat->held[i]);
    pthread_mutex_unlock(&table->mutex);
}

uint32_t kiln_holdings_count(struct kiln_holdings *table)
{
    pthread_mutex_lock(&table->mutex);
    uint32_t count = table->count;
    pthread_mutex_unlock(&table->mutex);
    return count;
}
