/* removal.h - removes objects whose rows are gone, a group at a time while their jobs are locked.
 *
 * The ledger is asked again for each object (storage/ledger/upkeep/garbage.h), so one that a row
 * references by now, or that a job may still commit, stays.  What is left after an interruption is
 * an orphan, which `kiln gc` finds.
 */
#ifndef KILN_CLI_REMOVAL_H
#define KILN_CLI_REMOVAL_H

#include "scheduler/cli/core/output/progress.h"
#include "schemas/limits.h"
#include "storage/ledger/upkeep/garbage.h"
#include "storage/objects/store.h"

#define KILN_REMOVAL_GROUP KILN_DELETIONS_MAX /* objects whose jobs are locked at a time */
_Static_assert(KILN_REMOVAL_GROUP <= KILN_UNCLAIMED_MAX, "a group is one question to the ledger");

/* Zero-initialise; large: keep it on the heap. */
struct kiln_removal {
    struct kiln_ledger *ledger; /* lent */
    struct kiln_store *store;   /* lent */
    struct kiln_bar *bar;       /* lent; NULL: none */
    uint64_t total;             /* for the bar; 0: not known */
    uint64_t removed, removed_bytes;
    uint64_t spared;           /* needed again */
    uint64_t failed;           /* refused by the store */
    struct kiln_error failure; /* the first refusal */
    /* the group */
    size_t count, decided;
    struct kiln_deletion deletions[KILN_REMOVAL_GROUP];
    struct kiln_found found[KILN_REMOVAL_GROUP];
    uint64_t bytes[KILN_REMOVAL_GROUP];
    char keys[KILN_REMOVAL_GROUP][KILN_OBJECT_KEY_MAX + 1];
};

/* Adds an object to the group, and removes the group when it is full.  The result is an error only
 * if the next group would fail too. */
int kiln_removal_add(struct kiln_removal *removal, uint64_t job, uint64_t bytes, const char *key,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* Removes the group. */
int kiln_removal_flush(struct kiln_removal *removal, struct kiln_error *err) KILN_MUST_CHECK;

#endif
