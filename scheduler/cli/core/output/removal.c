/* removal.c - see removal.h. */
#include "scheduler/cli/core/output/removal.h"

#include <stdio.h>

#include "schemas/clock.h"

/* Counts the results of the objects at[0..n); the code to stop with, 0 to continue. */
static int account(struct kiln_removal *removal, const size_t *at, size_t n)
{
    size_t failed = 0;
    int stop = 0;
    for (size_t i = 0; i < n; i++) {
        int code = removal->deletions[i].code;
        removal->removed += code == 0;
        removal->removed_bytes += code == 0 ? removal->bytes[at[i]] : 0;
        failed += code != 0;
        if (kiln_store_fails_all(code))
            stop = code; /* the next group would fail too */
    }
    removal->failed += failed;
    removal->decided = n;
    if (removal->bar)
        kiln_bar_draw(removal->bar, removal->total, removal->removed, removal->failed, 0,
                      kiln_now_s());
    return failed == n ? removal->deletions[0].code : stop;
}

static int remove_unclaimed(void *arg, const size_t *at, size_t n, struct kiln_error *err)
{
    struct kiln_removal *removal = arg;
    struct kiln_error refusal;
    for (size_t i = 0; i < n; i++)
        removal->deletions[i] = (struct kiln_deletion){.key = removal->keys[at[i]]};
    int rc = kiln_store_delete_many(removal->store, removal->deletions, n, &refusal);
    int stop = account(removal, at, n);
    if (rc && !removal->failure.code)
        removal->failure = refusal;
    return stop ? kiln_fail(err, stop, "%s", refusal.text) : 0;
}

int kiln_removal_flush(struct kiln_removal *removal, struct kiln_error *err)
{
    int rc = 0;
    removal->decided = 0;
    if (removal->count)
        rc = kiln_ledger_with_unclaimed(removal->ledger, removal->found, removal->count,
                                        remove_unclaimed, removal, err);
    if (rc == 0)
        removal->spared += removal->count - removal->decided;
    removal->count = 0;
    return rc;
}

int kiln_removal_add(struct kiln_removal *removal, uint64_t job, uint64_t bytes, const char *key,
                     struct kiln_error *err)
{
    size_t i = removal->count++;
    snprintf(removal->keys[i], sizeof removal->keys[i], "%s", key);
    removal->found[i] = (struct kiln_found){removal->keys[i], job};
    removal->bytes[i] = bytes;
    return removal->count == KILN_REMOVAL_GROUP ? kiln_removal_flush(removal, err) : 0;
}
