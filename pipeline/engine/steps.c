/* steps.c - waits for queued steps, reports progress, and times the stages of a batch. */
#include "pipeline/engine/parts.h"
#include "schemas/clock.h"

void kiln_run_lap(struct kiln_run *r, double *stage)
{
    double now = kiln_monotonic_ms();
    *stage += now - r->since_ms;
    r->since_ms = now;
}

/* The steps of all items as steps of the batch; an item that ended early counts all of its own. */
static void show_progress(struct kiln_run *r)
{
    const DiffusionZBatch *b = r->batch;
    int done = 0;
    for (int i = 0; i < b->item_count; i++)
        done += r->items[i].ended ? b->num_steps : r->items[i].steps_done;
    if (done / b->item_count > r->progress)
        r->progress = done / b->item_count; /* else steps are repeated after a split */
    if (b->progress)
        __atomic_store_n(b->progress, r->progress, __ATOMIC_RELEASE);
}

/* Notes that a step of the item has ended; bad: its latent is not finite. */
static void take_item_step(const struct kiln_run *r, struct kiln_item *item, int step, bool bad)
{
    struct kiln_error err;
    if (bad) {
        kiln_fail(&err, KILN_NOT_FINITE, "non-finite latent at step %d of %d%s", step + 1,
                  r->batch->num_steps, r->loras);
        kiln_item_end(item, &err);
    }
    item->steps_done = step + 1;
}

void kiln_steps_take(struct kiln_run *r)
{
    const struct kiln_group *group = &r->queued[0].group;
    struct kt_fetch *bad = r->queued[0].bad;
    struct kiln_error err;
    size_t bytes;
    const int code = kt_fetch_wait(bad, &err);
    const int32_t *marks = code ? NULL : kt_fetch_data(bad, &bytes);
    if (code)
        kiln_group_end(group, &err);
    for (int i = 0; i < group->count; i++)
        take_item_step(r, group->items[i], r->queued[0].step, marks && marks[i]);
    kt_fetch_free(bad);
    r->queued_count--;
    for (int i = 0; i < r->queued_count; i++)
        r->queued[i] = r->queued[i + 1];
    show_progress(r);
}

bool kiln_steps_under_way(const struct kiln_run *r)
{
    return r->queued_count > 0 && !kt_fetch_arrived(r->queued[r->queued_count - 1].bad);
}

void kiln_steps_drain(struct kiln_run *r)
{
    while (r->queued_count > 0)
        kiln_steps_take(r);
    show_progress(r);
}
