/* source.h - the files that jobs of a batch came from, so that an edited file can be sent again.
 *
 * A job belongs to the first file that brought it (job.source, a name without its directory).  When
 * that file is sent again without the job's line, its sender marks the job as gone: nothing is
 * removed, and exports leave it out.  A job that is sent again is not gone any more.
 */
#ifndef KILN_LEDGER_SOURCE_H
#define KILN_LEDGER_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

struct kiln_counts;
struct kiln_ledger;
struct kiln_new_job;

/* Marks the jobs of these keys; unknown keys are skipped.  A batch that does not exist is no error.
 */
int kiln_ledger_gone(struct kiln_ledger *ledger, const char *pool, const char *batch,
                     const char *const *keys, size_t count, struct kiln_error *err) KILN_MUST_CHECK;
/* The jobs of the batch that are gone, by state.  KILN_NOT_FOUND: no such batch. */
int kiln_ledger_gone_counts(struct kiln_ledger *ledger, const char *pool, const char *batch,
                            struct kiln_counts *ret, struct kiln_error *err) KILN_MUST_CHECK;
/* jobs[i], of the batch row ids[i], were sent again: they are not gone, and those that came from no
 * file belong to the one that they name now. */
int kiln_ledger_sent_again(struct kiln_ledger *ledger, const struct kiln_new_job *jobs,
                           size_t count, const uint64_t *ids,
                           struct kiln_error *err) KILN_MUST_CHECK;

enum kiln_batch_keys {
    KILN_KEYS_ALL,
    KILN_KEYS_OF_SOURCE,   /* and not gone */
    KILN_KEYS_OF_CUSTOM_ID /* "c:ID#N": those that an earlier release made of a custom_id */
};
/* own: of the source, and not gone.  The key is lent. */
typedef int kiln_each_key(void *arg, const char *key, bool own, struct kiln_error *err);
/* The keys of the batch; none if it does not exist. */
int kiln_ledger_keys(struct kiln_ledger *ledger, const char *pool, const char *batch,
                     enum kiln_batch_keys which, const char *source, kiln_each_key *each, void *arg,
                     struct kiln_error *err) KILN_MUST_CHECK;

#endif
