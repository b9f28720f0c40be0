/* orders.c - orders to the scheduler, and `kiln drain`, which is nothing else.
 *
 * An order is a hint: whatever must not be lost is in the ledger before it is sent.  A drain is the
 * exception, since it changes no job; so it fails if the bus cannot take it.
 */
#include "scheduler/cli/orders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/roster.h"
#include "scheduler/cli/verbs.h"
#include "storage/bus.h"

#define CONTROL_LENGTH 10000 /* the stream is capped: orders are acted on within milliseconds */

int kiln_send_order(struct kiln_cli *cli, const struct kiln_order *order, struct kiln_error *err)
{
    char *text = kiln_order_encode(order);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an order");
    struct kiln_bus *bus = NULL;
    int rc = kiln_open_bus(cli, &bus, err);
    if (rc == 0) {
        char key[256];
        kiln_wire_key(key, sizeof key, kiln_pool(cli), "control", NULL);
        rc = kiln_bus_append(bus, key, CONTROL_LENGTH, (const char *const[]){"order", text},
                             (const size_t[]){5, strlen(text)}, 1, err);
    }
    kiln_bus_close(bus);
    free(text);
    return rc;
}

/* Whether a live worker has that name; the error names those that live. */
static int check_worker(struct kiln_cli *cli, const char *name, struct kiln_error *err)
{
    struct kiln_roster roster;
    int rc = kiln_roster_load(cli, &roster, err);
    if (rc)
        return rc;
    const struct kiln_roster_worker *worker = kiln_roster_find(&roster, name);
    if (!worker || !worker->live)
        rc = kiln_fail(err, KILN_NOT_FOUND,
                       "no live worker is called '%s'; `kiln workers` lists them", name);
    kiln_roster_release(&roster);
    return rc;
}

int kiln_verb_drain(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    struct kiln_error err;
    int status = kiln_args_parse(cli, argc, argv, 0, 1, &args);
    if (status)
        return status;
    bool all = kiln_arg(&args, "all") != NULL;
    if (all == (args.rest_count == 1))
        return kiln_usage(cli, "name one worker, or all of them with --all");
    struct kiln_order order = {.kind = KILN_ORDER_DRAIN};
    snprintf(order.id, sizeof order.id, "%s", all ? "" : args.rest[0]);
    int rc = all ? 0 : check_worker(cli, order.id, &err);
    if (rc == 0)
        rc = kiln_send_order(cli, &order, &err);
    if (rc)
        return kiln_report(cli, &err);
    kiln_say(cli, "%s will finish the batch in hand, hand back the rest and end",
             all ? "every worker" : order.id);
    return cli->json ? kiln_print_json(cli, json_pack("{s:s}", "draining", all ? "all" : order.id))
                     : 0;
}
