/* costs.c - what was learned about seconds: from finished assignments, from and to the ledger. */
#include <math.h>
#include <string.h>

#include "scheduler/leader.h"
#include "schemas/telemetry/log.h"
#include "storage/ledger/queue/cost.h"

#define KEEP_MS 5000 /* between writes, */
#define KEEP_ROWS 64 /* of so many rows: the ledger hardly notices */

static_assert(KEEP_ROWS <= KILN_COST_WRITE_MAX, "a page fits one write");

/* --- the ledger ------------------------------------------------------------------------------ */
static int restore(void *arg, const struct kiln_cost_row *row, struct kiln_error *err)
{
    struct kiln_leader *leader = arg;
    (void)err;
    if (!kiln_cost_restore(leader->costs, row))
        kiln_log(KILN_LOG_WARNING, "cost_unreadable", kiln_f("kind", "%d", (int)row->kind));
    return 0;
}

int kiln_costs_load(struct kiln_leader *leader, struct kiln_error *err)
{
    int rc = kiln_ledger_costs(leader->ledger, leader->pool, restore, leader, err);
    leader->costs_kept = kiln_cost_turn(leader->costs);
    return rc;
}

int kiln_costs_keep(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err)
{
    struct kiln_cost_row rows[KEEP_ROWS];
    uint64_t turn = leader->costs_kept;
    size_t count = 0;
    if (now_ms < leader->costs_due_ms)
        return 0;
    leader->costs_due_ms = now_ms + KEEP_MS;
    while (count < KEEP_ROWS && kiln_cost_changed(leader->costs, &turn, &rows[count]))
        count++;
    int rc = kiln_ledger_keep_costs(leader->ledger, leader->pool, rows, count, err);
    if (rc && kiln_ledger_refused(leader->ledger, rc)) { /* the next page may do better */
        kiln_log_limited(&leader->limits[KILN_LIMIT_EVENT], "costs_unkept", leader->pool,
                         err->text);
        rc = 0;
    }
    if (rc == 0)
        leader->costs_kept = turn;
    return rc;
}

/* --- learning -------------------------------------------------------------------------------- */
void kiln_costs_learn(struct kiln_leader *leader, const struct kiln_member *member,
                      const struct kiln_assigned *assigned, const struct kiln_event *event)
{
    if (event->fetch_ms > 0)
        kiln_cost_learn_fetch(leader->costs, event->fetch_ms / 1000);
    if (assigned->width == 0) /* from before this leadership, or with donors (dispatch.c) */
        return;
    struct kiln_cost_shape shape = {.model = assigned->model,
                                    .width = assigned->width,
                                    .height = assigned->height,
                                    .steps = assigned->steps,
                                    .guidance = assigned->guidance,
                                    .jobs = assigned->count,
                                    .device = member->device_class,
                                    .mode = assigned->mode,
                                    .lora_set = assigned->lora_set};
    const struct kiln_cost_load load = {.model = assigned->model,
                                        .lora_set = assigned->lora_set,
                                        .device = member->device_class,
                                        .kind = assigned->load};
    double seconds = event->compute_ms / 1000, usual_s = 0;
    bool known = kiln_cost_measured(leader->costs, &shape, &usual_s) > 0;
    /* The first batch of a size says what capturing costs, not what a batch does. */
    if (assigned->first_of_size && known)
        kiln_cost_learn_capture(leader->costs, &shape, fmax(0, seconds - usual_s));
    else if (seconds > 0)
        kiln_cost_learn_compute(leader->costs, &shape, seconds);
    if (event->switch_ms > 0)
        kiln_cost_learn_load(leader->costs, &load, event->switch_ms / 1000);
}
