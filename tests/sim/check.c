/* check.c - guarantees.
 *
 * Always: no move that the table does not know (tables_move.c asks); a picture is committed by the
 * attempt that holds the job, and no second attempt is ever told that its picture counts; a row's
 * objects are in the store before the row; attempts only grow; no wait is longer than its limit
 * (world.c).  Job rows cannot vanish: nothing here deletes any.
 *
 * By class: where no worker was touched, no job counts a crash; in the calm nothing is done twice,
 * and one leader assigns everything.
 *
 * At the end: every job that a client got a receipt for exists once, every job has ended, and as
 * the settings say; done jobs have one picture; indexes within a batch are all different.
 */
#include "tests/sim/check.h"

#include <stdlib.h>
#include <string.h>

#define JOBS_MAX 4096
/* From kill -9 to the queue: a lease of 10 s, and the looks; longer when the next process dies too.
 */
#define RECOVERY_MAX ((sim_plan.single ? 15 : 25) * SIM_S)

/* What the checks remember of a job, beside its row. */
static struct {
    uint32_t attempt;      /* the last one seen */
    uint32_t acknowledged; /* the attempt that was told "done"; 0 = none */
    bool returned;         /* other than for an idle worker */
    int64_t lost_at;       /* its worker was killed, or paused for a lease; 0 = not */
} ghosts[JOBS_MAX];

static char calm_leader[80]; /* its part of the assignments' names; "" = none was seen */

static unsigned long long number(uint64_t id)
{
    return id;
}

/* --- as it happens --------------------------------------------------------------------------- */
static bool blames_nobody(void)
{
    bool workers = sim_plan.faults[SIM_KILLS] || sim_plan.faults[SIM_PAUSES];
    /* A full Redis takes no heartbeats, and a lost second may contain some: their workers look
     * dead. */
    bool beats = sim_plan.faults[SIM_REDIS] || sim_plan.faults[SIM_NETWORK];
    return !workers && !beats && !sim_plan.settings.poison;
}

/* A leader's name is what stands before the number in the names of its assignments. */
static void check_leader(const struct sim_row *row)
{
    const char *number = strrchr(row->assignment, '-');
    size_t length = number ? (size_t)(number - row->assignment) : strlen(row->assignment);
    if (calm_leader[0] == '\0')
        memcpy(calm_leader, row->assignment, length);
    if (strlen(calm_leader) != length || memcmp(calm_leader, row->assignment, length) != 0)
        sim_broken("%s: there is another leader in the calm, %s", row->assignment, calm_leader);
}

static void on_move(struct sim_row *row, enum kiln_job_state from, const struct kiln_return *why)
{
    uint64_t id = row->job.id;
    sim_log("job %llu: %s -> %s, attempt %u, worker %s%s%s", number(id), kiln_job_state_name(from),
            kiln_job_state_name(row->job.state), row->job.attempt, row->worker,
            why->reason ? ": " : "", why->reason ? why->reason : "");
    if (id >= JOBS_MAX)
        sim_broken("more jobs than the checks can remember");
    if (row->job.attempt < ghosts[id].attempt)
        sim_broken("job %llu: attempt %u after %u", number(id), row->job.attempt,
                   ghosts[id].attempt);
    ghosts[id].attempt = row->job.attempt;
    if (sim_plan.class == SIM_CALM && row->job.state == KILN_JOB_ASSIGNED)
        check_leader(row);
    if (sim_plan.class == SIM_KILLS && row->job.state == KILN_JOB_QUEUED && ghosts[id].lost_at &&
        sim_now() - ghosts[id].lost_at > RECOVERY_MAX)
        sim_broken("job %llu waited %.1f s for its dead worker", number(id),
                   (double)(sim_now() - ghosts[id].lost_at) / 1e6);
    bool lent = why->reason && strstr(why->reason, "for an idle worker");
    /* Three prompts in a row that fail on it, and a worker takes its device for broken. */
    bool given_up =
        sim_plan.settings.failing && why->reason && strstr(why->reason, "the worker is ending");
    ghosts[id].returned |=
        from == KILN_JOB_ASSIGNED && row->job.state == KILN_JOB_QUEUED && !lent && !given_up;
    if (why->crashed && sim_plan.class == SIM_KILLS && !ghosts[id].lost_at)
        sim_broken("job %llu counts a crash, and its worker lives since it was assigned",
                   number(id));
    ghosts[id].lost_at = 0;
    if (why->crashed && blames_nobody())
        sim_broken("job %llu counts a crash and no worker was touched: %s", number(id),
                   why->reason);
}

