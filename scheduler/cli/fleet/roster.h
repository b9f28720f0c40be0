/* roster.h - the workers as they are now: heartbeats from the bus over rows from the ledger. */
#ifndef KILN_CLI_ROSTER_H
#define KILN_CLI_ROSTER_H

#include "scheduler/cli/core/cli.h"
#include "schemas/wire/wire.h"
#include "storage/ledger/read/read.h"

#define KILN_ROSTER_MAX 16384

struct kiln_roster_worker {
    bool live; /* its heartbeat is on the bus: beat is filled */
    struct kiln_heartbeat beat;
    struct kiln_worker_row row; /* name is always filled */
};
struct kiln_roster {
    struct kiln_roster_worker *at; /* by name */
    size_t count, live, size;
};

int kiln_roster_load(struct kiln_cli *cli, struct kiln_roster *ret,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* Only the live workers, from the bus alone: a producer may have no ledger. */
int kiln_roster_live(struct kiln_cli *cli, struct kiln_roster *ret,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* The same over connections that are open; ledger NULL: only the live workers. */
struct kiln_bus;
int kiln_roster_read(struct kiln_cli *cli, struct kiln_ledger *ledger, struct kiln_bus *bus,
                     struct kiln_roster *ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_roster_release(struct kiln_roster *roster);
const struct kiln_roster_worker *kiln_roster_find(const struct kiln_roster *roster,
                                                  const char *name);
/* "live", "draining" or "gone". */
const char *kiln_roster_state(const struct kiln_roster_worker *worker);
/* The share of its time with assignments in flight in which its device was idle: "0.8%", "-". */
const char *kiln_roster_idle(const struct kiln_heartbeat *beat, char out[8]);
/* An array with one object a worker; those that are gone only with all. */
json_t *kiln_roster_json(const struct kiln_roster *roster, bool all);
/* One line a worker, with a heading on a terminal. */
void kiln_roster_print(const struct kiln_cli *cli, const struct kiln_roster *roster, bool all);

#endif
