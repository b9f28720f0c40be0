/* gc_remove.c - removes objects, a group at a time, each only while nobody can claim it.
 *
 * The jobs of a group are locked while its objects go (storage/ledger_garbage.h).  A slow store
 * must not keep them locked for long: when the group's time is up the rest begins anew, with a new
 * look at the ledger.
 */
#include "scheduler/cli/gc.h"

#define HOLD_S 10.0
#define FAILURES_MAX 8 /* in a row: the store is not to be used now */

/* Reasons that the next object will meet too. */
static bool is_hopeless(int code)
{
    return code == KILN_UNAVAILABLE || code == KILN_TIMEOUT || code == KILN_CONFIG;
}

static int note_failure(struct kiln_gc *gc, const struct kiln_error *failure,
                        struct kiln_error *err)
{
    gc->failed++;
    if (!gc->failure.code)
        gc->failure = *failure;
    if (++gc->failures_in_row < FAILURES_MAX && !is_hopeless(failure->code))
        return 0;
    return kiln_fail(err, failure->code, "%s", failure->text);
}

static int remove_one(void *arg, size_t i, struct kiln_error *err)
{
    struct kiln_gc_group *group = arg;
    struct kiln_gc *gc = group->gc;
    struct kiln_error failure = {0};
    double now_s = kiln_now_s();
    size_t at = group->base + i;
    if (i > 0 && now_s - group->held_s > HOLD_S) {
        group->next = at;
        return kiln_fail(err, KILN_CANCELLED, "the group's time is up");
    }
    int rc = kiln_store_delete(gc->store, group->keys[at], &failure);
    group->next = at + 1;
    group->decided++;
    kiln_bar_draw(&gc->bar, group->total, gc->removed + (rc == 0), gc->failed, now_s);
    if (rc)
        return note_failure(gc, &failure, err);
    gc->failures_in_row = 0;
    gc->removed++;
    gc->removed_bytes += group->bytes[at];
    return 0;
}

int kiln_gc_remove(struct kiln_gc_group *group, struct kiln_error *err)
{
    int rc = KILN_CANCELLED;
    group->next = group->decided = 0;
    while (rc == KILN_CANCELLED && group->next < group->count) {
        group->base = group->next;
        group->held_s = kiln_now_s();
        rc = kiln_ledger_each_unclaimed(group->gc->ledger, group->found + group->base,
                                        group->count - group->base, remove_one, group, err);
    }
    if (rc == 0)
        group->gc->spared += group->count - group->decided;
    group->count = 0;
    return rc == KILN_CANCELLED ? 0 : rc;
}

int kiln_gc_add(void *arg, uint64_t job, uint64_t bytes, const char *key, struct kiln_error *err)
{
    struct kiln_gc_group *group = arg;
    size_t i = group->count++;
    snprintf(group->keys[i], sizeof group->keys[i], "%s", key);
    group->found[i] = (struct kiln_found){group->keys[i], job};
    group->bytes[i] = bytes;
    return group->count == KILN_GC_GROUP ? kiln_gc_remove(group, err) : 0;
}
