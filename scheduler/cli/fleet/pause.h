/* pause.h - pausing jobs and resuming them: `pause`, `resume`, and the same of
 * `backfill`.
 */
#ifndef KILN_CLI_PAUSE_H
#define KILN_CLI_PAUSE_H

#include "scheduler/cli/core/cli.h"
#include "storage/ledger/queue/pause.h"

/* "USER@HOST", as it is stored with what people did. */
void kiln_user_name(char *out, size_t size);

/* Records the pause or its end, notifies the scheduler, looks once more whether somebody gave the
 * opposite command meanwhile, and reports all that.  The exit status: 1 if that command wins. */
int kiln_pause_set(struct kiln_cli *cli, struct kiln_ledger *ledger, enum kiln_pause_scope scope,
                   const char *name, bool held, const char *reason);
/* The pauses of the pool as a JSON list, NULL with err filled. */
json_t *kiln_pauses_json(struct kiln_cli *cli, struct kiln_ledger *ledger, struct kiln_error *err);

#endif
