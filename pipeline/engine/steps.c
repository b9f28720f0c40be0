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
        done += r->items[i].ended ? r->steps : r->items[i].steps_done;
    if (done / b->item_count > r->progress)
        r->progress = done / b->item_count; /* else steps are repeated after a split */
    if (b->progress)
        __atomic_store_n(b->progress, r->progress, __ATOMIC_RELEASE);
}

void kiln_steps_take(struct kiln_run *r)
{
    const struct kiln_group *group = &r->queued[0].group;
    struct kt_fetch *fetch = r->queued[0].bad, *change = r->queued[0].change;
    const int step = r->queued[0].step;
    struct kiln_error err;
    size_t bytes;
    const int code = kt_fetch_wait(fetch, &err);
    const int32_t *bad = code ? NULL : kt_fetch_data(fetch, &bytes);
    if (code)
        kiln_group_end(group, &err);
    for (int i = 0; i < group->count; i++) {
        if (bad && bad[i]) {
            kiln_fail(&err, KILN_NOT_FINITE, "non-finite latent at step %d of %d%s", step + 1,
                      r->steps, r->loras);
            kiln_item_end(group->items[i], &err);
        }
        group->items[i]->steps_done = step + 1;
        group->items[i]->steps_seen++;
    }
    kt_fetch_free(fetch);
    if (change && kt_fetch_wait(change, &err))
        kiln_group_end(group, &err);
    else if (change)
        kiln_change_take(group, kt_fetch_data(change, &bytes));
    kt_fetch_free(change);
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
