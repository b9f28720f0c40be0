/* batch_wait.h - waiting for a batch of jobs: `kiln wait`, `kiln run`, `kiln watch BATCH`. */
#ifndef KILN_CLI_BATCH_WAIT_H
#define KILN_CLI_BATCH_WAIT_H

#include "scheduler/cli/core/output/progress.h"

/* Called every few seconds of a wait; an error ends the wait. */
typedef int kiln_wait_tend(void *arg, struct kiln_error *err);

/* Waits until the batch is whole and finished, at most timeout_s (negative: without a limit), with
 * a progress bar.  An unknown batch gets a short grace period.  tend may be NULL.  *ret_progress is
 * the last state seen.  0 finished, KILN_TIMEOUT, KILN_NOT_FOUND, KILN_CANCELLED after Ctrl-C, or
 * an error of the ledger. */
int kiln_wait_batch(struct kiln_cli *cli, const char *batch, double timeout_s, kiln_wait_tend *tend,
                    void *arg, struct kiln_progress *ret_progress,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* Waits until the ledger knows a batch that may still be in the intake stream, and until a batch
 * that looks finished has everything that was sent to it (5 s at most).  KILN_NOT_FOUND, with the
 * nearest names, if nothing in the stream can bring it, or after a minute. */
int kiln_wait_taken_in(struct kiln_cli *cli, const char *batch,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* The exit status of a batch that has ended: 0 all done, 1 some failed, cancelled or refused.  Jobs
 * that are gone do not count. */
int kiln_batch_status(const struct kiln_progress *progress);

#endif
