/* orders.h - what the command tells the scheduler through the control stream. */
#ifndef KILN_CLI_ORDERS_H
#define KILN_CLI_ORDERS_H

#include "scheduler/cli/cli.h"
#include "schemas/wire.h"

int kiln_send_order(struct kiln_cli *cli, const struct kiln_order *order,
                    struct kiln_error *err) KILN_MUST_CHECK;

#endif
