/* loader.c - waiting jobs from the ledger into the policy.
 *
 * New jobs have higher ids than all before: a cursor follows them.  Returned jobs are read one by
 * one when the leader learns of them.  A sweep reads everything that waits again, a page a step,
 * finds what was missed and drops what does not wait any more.  It runs now and then, or when
 * somebody asks for it (retry, cancel), so no lost message can hide a job for long.
 *
 * Paused jobs wait in the ledger like any other, but the policy does not know of them: nothing has
 * to step over them, and they take no memory.  A new pause removes what waits at once; a sweep
 * finds what was resumed.  What is in flight is rendered.
 */
#include <string.h>

#include "scheduler/leader.h"
#include "schemas/clock.h"
#include "schemas/telemetry/log.h"

#define PAGE 2000
#define LOAD_MS 150    /* of one step for new jobs: the bus is read in between */
#define PAUSES_MS 400  /* a pause whose control message is lost takes effect within a second */
#define POLL_MS 500    /* looks for new jobs without being told */
#define SWEEP_MS 60000 /* at least this long between sweeps, */
#define SWEEP_SHARE 20 /* and this many times what the last one took */

struct loading {
    struct kiln_leader *leader;
    int64_t now_ms;
    uint64_t last_id, only_id; /* only_id 0: all */
    uint32_t rows;
};

static int64_t at_most(int64_t value, int64_t bound)
{
    return value < bound ? value : bound;
}

static int take_waiting(void *arg, const struct kiln_waiting *waiting)
{
    struct loading *loading = arg;
    struct kiln_leader *leader = loading->leader;
    if (loading->only_id && waiting->id != loading->only_id)
        return 0;
    int64_t now = loading->now_ms, offset = leader->clock_offset_ms;
    int64_t pause_max =
        (int64_t)(kiln_config_number(leader->config, KILN_KEY_BACKOFF_MAX_S) * 1000);
    struct kiln_policy_job job = {
        .id = waiting->id,
        .batch_id = waiting->batch_id,
        .model = waiting->model,
        .lora_set = waiting->lora_set,
        .tenant = waiting->tenant,
        .width = waiting->width,
        .height = waiting->height,
        .steps = waiting->steps,
        .mode = waiting->mode,
        .guidance = waiting->guidance,
        .priority = waiting->priority,
        .max_wait_s = waiting->max_wait_s,
        /* Whatever the clocks say, nothing was queued in the future or backs off for longer. */
        .queued_ms = at_most(waiting->queued_ms - offset, now),
        .not_before_ms = at_most(waiting->not_before_ms - offset, now + pause_max),
        .alone = waiting->crashes > 0,
        .avoid = waiting->failed_at,
        .asks = waiting->asks,
    };
    bool paused = leader->pauses.count > 0 && kiln_pauses_find(&leader->pauses, &job);
    int rc = paused ? 0 : kiln_policy_add(leader->policy, &job, NULL);
    if (rc && rc != KILN_EXISTS)
        return rc;
    loading->last_id = waiting->id;
    loading->rows++;
    return 0;
}

int kiln_load_one(struct kiln_leader *leader, uint64_t id, struct kiln_error *err)
{
    struct loading loading = {.leader = leader, .now_ms = kiln_clock_ms(), .only_id = id};
    if (id == 0 || id > INT64_MAX) /* no row has it */
        return 0;
    int rc =
        kiln_ledger_waiting(leader->ledger, leader->pool, id - 1, 1, take_waiting, &loading, err);
    if (rc == KILN_FULL) {
        leader->sweep_due_ms = 0;
        return 0;
    }
    return rc;
}

/* One page after *cursor; *ret_more: there may be another one. */
static int load_page(struct kiln_leader *leader, int64_t now_ms, uint64_t *cursor, bool *ret_more,
                     struct kiln_error *err)
{
    struct loading loading = {.leader = leader, .now_ms = now_ms, .last_id = *cursor};
    int rc = kiln_ledger_waiting(leader->ledger, leader->pool, *cursor, PAGE, take_waiting,
                                 &loading, err);
    *cursor = loading.last_id;
    *ret_more = rc == 0 && loading.rows == PAGE;
    if (rc == KILN_FULL && !leader->queue_full)
        kiln_log(KILN_LOG_WARNING, "queue_full",
                 kiln_f("effect", "%s", "later jobs wait in the ledger until others are rendered"));
    leader->queue_full = rc == KILN_FULL;
    return rc == KILN_FULL ? 0 : rc;
}

