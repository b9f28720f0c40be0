/* leader.c - the leading scheduler: rebuilding, and one step.
 *
 * A step reads the bus, reconciles, loads and assigns.  During an outage of the bus jobs stay where
 * they are and no lease runs out.  A single command that Redis refuses is no outage: it costs the
 * message or the worker that it was about.  A failure of the ledger ends the leadership, and with
 * it all that is remembered here: a lost connection has lost the lock, so the leader must stop at
 * once. The exception is a failure that answers a client's message (kiln_ledger_refused).
 */
#include "scheduler/leader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "storage/daemon/health.h"
#include "storage/daemon/stopwatch.h"
#include "storage/ledger/read/read.h"

#define LEAD_MS 500           /* between confirmations of the lock */
#define CLOCK_MS 10000        /* between comparisons of the clocks */
#define RETURN_MS 8000        /* by then workers have noticed that the bus is back */
#define FORGET_MS 3600000     /* between walks over old jobs, */
#define FORGET_PAGE_MS 1000   /* and between their pages */
#define FORGET_FIRST_MS 60000 /* not while a new leader loads its queue */
#define COST_ROWS 8192

/* --- opening and closing --------------------------------------------------------------------- */
static int compare_clocks(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err)
{
    int64_t database_ms = 0;
    char version[64];
    int rc = kiln_ledger_clock(leader->ledger, &database_ms, version, sizeof(version), err);
    if (rc)
        return rc;
    leader->clock_offset_ms = database_ms - kiln_clock_ms();
    leader->clock_due_ms = now_ms + CLOCK_MS;
    return 0;
}

int kiln_leader_open(const struct kiln_config *config, struct kiln_ledger *ledger,
                     struct kiln_leader **ret, struct kiln_error *err)
{
    struct kiln_leader *leader = calloc(1, sizeof(*leader));
    if (!leader)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to lead");
    leader->config = config;
    leader->ledger = ledger;
    leader->pool = kiln_config_text(config, KILN_KEY_POOL);
    leader->bus_outage = (struct kiln_outage){KILN_OUTAGE_OF("bus"), .severe = true,
                                              .effect = "nothing is assigned and no lease expires"};
    leader->lease_ms = (int64_t)(kiln_config_number(config, KILN_KEY_LEASE_S) * 1000);
    kiln_wire_key(leader->events_key, sizeof(leader->events_key), leader->pool, "events", NULL);
    kiln_wire_key(leader->control_key, sizeof(leader->control_key), leader->pool, "control", NULL);
    snprintf(leader->session, sizeof(leader->session), "%llx.%x",
             (unsigned long long)kiln_wall_ms(), (unsigned)getpid());
    int64_t now_ms = kiln_clock_ms();
    leader->bus_back_ms = leader->began_ms = now_ms;
    leader->probe_due = true;
    leader->sweep_due_ms = INT64_MAX; /* the first load is one */
    leader->forget_due_ms = now_ms + FORGET_FIRST_MS;
    leader->costs = kiln_cost_model_new(COST_ROWS);
    int rc = leader->costs ? kiln_policy_new(NULL, leader->costs, &leader->policy, err)
                           : kiln_fail(err, KILN_NO_MEMORY, "no memory for the cost model");
    rc = rc ? rc : kiln_cache_open(config, &leader->cache, err);
    rc = rc ? rc : kiln_bus_open(config, &leader->bus, err);
    rc = rc ? rc : compare_clocks(leader, now_ms, err);
    rc = rc ? rc : kiln_costs_load(leader, err);
    rc = rc ? rc : kiln_load_pauses(leader, now_ms, err);
    rc = rc ? rc : kiln_reconcile(leader, now_ms, err);
    if (rc == 0 && pthread_create(&leader->intake_thread, NULL, kiln_intake_thread, leader) != 0)
        rc = kiln_fail(err, KILN_NO_MEMORY, "the intake's thread cannot be started");
    leader->intake_started = rc == 0;
    if (rc == 0 && kiln_config_text(config, KILN_KEY_WEBHOOK_HOSTS)[0]) {
        if (pthread_create(&leader->webhook_thread, NULL, kiln_webhook_thread, leader) != 0)
            rc = kiln_fail(err, KILN_NO_MEMORY, "the webhooks' thread cannot be started");
        leader->webhook_started = rc == 0;
    }
    if (rc) {
        kiln_leader_close(leader);
        return rc;
    }
    *ret = leader;
    return 0;
}

void kiln_leader_close(struct kiln_leader *leader)
{
    if (!leader)
        return;
    atomic_store(&leader->stop, true);
    if (leader->intake_started)
        pthread_join(leader->intake_thread, NULL);
    if (leader->webhook_started)
        pthread_join(leader->webhook_thread, NULL);
    kiln_fleet_clear(leader);
    kiln_pauses_release(&leader->pauses);
    kiln_cache_close(leader->cache);
    kiln_policy_free(leader->policy);
    kiln_cost_model_free(leader->costs);
    kiln_bus_close(leader->bus);
    free(leader);
}

