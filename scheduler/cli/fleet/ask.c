/* ask.c - an order with a token goes into control, the answer comes in the list of that token. */
#include "scheduler/cli/fleet/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "scheduler/cli/fleet/orders.h"
#include "schemas/wire.h"
#include "storage/bus/bus.h"

#define ANSWER_MS 2000

static int pop(struct kiln_cli *cli, const char *token, char **ret, struct kiln_error *err)
{
    struct kiln_bus *bus = NULL;
    char key[512];
    kiln_wire_key(key, sizeof key, kiln_pool(cli), "answer", token);
    int rc = kiln_open_bus(cli, &bus, err);
    if (rc == 0)
        rc = kiln_bus_pop(bus, key, ANSWER_MS, ret, err);
    kiln_bus_close(bus);
    return rc;
}

int kiln_ask(struct kiln_cli *cli, uint64_t job, json_t **ret, struct kiln_error *err)
{
    struct kiln_control order = {.kind = KILN_CONTROL_ASK, .job = job};
    struct timespec now;
    char *text = NULL;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(order.id, sizeof order.id, "q-%llx-%lx-%lx", (unsigned long long)now.tv_sec,
             (unsigned long)now.tv_nsec, (unsigned long)getpid());
    *ret = NULL;
    int rc = kiln_send_order(cli, &order, err);
    if (rc == 0)
        rc = pop(cli, order.id, &text, err);
    if (rc == 0 && text) {
        json_error_t why;
        *ret = json_loads(text, 0, &why);
        if (!json_is_object(*ret)) {
            json_decref(*ret);
            *ret = NULL;
            rc = kiln_fail(err, KILN_PROTOCOL, "the scheduler's answer is not JSON: %s", why.text);
        }
    }
    free(text);
    return rc;
}
