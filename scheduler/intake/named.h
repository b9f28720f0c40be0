/* named.h - other jobs that a job names: the one whose latent it starts from (init_job), and its
 * parent.
 *
 * They are looked up when the job comes in, with one look at the ledger for a page: a person learns
 * at once what a worker would have to fail later.  What vanishes afterwards fails the job there.
 */
#ifndef KILN_INTAKE_NAMED_H
#define KILN_INTAKE_NAMED_H

#include "storage/ledger/ledger.h"

/* Whether the job names another one, which has to be looked up. */
bool kiln_job_names_another(const struct kiln_job *job);

/* Told of each job, in their order, why it cannot be taken in; "": it can.  An error ends it. */
typedef int kiln_named_told(void *arg, size_t at, const char *reason, struct kiln_error *err);
/* Fails if the ledger cannot be asked, or as told does. */
int kiln_named_check(struct kiln_ledger *ledger, const char *pool, const struct kiln_new_job *jobs,
                     size_t count, kiln_named_told *told, void *arg,
                     struct kiln_error *err) KILN_MUST_CHECK;

#endif
