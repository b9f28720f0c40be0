/* tables_move.c - the moves of a job between its states, as storage/ledger/queue/move.c makes
 * them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/tables.h"

static const struct kiln_return no_reason = {.code = KILN_OK};

/* The one place where a state changes. */
static void move(struct sim_tables *tables, struct sim_row *row, enum kiln_job_state to,
                 const struct kiln_return *why)
{
    enum kiln_job_state from = row->job.state;
    if (!kiln_move_legal(from, to) && tables->broken)
        tables->broken("job %llu: no move leads from %s to %s", (unsigned long long)row->job.id,
                       kiln_job_state_name(from), kiln_job_state_name(to));
    row->job.state = to;
    if (tables->moved)
        tables->moved(row, from, why);
}

static uint32_t below(const struct sim_tables *tables, uint32_t bound)
{
    return tables->random ? tables->random(bound) : 0;
}

/* --- assign ---------------------------------------------------------------------------------- */
size_t sim_tables_assign(struct sim_tables *tables, const char *worker, const char *assignment,
                         const uint64_t *ids, size_t count, int64_t now_ms, struct sim_row **ret)
{
    size_t given = 0;
    for (size_t i = 0; i < count; i++) {
        struct sim_row *row = sim_tables_row(tables, ids[i]);
        if (!row)
            continue;
        bool mine = row->job.state == KILN_JOB_ASSIGNED && strcmp(row->assignment, assignment) == 0;
        if (row->job.state == KILN_JOB_QUEUED && !(tables->locked && tables->locked())) {
            row->job.attempt++;
            row->tries++;
            snprintf(row->worker, sizeof row->worker, "%s", worker);
            snprintf(row->assignment, sizeof row->assignment, "%s", assignment);
            row->assigned_ms = now_ms;
            move(tables, row, KILN_JOB_ASSIGNED, &no_reason);
            mine = true;
        }
        if (mine)
            ret[given++] = row;
    }
    return given;
}

/* --- return ---------------------------------------------------------------------------------- */
static int64_t pause_ms(const struct sim_tables *tables, uint32_t tries,
                        const struct sim_limits *limits)
{
    double longest = limits->base_s * pow(2, fmin((double)tries - 1, 60));
    longest = fmin(longest, limits->max_s);
    return (int64_t)(longest * 1000 * below(tables, 1000) / 1000);
}

int sim_tables_return(struct sim_tables *tables, const struct kiln_return *how,
                      const struct sim_limits *limits, int64_t now_ms)
{
    struct sim_row *row = sim_tables_row(tables, how->id);
    if (!row || row->job.attempt != how->attempt)
        return -1;
    if (row->job.state != KILN_JOB_ASSIGNED)
        return row->job.state == KILN_JOB_QUEUED || row->job.state == KILN_JOB_FAILED
                   ? (int)row->job.state
                   : -1;
    row->tries -= how->code == KILN_OK;
    row->crashes += how->crashed;
    bool poisoned = row->crashes >= limits->max_attempts;
    bool over =
        how->code != KILN_OK && (how->final || row->tries >= limits->max_attempts || poisoned);
    if (how->code != KILN_OK) {
        row->not_before_ms = now_ms + pause_ms(tables, row->tries, limits);
        row->error_code = over && poisoned ? KILN_POISONED : how->code;
    }
    move(tables, row, over ? KILN_JOB_FAILED : KILN_JOB_QUEUED, how);
    return (int)row->job.state;
}

/* --- cancel and retry ------------------------------------------------------------------------ */
typedef bool try_row(struct sim_tables *tables, struct sim_row *row, int64_t now_ms);

static bool cancel_row(struct sim_tables *tables, struct sim_row *row, int64_t now_ms)
{
    (void)now_ms;
    if (row->job.state != KILN_JOB_QUEUED && row->job.state != KILN_JOB_ASSIGNED)
        return false;
    move(tables, row, KILN_JOB_CANCELLED, &no_reason);
    return true;
}

static bool retry_row(struct sim_tables *tables, struct sim_row *row, int64_t now_ms)
{
    if (row->job.state != KILN_JOB_FAILED && row->job.state != KILN_JOB_CANCELLED)
        return false;
    row->tries = row->crashes = 0;
    row->queued_ms = now_ms;
    row->not_before_ms = 0;
    row->error_code = 0;
    move(tables, row, KILN_JOB_QUEUED, &no_reason);
    return true;
}

static int64_t each_row(struct sim_tables *tables, const char *pool, uint64_t id,
                        const char *batch_name, int64_t now_ms, try_row *try)
{
    int64_t moved = 0;
    if (id) {
        struct sim_row *row = sim_tables_row(tables, id);
        return row && strcmp(row->pool, pool) == 0 ? try(tables, row, now_ms) : -1;
    }
    const struct sim_batch *batch = sim_tables_batch(tables, pool, batch_name);
    for (size_t i = 0; batch && i < tables->row_count; i++)
        if (tables->rows[i] && tables->rows[i]->job.batch_id == batch->id)
            moved += try(tables, tables->rows[i], now_ms);
    return batch ? moved : -1;
}

int64_t sim_tables_cancel(struct sim_tables *tables, const char *pool, uint64_t id,
                          const char *batch)
{
    return each_row(tables, pool, id, batch, 0, cancel_row);
}

int64_t sim_tables_retry(struct sim_tables *tables, const char *pool, uint64_t id,
                         const char *batch, int64_t now_ms)
{
    return each_row(tables, pool, id, batch, now_ms, retry_row);
}

/* --- commit ---------------------------------------------------------------------------------- */
static void store_rows(struct sim_row *row, const struct kiln_commit *commit)
{
    row->commits++;
    row->object_count = commit->object_count < 4 ? commit->object_count : 4;
    for (size_t i = 0; i < row->object_count; i++)
        snprintf(row->objects[i], sizeof row->objects[i], "%s", commit->objects[i].key);
}

bool sim_tables_commit(struct sim_tables *tables, const struct kiln_commit *commit)
{
    struct sim_row *row = sim_tables_row(tables, commit->job->id);
    if (!row || (row->job.attempt != commit->job->attempt && !tables->no_fencing))
        return false;
    if (row->job.state != KILN_JOB_ASSIGNED)
        return row->job.state == KILN_JOB_DONE; /* this very attempt: the commit is repeated */
    snprintf(row->worker, sizeof row->worker, "%s", commit->worker);
    row->error_code = 0;
    store_rows(row, commit);
    move(tables, row, KILN_JOB_DONE, &no_reason);
    return true;
}

bool sim_tables_still_ours(struct sim_tables *tables, uint64_t id, uint32_t attempt)
{
    const struct sim_row *row = sim_tables_row(tables, id);
    return row && row->job.attempt == attempt && row->job.state == KILN_JOB_ASSIGNED;
}