static int load_new(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err)
{
    bool more = true;
    int rc = 0;
    do
        rc = load_page(leader, now_ms, &leader->loaded_id, &more, err);
    while (more && rc == 0 && kiln_clock_ms() - now_ms < LOAD_MS);
    leader->load_due_ms = more ? now_ms : now_ms + POLL_MS;
    leader->busy = leader->busy || more;
    if (rc == 0 && !more && !leader->loaded) {
        struct kiln_policy_counts counts;
        kiln_policy_counts(leader->policy, &counts);
        leader->loaded = true;
        if (leader->sweep_due_ms == INT64_MAX) /* this load was the first sweep */
            leader->sweep_due_ms = now_ms + SWEEP_MS;
        kiln_log(KILN_LOG_INFO, "queue_loaded", kiln_f("jobs", "%u", counts.waiting),
                 kiln_f("groups", "%u", counts.groups),
                 kiln_f("backlog_s", "%.1f", counts.backlog_s),
                 kiln_f("took_s", "%.2f", (double)(kiln_clock_ms() - leader->began_ms) / 1000));
    }
    return rc;
}

static int sweep(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err)
{
    if (!leader->sweeping) {
        leader->sweeping = true;
        leader->sweep_id = 0;
        leader->sweep_began_ms = now_ms;
        leader->sweep_due_ms = INT64_MAX; /* a message during the sweep asks for one more */
        kiln_policy_sweep_begin(leader->policy);
    }
    bool more = false;
    int rc = load_page(leader, now_ms, &leader->sweep_id, &more, err);
    if (rc || more)
        return rc;
    leader->sweeping = false;
    int64_t took = kiln_clock_ms() - leader->sweep_began_ms;
    int64_t pause = took * SWEEP_SHARE > SWEEP_MS ? took * SWEEP_SHARE : SWEEP_MS;
    if (leader->sweep_due_ms == INT64_MAX)
        leader->sweep_due_ms = now_ms + pause;
    if (leader->queue_full)
        return 0; /* it did not see everything: nothing may be dropped */
    uint32_t dropped = kiln_policy_sweep_end(leader->policy);
    if (dropped > 0)
        kiln_log(KILN_LOG_INFO, "queue_swept", kiln_f("dropped", "%u", dropped));
    return 0;
}

int kiln_load(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err)
{
    int rc = 0;
    if (atomic_exchange(&leader->revived, false))
        leader->sweep_due_ms = 0;
    if (atomic_exchange(&leader->inserted, false) || now_ms >= leader->load_due_ms)
        rc = load_new(leader, now_ms, err);
    if (rc == 0 && (leader->sweeping || now_ms >= leader->sweep_due_ms))
        rc = sweep(leader, now_ms, err);
    return rc;
}

/* --- pauses ---------------------------------------------------------------------------------- */
static bool is_paused(const void *arg, const struct kiln_policy_job *job)
{
    return kiln_pauses_find(arg, job) != NULL;
}

int kiln_load_pauses(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err)
{
    struct kiln_pauses pauses = {0};
    if (now_ms < leader->pauses_due_ms)
        return 0;
    leader->pauses_due_ms = now_ms + PAUSES_MS;
    int rc =
        kiln_ledger_pauses(leader->ledger, leader->pool, false, kiln_pauses_keep, &pauses, err);
    if (rc || kiln_pauses_equal(&pauses, &leader->pauses)) {
        kiln_pauses_release(&pauses);
        return rc;
    }
    bool resumed = !kiln_pauses_within(&leader->pauses, &pauses);
    kiln_pauses_release(&leader->pauses);
    leader->pauses = pauses;
    uint32_t removed = kiln_policy_remove_where(leader->policy, is_paused, &leader->pauses);
    if (resumed)
        leader->sweep_due_ms = 0;
    kiln_log(KILN_LOG_INFO, "holds_changed", kiln_f("holds", "%zu", pauses.count),
             kiln_f("jobs_held_back", "%u", removed), kiln_f("let_go", "%d", (int)resumed));
    return 0;
}
