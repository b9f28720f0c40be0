/* entry.h - a job as it goes into the intake stream: its line and its key.
 *
 * With the key an enqueue call can be repeated: the same batch name and key are the same job.
 *     c:<custom_id>#<copy>        the line has a custom_id; copy counts the jobs of that line
 *     h:<16 hex digits>#<nth>     the SHA-256 of the job line without a derived seed; nth counts
 *                                 equal lines of the file
 * So lines may be inserted and moved between two calls, and only new ones are added.
 */
#ifndef KILN_ENQUEUE_ENTRY_H
#define KILN_ENQUEUE_ENTRY_H

#include "scheduler/cli/jobs/enqueue/digest_map.h"
#include "schemas/error.h"
#include "schemas/job.h"
#include "schemas/text.h"
#include "schemas/wire.h"

struct kiln_entry {
    struct kiln_text line; /* with its seed */
    char key[KILN_INTAKE_KEY_MAX + 1];
    char index[12];
    struct kiln_digest_map lines; /* how often each line occurred */
};

/* Fills line, key and index; sets the job's seed from its batch and index unless has_seed.
 * copy: which job of its input line it is. */
int kiln_entry_make(struct kiln_entry *entry, struct kiln_job *job, bool has_seed, uint64_t copy,
                    struct kiln_error *err) KILN_MUST_CHECK;
void kiln_entry_release(struct kiln_entry *entry);

#endif
