/* ledger.c - storage/ledger/ledger.h on the simulated Postgres: sessions, leadership, statements.
 *
 * As kiln_ledger_run does, a statement whose connection turned out to be dead is sent once more on
 * a new one, so it may be carried out twice.  A connection that is made anew first ends what an
 * earlier one asked: a request that was given up is not carried out later.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/ledger/read/donors.h"
#include "tests/sim/ledger_session.h"

#define CLIENT_GRACE_MS 2000
#define LEAD_IDLE_MIN_MS 3000

/* Who has the advisory lock. */
static struct {
    struct kiln_ledger *ledger;
    struct sim_process *process;
    int64_t freed_at; /* a dead process' lock goes a moment after it */
} leader;

int kiln_ledger_open(const struct kiln_config *config, const char *name, struct kiln_ledger **ret,
                     struct kiln_error *err)
{
    (void)name;
    struct kiln_ledger *ledger = calloc(1, sizeof *ledger);
    if (!ledger)
        return kiln_fail(err, KILN_NO_MEMORY, "ledger: no memory");
    double idle_ms = kiln_config_number(config, KILN_KEY_LEASE_S) * 1500;
    *ledger = (struct kiln_ledger){
        .process = sim_self(),
        .limits = {.max_attempts = kiln_config_int(config, KILN_KEY_MAX_ATTEMPTS),
                   .base_s = kiln_config_number(config, KILN_KEY_BACKOFF_BASE_S),
                   .max_s = kiln_config_number(config, KILN_KEY_BACKOFF_MAX_S)},
        .limit_us = (int64_t)(kiln_config_number(config, KILN_KEY_STATEMENT_TIMEOUT_S) * SIM_S) +
                    CLIENT_GRACE_MS * SIM_MS,
        .lead_idle_us = (int64_t)(idle_ms > LEAD_IDLE_MIN_MS ? idle_ms : LEAD_IDLE_MIN_MS) * SIM_MS,
    };
    *ret = ledger;
    return 0;
}

/* --- sessions -------------------------------------------------------------------------------- */
static void free_lock(const struct kiln_ledger *ledger)
{
    if (leader.ledger == ledger)
        leader.ledger = NULL;
}

void sim_ledger_drop(struct kiln_ledger *ledger)
{
    ledger->connected = false;
}

void kiln_ledger_close(struct kiln_ledger *ledger)
{
    if (!ledger)
        return;
    free_lock(ledger);
    free(ledger);
}

void sim_ledger_end_sessions(void)
{
    sim_fleet.postgres.life++;
    leader.ledger = NULL;
}

/* Whether the holder's session has come to its end by itself. */
static void judge_leader(void)
{
    if (!leader.ledger)
        return;
    if (!leader.process->alive && leader.freed_at == 0)
        leader.freed_at = sim_now() + sim_between(0, 200 * SIM_MS);
    bool freed = leader.freed_at != 0 && sim_now() >= leader.freed_at;
    bool silent =
        leader.process->alive && sim_now() - leader.ledger->spoken_at > leader.ledger->lead_idle_us;
    if (silent)
        leader.ledger->ended = true;
    if (freed || silent)
        leader.ledger = NULL;
}

static int connect_session(struct kiln_ledger *ledger, struct kiln_error *err)
{
    const struct sim_server *postgres = &sim_fleet.postgres;
    if (ledger->connected && ledger->life == postgres->life && !ledger->ended)
        return 0;
    if (ledger->leads_in) { /* the lock went with the connection */
        if (ledger->connected)
            sim_ledger_drop(ledger);
        return kiln_fail(err, KILN_STALE, "Postgres: the leader's connection is lost");
    }
    if (ledger->connected) { /* it was dead and nobody knew */
        sim_ledger_drop(ledger);
        return kiln_fail(err, KILN_UNAVAILABLE, "Postgres: the connection was closed");
    }
    kiln_backoff_wait(&ledger->backoff);
    sim_sleep(sim_between(1, 5) * SIM_MS);
    if (postgres->down || postgres->hung) {
        kiln_backoff_failed(&ledger->backoff);
        return kiln_fail(err, KILN_UNAVAILABLE, "Postgres: no connection");
    }
    kiln_backoff_reset(&ledger->backoff);
    free_lock(ledger); /* of the earlier session, which it ends */
    ledger->connected = true;
    ledger->ended = false;
    ledger->life = postgres->life;
    ledger->generation++;
    return 0;
}

