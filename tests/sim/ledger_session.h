/* ledger_session.h - a session with the simulated Postgres, for the statements of ledger_verbs.c.
 */
#ifndef KILN_SIM_LEDGER_SESSION_H
#define KILN_SIM_LEDGER_SESSION_H

#include "storage/daemon/outage.h"
#include "storage/ledger/ledger.h"
#include "tests/sim/servers.h"

struct kiln_ledger {
    struct sim_process *process;
    struct kiln_backoff backoff;
    struct sim_limits limits;
    int64_t limit_us, lead_idle_us, spoken_at;
    bool connected, ended; /* ended: the server closed the session and nobody has noticed */
    uint32_t life;
    uint64_t generation, leads_in;
    struct {
        int rc;
        uint64_t inserted;
        struct kiln_error err;
    } begun; /* by kiln_ledger_insert_begin */
};

/* Carries run(arg) out on the server, connecting if need be; perhaps twice, as kiln_ledger_run. */
int sim_ledger_run(struct kiln_ledger *ledger, void (*run)(void *arg), void *arg,
                   struct kiln_error *err) KILN_MUST_CHECK;
void sim_ledger_nothing(void *arg); /* a statement for its own sake */
void sim_ledger_drop(struct kiln_ledger *ledger);
int64_t sim_ledger_ms(void); /* the database's wall clock */

#endif
