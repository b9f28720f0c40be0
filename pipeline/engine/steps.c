/* steps.c - the steps that were queued on the device: how each has ended, the progress that is
 * shown, and the time of each stage.
 */
#include "pipeline/engine/parts.h"
#include "schemas/clock.h"

void kiln_run_lap(struct kiln_run *r, double *stage)
{
    double now = kiln_monotonic_ms();
    *stage += now - r->since_ms;
    r->since_ms = now;
}

/* All items' steps together, as steps of the batch; what has ended early has done its own. */
static void show_progress(struct kiln_run *r)
{
    const DiffusionZBatch *b = r->batch;
    int done = 0;
    for (int i = 0; i < b->item_count; i++)
        done += r->items[i].ended ? b->num_steps : r->items[i].steps_done;
    if (done / b->item_count > r->progress)
        r->progress = done / b->item_count; /* steps may come again, where a group is split */
    if (b->progress)
        __atomic_store_n(b->progress, r->progress, __ATOMIC_RELEASE);
}

/* Notes how a step has ended for an item; mark: whether its latent is not finite any more. */
static void take_item_step(const struct kiln_run *r, struct kiln_item *item, int step, bool mark)
{
    struct kiln_error err;
    if (mark) {
        kiln_fail(&err, KILN_NOT_FINITE, "non-finite latent at step %d of %d%s", step + 1,
                  r->batch->num_steps, r->loras);
        kiln_item_end(item, &err);
    }
    item->steps_done = step + 1;
}

void kiln_steps_take(struct kiln_run *r)
{
    const struct kiln_group *group = &r->ahead[0].group;
    struct kt_fetch *bad = r->ahead[0].bad;
    struct kiln_error err;
    size_t bytes;
    const int code = kt_fetch_wait(bad, &err);
    const int32_t *marks = code ? NULL : kt_fetch_data(bad, &bytes);
    if (code)
        kiln_group_end(group, &err);
    for (int i = 0; i < group->count; i++)
        take_item_step(r, group->items[i], r->ahead[0].step, marks && marks[i]);
    kt_fetch_free(bad);
    r->ahead_count--;
    for (int i = 0; i < r->ahead_count; i++)
        r->ahead[i] = r->ahead[i + 1];
    show_progress(r);
}

bool kiln_steps_under_way(const struct kiln_run *r)
{
    return r->ahead_count > 0 && !kt_fetch_arrived(r->ahead[r->ahead_count - 1].bad);
}

void kiln_steps_drain(struct kiln_run *r)
{
    while (r->ahead_count > 0)
        kiln_steps_take(r);
    show_progress(r);
}
