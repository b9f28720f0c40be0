/* expand.h - one line of a job file, all the jobs it stands for.
 *
 *     {"prompt": "a {red|blue} car", "seed": "100-104", "size": ["1:1", "16:9"]}     is 20 jobs:
 *
 * styles x sizes x prompt choices x seeds, seeds changing fastest.  `count` N without a seed is N
 * jobs whose seeds are derived later (kiln_seed_derive); with a seed they are seed, seed + 1, ...
 * Jobs are made one at a time from their number: a million of them need no more memory than one.
 * The number of jobs of one line is at most KILN_EXPAND_MAX.
 */
#ifndef KILN_EXPAND_H
#define KILN_EXPAND_H

#include <stdint.h>

#include "schemas/job/line.h"

struct kiln_expand;

struct kiln_expand *kiln_expand_new(void);         /* NULL: no memory */
void kiln_expand_free(struct kiln_expand *expand); /* accepts NULL */

/* Begins a line, dropping the one before.  text and context stay borrowed until the next begin.  A
 * line that makes several jobs is checked whole: if begin takes it, all its jobs are good. */
int kiln_expand_begin(struct kiln_expand *expand, const char *text, size_t len,
                      const struct kiln_job_context *context,
                      struct kiln_error *err) KILN_MUST_CHECK;

/* Jobs of the line that was begun. */
uint64_t kiln_expand_count(const struct kiln_expand *expand);
/* Whether the line names its seeds; otherwise each job's seed is kiln_seed_derive's. */
bool kiln_expand_has_seed(const struct kiln_expand *expand);

/* Makes job number 0 <= which < count; *ret_job is new (kiln_job_release). */
int kiln_expand_job(const struct kiln_expand *expand, uint64_t which, struct kiln_job *ret_job,
                    struct kiln_error *err) KILN_MUST_CHECK;

#endif
