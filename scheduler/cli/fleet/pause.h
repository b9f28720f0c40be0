/* pause.h - holding jobs back and letting them go on: `pause`, `resume`, and the same of
 * `backfill`.
 */
#ifndef KILN_CLI_PAUSE_H
#define KILN_CLI_PAUSE_H

#include "scheduler/cli/core/cli.h"
#include "storage/ledger/queue/hold.h"

/* "USER@HOST", as it is kept with what people order. */
void kiln_user_name(char *out, size_t size);

/* Records it (held or let go), tells the scheduler, looks whether somebody has ordered the opposite
 * meanwhile, and says all that.  The exit status: 1 if the other one has the last word. */
int kiln_pause_set(struct kiln_cli *cli, struct kiln_ledger *ledger, enum kiln_hold_scope scope,
                   const char *name, bool held, const char *reason);
/* The holds of the pool as a JSON list, NULL with err filled. */
json_t *kiln_pauses_json(struct kiln_cli *cli, struct kiln_ledger *ledger, struct kiln_error *err);

#endif
