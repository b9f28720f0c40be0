/* on_done.h - `--on-done CMD`: a command that `wait` or `run` executes after the batch has ended.
 *
 * It runs here, as the person who waits; the scheduler runs no commands.  (`--on-done URL` is the
 * scheduler's: storage/webhook/webhook.h.)
 */
#ifndef KILN_CLI_ON_DONE_H
#define KILN_CLI_ON_DONE_H

#include "scheduler/cli/core/cli.h"
#include "storage/ledger/read/read.h"

/* Runs it by /bin/sh -c with KILN_BATCH, KILN_DONE, KILN_FAILED and KILN_CANCELLED in its
 * environment, without jobs that are gone, and waits for its end.  Its stdout is our stderr: ours
 * is for results.  Returns its exit status, 128 and the signal that ended it, or that of a failure
 * to start it; `status`, the batch's, if it succeeds or command is NULL. */
int kiln_on_done_run(const struct kiln_cli *cli, const char *command, const char *batch,
                     const struct kiln_progress *progress, int status);

#endif
