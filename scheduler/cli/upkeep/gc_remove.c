/* gc_remove.c - removes objects, a group at a time, each only while nobody can claim it.
 *
 * The jobs of a group are locked while its objects go (storage/ledger/upkeep/garbage.h).  A group
 * is what one request to S3 takes, so they are not locked for long; a store that answers nothing,
 * or refuses one object after another, ends the whole run.
 */
#include "scheduler/cli/upkeep/gc.h"

/* Reasons that the next group will meet too. */
static bool is_hopeless(int code)
{
    return kiln_code_retry(code) == KILN_RETRY_LATER || code == KILN_CONFIG;
}

/* Counts what has become of the objects at[0..n); the code to stop with, 0 to go on. */
static int account(struct kiln_gc_group *group, const size_t *at, size_t n)
{
    struct kiln_gc *gc = group->gc;
    size_t failed = 0;
    int stop = 0;
    for (size_t i = 0; i < n; i++) {
        int code = group->deletions[i].code;
        gc->removed += code == 0;
        gc->removed_bytes += code == 0 ? group->bytes[at[i]] : 0;
        failed += code != 0;
        stop = is_hopeless(code) ? code : stop;
    }
    gc->failed += failed;
    group->decided = n;
    kiln_bar_draw(&gc->bar, group->total, gc->removed, gc->failed, 0, kiln_now_s());
    return failed == n ? group->deletions[0].code : stop;
}

static int remove_unclaimed(void *arg, const size_t *at, size_t n, struct kiln_error *err)
{
    struct kiln_gc_group *group = arg;
    struct kiln_error refusal;
    for (size_t i = 0; i < n; i++)
        group->deletions[i] = (struct kiln_deletion){.key = group->keys[at[i]]};
    int rc = kiln_store_delete_many(group->gc->store, group->deletions, n, &refusal);
    int stop = account(group, at, n);
    if (rc && !group->gc->failure.code)
        group->gc->failure = refusal;
    return stop ? kiln_fail(err, stop, "%s", refusal.text) : 0;
}

int kiln_gc_remove(struct kiln_gc_group *group, struct kiln_error *err)
{
    int rc = 0;
    group->decided = 0;
    if (group->count)
        rc = kiln_ledger_with_unclaimed(group->gc->ledger, group->found, group->count,
                                        remove_unclaimed, group, err);
    if (rc == 0)
        group->gc->spared += group->count - group->decided;
    group->count = 0;
    return rc;
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
