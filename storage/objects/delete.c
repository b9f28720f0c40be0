/* delete.c - removing many objects: what all stores share.
 *
 * A store that does not answer, or that lets nothing be removed, would be asked a thousand times in
 * vain, with all the patience that one request is worth.  After a few failures in a row the rest is
 * given up with the same reason.
 */
#include "storage/objects/backend.h"

#define FAILURES_MAX 8

/* Reasons that the next object will meet too. */
static bool is_hopeless(int code)
{
    return code == KILN_UNAVAILABLE || code == KILN_TIMEOUT || code == KILN_CONFIG;
}

static void remove_each(struct kiln_store *store, struct kiln_deletion *deletions, size_t count)
{
    struct kiln_error err = {0};
    int failures = 0;
    bool given_up = false;
    for (size_t i = 0; i < count; i++) {
        if (deletions[i].code)
            continue;
        int rc = given_up ? err.code : store->ops->remove(store, deletions[i].key, &err);
        failures = rc ? failures + 1 : 0;
        given_up = given_up || failures == FAILURES_MAX || is_hopeless(rc);
        if (rc)
            kiln_deletion_fail(&deletions[i], &err);
    }
}

int kiln_store_delete_many(struct kiln_store *store, struct kiln_deletion *deletions, size_t count,
                           struct kiln_error *err)
{
    struct kiln_error bad = {0};
    for (size_t i = 0; i < count; i++) {
        deletions[i].code = KILN_OK;
        deletions[i].error[0] = '\0';
        if (kiln_store_check_key(deletions[i].key, &bad))
            kiln_deletion_fail(&deletions[i], &bad);
    }
    if (store->ops->remove_many)
        store->ops->remove_many(store, deletions, count);
    else
        remove_each(store, deletions, count);
    for (size_t i = 0; i < count; i++)
        if (deletions[i].code)
            return kiln_fail(err, deletions[i].code, "%s", deletions[i].error);
    return KILN_OK;
}