/* --- the step -------------------------------------------------------------------------------- */
/* Reads everything that is due from the bus. */
static int read_bus(struct kiln_leader *leader, uint32_t wait_ms, int64_t now_ms,
                    struct kiln_error *err)
{
    int rc = now_ms >= leader->streams_due_ms ? kiln_streams_check(leader, now_ms, err) : 0;
    rc = rc ? rc : kiln_read_messages(leader, wait_ms, err);
    now_ms = kiln_clock_ms();
    if (rc == 0 && now_ms >= leader->heartbeats_due_ms) {
        rc = kiln_read_heartbeats(leader, now_ms, err);
        int64_t every = (int64_t)leader->member_count * 2;
        leader->heartbeats_due_ms = now_ms + (every < 200 ? 200 : every > 1000 ? 1000 : every);
    }
    return rc;
}

/* Whether the bus answered. */
static bool try_bus(struct kiln_leader *leader, uint32_t wait_ms, int64_t now_ms)
{
    struct kiln_error err;
    kiln_health_asks(KILN_PEER_BUS);
    int rc = read_bus(leader, wait_ms, now_ms, &err);
    kiln_health_asks(KILN_PEER_LEDGER);
    if (rc) {
        (void)kiln_outage_fail(&leader->bus_outage, &err);
        /* Set now: the first round after the outage already decides whose lease has expired. */
        leader->bus_back_ms = kiln_clock_ms() + RETURN_MS;
        kiln_sleep_ms(wait_ms);
        return false;
    }
    if (kiln_outage_is(&leader->bus_outage)) {
        leader->control_caught_up = false;
        leader->probe_due = true;
        leader->streams_due_ms = 0;
    }
    kiln_outage_over(&leader->bus_outage);
    kiln_health_heard(KILN_PEER_BUS);
    return true;
}

/* Removes events of jobs that ended long ago, a page at a time. */
static int forget(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err)
{
    uint32_t keep_days = (uint32_t)kiln_config_int(leader->config, KILN_KEY_EVENT_KEEP_DAYS);
    uint64_t forgotten = 0;
    bool more = false;
    int rc = keep_days ? kiln_ledger_forget(leader->ledger, leader->pool, keep_days,
                                            &leader->forget_after, &forgotten, &more, err)
                       : 0;
    leader->forget_due_ms = now_ms + (more ? FORGET_PAGE_MS : FORGET_MS);
    if (forgotten > 0)
        kiln_log(KILN_LOG_DEBUG, "moves_forgotten",
                 kiln_f("count", "%llu", (unsigned long long)forgotten));
    return rc;
}

/* All that follows reading the bus; what jobs wait for comes first. */
static int work(struct kiln_leader *leader, bool bus, struct kiln_error *err)
{
    int64_t now_ms = kiln_clock_ms();
    int rc = now_ms >= leader->clock_due_ms ? compare_clocks(leader, now_ms, err) : 0;
    if (rc == 0 && bus && now_ms >= leader->reconcile_due_ms) {
        leader->reconcile_due_ms = now_ms + leader->lease_ms / 4;
        rc = kiln_reconcile(leader, now_ms, err);
    }
    rc = rc ? rc : kiln_costs_keep(leader, now_ms, err);
    kiln_cache_tend(leader->cache, leader->ledger, leader->pool, now_ms);
    rc = rc ? rc : kiln_load_pauses(leader, now_ms, err);
    rc = rc ? rc : kiln_load(leader, now_ms, err);
    rc = rc ? rc : kiln_expect(leader, now_ms, err);
    if (rc == 0 && bus)
        rc = kiln_dispatch(leader, kiln_clock_ms(), err);
    if (rc == 0 && !leader->busy && now_ms >= leader->forget_due_ms)
        rc = forget(leader, now_ms, err);
    if (rc == 0 && leader->gauges)
        rc = kiln_gauges_tend(leader->gauges, leader, now_ms, err);
    return rc;
}

int kiln_leader_step(struct kiln_leader *leader, uint32_t wait_ms, struct kiln_error *err)
{
    int64_t now_ms = kiln_clock_ms();
    int rc = 0;
    if (now_ms >= leader->lead_due_ms) {
        bool leads = false;
        rc = kiln_ledger_lead(leader->ledger, leader->pool, &leads, err);
        leader->lead_due_ms = now_ms + LEAD_MS;
        if (rc == 0 && !leads)
            rc = kiln_fail(err, KILN_STALE, "another scheduler leads pool '%s'", leader->pool);
        if (rc)
            return rc;
        kiln_health_heard(KILN_PEER_LEDGER);
    }
    bool hurry = leader->busy && !kiln_outage_is(&leader->bus_outage);
    leader->busy = false;
    bool bus = try_bus(leader, hurry ? 0 : wait_ms, now_ms);
    if (leader->ledger_error.code)
        return kiln_fail(err, leader->ledger_error.code, "%s", leader->ledger_error.text);
    int64_t started = kiln_stopwatch_start();
    rc = work(leader, bus, err);
    kiln_metric_observe(KILN_METRIC_STEP_SECONDS, 0, kiln_stopwatch_s(started));
    return rc;
}