static void on_commit(const struct kiln_commit *commit, bool ours)
{
    uint64_t id = commit->job->id;
    uint32_t attempt = commit->job->attempt;
    const struct sim_row *row = sim_tables_row(&sim_fleet.tables, id);
    if (!ours)
        return;
    if (row->job.attempt != attempt)
        sim_broken("job %llu: the commit of attempt %u was taken at attempt %u", number(id),
                   attempt, row->job.attempt);
    if (ghosts[id].acknowledged && ghosts[id].acknowledged != attempt)
        sim_broken("job %llu was committed twice: by attempts %u and %u", number(id),
                   ghosts[id].acknowledged, attempt);
    ghosts[id].acknowledged = attempt;
    for (size_t i = 0; i < commit->object_count; i++)
        if (!sim_store_has(commit->objects[i].key))
            sim_broken("job %llu: a row for %s, which is not in the store", number(id),
                       commit->objects[i].key);
}

static void on_kill(const struct sim_process *process)
{
    for (size_t i = 0; i < sim_fleet.tables.row_count; i++) {
        const struct sim_row *row = sim_fleet.tables.rows[i];
        if (row && row->job.state == KILN_JOB_ASSIGNED && strcmp(row->worker, process->name) == 0 &&
            ghosts[row->job.id].lost_at == 0)
            ghosts[row->job.id].lost_at = sim_now();
    }
}

static bool is_locked(void)
{
    return sim_chance(sim_fleet.locked_row);
}

static void broken(const char *fmt, ...)
{
    char text[256];
    __builtin_va_list args;
    __builtin_va_start(args, fmt);
    __builtin_vsnprintf(text, sizeof text, fmt, args);
    __builtin_va_end(args);
    sim_broken("%s", text);
}

void sim_check_start(void)
{
    sim_fleet.tables.broken = broken;
    sim_fleet.tables.moved = on_move;
    sim_fleet.tables.random = sim_below;
    sim_fleet.tables.locked = is_locked;
    sim_on_commit = on_commit;
    sim_plan.on_kill = on_kill;
}

/* --- the end --------------------------------------------------------------------------------- */
/* What came of hostile messages is nobody's guarantee: it may wait for a model that nobody has. */
static bool is_guaranteed(const struct sim_row *row)
{
    for (uint32_t i = 0; i < SIM_CLIENT_COUNT; i++)
        if (strcmp(row->job.batch, sim_clients[i].batch) == 0)
            return true;
    return false;
}

static bool is_over(const struct sim_row *row)
{
    return !is_guaranteed(row) ||
           (row->job.state != KILN_JOB_QUEUED && row->job.state != KILN_JOB_ASSIGNED);
}

static uint32_t jobs_of(const struct sim_client *client)
{
    const struct sim_batch *batch = sim_tables_batch(&sim_fleet.tables, SIM_POOL, client->batch);
    uint32_t jobs = 0;
    for (size_t i = 0; batch && i < sim_fleet.tables.row_count; i++)
        jobs += sim_fleet.tables.rows[i] && sim_fleet.tables.rows[i]->job.batch_id == batch->id;
    return jobs;
}

