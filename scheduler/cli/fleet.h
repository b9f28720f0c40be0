/* fleet.h - the workers as they are now: heartbeats from the bus over rows from the ledger. */
#ifndef KILN_CLI_FLEET_H
#define KILN_CLI_FLEET_H

#include "scheduler/cli/cli.h"
#include "schemas/wire.h"
#include "storage/ledger_read.h"

#define KILN_FLEET_MAX 16384

struct kiln_fleet_worker {
    bool live; /* its heartbeat is on the bus: beat is filled */
    struct kiln_beat beat;
    struct kiln_worker_row row; /* name is always filled */
};
struct kiln_fleet {
    struct kiln_fleet_worker *at; /* by name */
    size_t count, live, size;
};

int kiln_fleet_load(struct kiln_cli *cli, struct kiln_fleet *ret,
                    struct kiln_error *err) KILN_MUST_CHECK;
void kiln_fleet_release(struct kiln_fleet *fleet);
const struct kiln_fleet_worker *kiln_fleet_find(const struct kiln_fleet *fleet, const char *name);
/* "live", "draining" or "gone" */
const char *kiln_fleet_state(const struct kiln_fleet_worker *worker);
/* An array with one object a worker; those that are gone only with all. */
json_t *kiln_fleet_json(const struct kiln_fleet *fleet, bool all);
/* One line a worker, with a heading on a terminal. */
void kiln_fleet_print(const struct kiln_cli *cli, const struct kiln_fleet *fleet, bool all);

#endif
