/* orders.h - what the command tells the scheduler through the control stream. */
#ifndef KILN_CLI_ORDERS_H
#define KILN_CLI_ORDERS_H

#include "scheduler/cli/core/cli.h"
#include "schemas/wire.h"
#include "storage/ledger/ledger.h"

int kiln_send_order(struct kiln_cli *cli, const struct kiln_control *order,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* The same for what the ledger has already: a bus that is away is only mentioned. */
void kiln_tell_order(struct kiln_cli *cli, const struct kiln_control *order);

/* Cancels what waits or runs of a batch, and tells the scheduler, so that workers stop at their
 * next step.  *ret_count: how many. */
int kiln_cancel_batch(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                      uint64_t *ret_count, struct kiln_error *err) KILN_MUST_CHECK;

#endif