bool sim_check_over(void)
{
    for (uint32_t i = 0; i < SIM_CLIENT_COUNT; i++)
        if (!sim_clients[i].ended || jobs_of(&sim_clients[i]) < sim_clients[i].sent)
            return false;
    for (size_t i = 0; i < sim_fleet.tables.row_count; i++)
        if (sim_fleet.tables.rows[i] && !is_over(sim_fleet.tables.rows[i]))
            return false;
    return true;
}

static void check_batch(const struct sim_client *client)
{
    const struct sim_batch *batch = sim_tables_batch(&sim_fleet.tables, SIM_POOL, client->batch);
    struct sim_row *const *rows = sim_fleet.tables.rows;
    for (size_t i = 0; batch && i < sim_fleet.tables.row_count; i++) {
        if (!rows[i] || rows[i]->job.batch_id != batch->id)
            continue;
        for (size_t k = 0; k < i; k++) {
            if (!rows[k] || rows[k]->job.batch_id != batch->id)
                continue;
            if (strcmp(rows[k]->key, rows[i]->key) == 0)
                sim_broken("%s has key %s twice", client->batch, rows[i]->key);
            if (rows[k]->job.index == rows[i]->job.index)
                sim_broken("%s has index %u twice: jobs %llu and %llu", client->batch,
                           rows[i]->job.index, number(k + 1), number(i + 1));
        }
    }
    if (jobs_of(client) != client->sent)
        sim_broken("%s has %u jobs of %u", client->batch, jobs_of(client), client->sent);
}

/* Whether a failed job had reasons to. */
static void check_failure(const struct sim_row *row)
{
    uint32_t max = (uint32_t)atoi(sim_plan.settings.max_attempts);
    if (row->tries < max && row->crashes < max)
        sim_broken("job %llu failed after %u tries and %u crashes of %u", number(row->job.id),
                   row->tries, row->crashes, max);
    if (sim_plan.class == SIM_CALM && !strstr(row->job.prompt, "@fail"))
        sim_broken("job %llu failed for nothing", number(row->job.id));
}

static void check_row(const struct sim_row *row)
{
    bool done = row->job.state == KILN_JOB_DONE;
    if (row->commits != (done ? 1 : 0))
        sim_broken("job %llu is %s and has %u pictures", number(row->job.id),
                   kiln_job_state_name(row->job.state), row->commits);
    for (size_t i = 0; done && i < row->object_count; i++)
        if (!sim_store_has(row->objects[i]))
            sim_broken("job %llu: %s is not in the store", number(row->job.id), row->objects[i]);
    if (row->job.state == KILN_JOB_FAILED)
        check_failure(row);
    if (row->job.state == KILN_JOB_CANCELLED && !sim_plan.settings.orders)
        sim_broken("job %llu was cancelled by nobody", number(row->job.id));
    if (sim_plan.class == SIM_CALM && done && ghosts[row->job.id].returned)
        sim_broken("job %llu took %u attempts in the calm", number(row->job.id), row->job.attempt);
}

static void say_what_is_left(void)
{
    for (uint32_t i = 0; i < SIM_CLIENT_COUNT; i++)
        if (!sim_clients[i].ended)
            sim_broken("client %u has no receipt after %u calls", i, sim_clients[i].calls);
    for (size_t i = 0; i < sim_fleet.tables.row_count; i++) {
        const struct sim_row *row = sim_fleet.tables.rows[i];
        if (!row || is_over(row))
            continue;
        char why[512];
        sim_scheduler_why(row->job.id, why, sizeof why);
        sim_broken("job %llu is still %s, attempt %u, worker %s: %s", number(row->job.id),
                   kiln_job_state_name(row->job.state), row->job.attempt, row->worker, why);
    }
}

void sim_check_end(void)
{
    say_what_is_left();
    for (uint32_t i = 0; i < SIM_CLIENT_COUNT; i++)
        check_batch(&sim_clients[i]);
    for (size_t i = 0; i < sim_fleet.tables.row_count; i++)
        if (sim_fleet.tables.rows[i])
            check_row(sim_fleet.tables.rows[i]);
}
