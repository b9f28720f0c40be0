/* control.h - control messages to the scheduler, and queries that only the leader can answer. */
#ifndef KILN_CLI_CONTROL_H
#define KILN_CLI_CONTROL_H

#include "scheduler/cli/core/cli.h"
#include "schemas/wire/wire.h"
#include "storage/ledger/ledger.h"

/* Sends a message about what the ledger has already: a bus outage is only mentioned. */
void kiln_control_notify(struct kiln_cli *cli, const struct kiln_control *control);

/* Cancels the queued and assigned jobs of a batch and notifies the scheduler, so that workers stop
 * at their next step.  *ret_count: how many jobs. */
int kiln_cancel_batch(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                      uint64_t *ret_count, struct kiln_error *err) KILN_MUST_CHECK;

/* Why the job waits, or (job 0) the backlog of every group, or (donors) what is in memory of stored
 * latents; bus.md has the answers.  kind and id of the question are not read.  Waits two
 * seconds at most: *ret is NULL, which is not an error, without an answer by then.  The caller
 * frees *ret with json_decref. */
int kiln_query(struct kiln_cli *cli, struct kiln_control question, json_t **ret,
               struct kiln_error *err) KILN_MUST_CHECK;

#endif
