/* batch.h - batches for operators: list, rename, remove.
 *
 * A batch has ended when it is whole (read.h) and none of its jobs waits or runs.
 */
#ifndef KILN_LEDGER_BATCH_H
#define KILN_LEDGER_BATCH_H

#include "storage/ledger/read/read.h"

struct kiln_batch_row {
    uint64_t id;
    char name[KILN_BATCH_NAME_MAX + 1];
    const char *tenants; /* of its jobs, "a,b"; "" while it has none.  Lent, as the row */
    struct kiln_counts jobs;
    uint64_t removed; /* of the cancelled: gc has taken their rows */
    bool whole;
    int64_t created_ms;
    int64_t first_ms, last_ms; /* the first and the last move of a job of it; 0: none yet */
};
typedef int kiln_each_batch(void *arg, const struct kiln_batch_row *batch, struct kiln_error *err);

bool kiln_batch_ended(const struct kiln_batch_row *batch);
/* Pictures done an hour between its first move and its last, or now_ms while it goes on; 0 before
 * anything is done. */
double kiln_batch_rate(const struct kiln_batch_row *batch, int64_t now_ms);

/* Every batch of the pool, the newest first, or only the one of that name (NULL: all;
 * KILN_NOT_FOUND if there is none).  Reads sums, not jobs. */
int kiln_ledger_batches(struct kiln_ledger *ledger, const char *pool, const char *batch,
                        kiln_each_batch *each, void *arg, struct kiln_error *err) KILN_MUST_CHECK;

/* KILN_NOT_FOUND: there is no such batch; KILN_EXISTS: the new name is taken; KILN_BAD_INPUT: it is
 * not a name.  Jobs that are still to come under the old name make a new batch of that name. */
int kiln_ledger_rename_batch(struct kiln_ledger *ledger, const char *pool, const char *batch,
                             const char *name, struct kiln_error *err) KILN_MUST_CHECK;

struct kiln_removed {
    uint64_t jobs, objects, bytes; /* objects: that became orphans */
};
/* Removes the rows of the batch, a page of jobs at a time; its cost stays in the usage of the
 * tenants. KILN_STALE if some of its jobs are queued or assigned: only the others and not the batch
 * were removed.  *ret: what was removed, also after an error.  May be repeated after any error. */
int kiln_ledger_remove_batch(struct kiln_ledger *ledger, const char *pool, const char *batch,
                             struct kiln_removed *ret, struct kiln_error *err) KILN_MUST_CHECK;

#endif