static int run_once(struct kiln_ledger *ledger, void (*run)(void *arg), void *arg,
                    struct kiln_error *err)
{
    int rc = connect_session(ledger, err);
    if (rc)
        return rc;
    enum sim_answer answer = sim_send(&sim_fleet.postgres, run, arg, NULL, ledger->limit_us, NULL);
    ledger->spoken_at = sim_now();
    if (answer == SIM_ANSWERED)
        return 0;
    sim_ledger_drop(ledger);
    if (answer == SIM_LATE)
        return kiln_fail(err, KILN_TIMEOUT, "Postgres does not answer");
    if (sim_chance(500)) /* else the server has not noticed: the lock stays for a while */
        free_lock(ledger);
    return kiln_fail(err, KILN_UNAVAILABLE, "Postgres: the connection was lost");
}

int sim_ledger_run(struct kiln_ledger *ledger, void (*run)(void *arg), void *arg,
                   struct kiln_error *err)
{
    bool was_connected = ledger->connected;
    int rc = run_once(ledger, run, arg, err);
    if (rc == KILN_UNAVAILABLE && was_connected && !ledger->connected && !ledger->leads_in)
        rc = run_once(ledger, run, arg, err);
    return rc;
}

int64_t sim_ledger_ms(void)
{
    return sim_server_ms(&sim_fleet.postgres);
}

void sim_ledger_nothing(void *arg)
{
    (void)arg;
}

int kiln_ledger_check(struct kiln_ledger *ledger, struct kiln_error *err)
{
    return sim_ledger_run(ledger, sim_ledger_nothing, NULL, err);
}

void kiln_ledger_stand_down(struct kiln_ledger *ledger)
{
    ledger->leads_in = 0;
}

/* The simulated Postgres takes every statement. */
bool kiln_ledger_refused(const struct kiln_ledger *ledger, int rc)
{
    (void)ledger;
    return rc == KILN_NOT_FOUND;
}

/* --- leadership ------------------------------------------------------------------------------ */
struct taking {
    struct kiln_ledger *ledger;
    bool won;
};

static void take_lock(void *arg)
{
    struct taking *taking = arg;
    judge_leader();
    if (!leader.ledger) {
        leader.ledger = taking->ledger;
        leader.process = taking->ledger->process;
        leader.freed_at = 0;
    }
    taking->won = leader.ledger == taking->ledger || sim_fleet.two_leaders;
}

int kiln_ledger_lead(struct kiln_ledger *ledger, const char *pool, bool *ret_leader,
                     struct kiln_error *err)
{
    (void)pool;
    struct taking taking = {.ledger = ledger};
    int rc = sim_ledger_run(ledger, sim_ledger_nothing, NULL, err);
    if (rc)
        return rc;
    if (ledger->leads_in) {
        *ret_leader = true;
        return 0;
    }
    rc = sim_ledger_run(ledger, take_lock, &taking, err);
    if (rc)
        return rc;
    *ret_leader = taking.won;
    ledger->leads_in = taking.won ? ledger->generation : 0;
    return 0;
}

/* --- donors: no latent is stored here, and no card asks for them ------------------------------- */
int kiln_donors_open(const struct kiln_config *config, const char *name, struct kiln_donors **ret,
                     struct kiln_error *err)
{
    (void)config;
    (void)ret;
    return kiln_fail(err, KILN_UNSUPPORTED, "%s: the simulated ledger has no latents", name);
}

void kiln_donors_close(struct kiln_donors *donors)
{
    (void)donors;
}

int kiln_donors_step(struct kiln_donors *donors, kiln_each_donor *each, void *arg,
                     bool *ret_complete, bool *ret_more, struct kiln_error *err)
{
    (void)donors;
    (void)each;
    (void)arg;
    *ret_complete = *ret_more = false;
    return kiln_fail(err, KILN_UNSUPPORTED, "the simulated ledger has no latents");
}
