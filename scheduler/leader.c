/* leader.c - the leading scheduler: rebuilding, the step.
 *
 * A step hears the bus, compares, loads and assigns.  A bus that is away only makes it deaf: jobs
 * stay where they are and leases stand still until it is back.  A bus that declines one command is
 * not away: that costs the message or the worker it was about.  The ledger is different: whoever
 * loses its connection has lost the lock with it and must stop at once, so a failure of the ledger
 * ends the leadership and with it all that was remembered here; but for one that is the answer to
 * what a client's message asked for (kiln_ledger_refused).
 */
#include "scheduler/leader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "schemas/clock.h"
#include "schemas/log.h"
#include "schemas/utc.h"
#include "storage/daemon/health.h"
#include "storage/daemon/stopwatch.h"
#include "storage/ledger/read/read.h"

#define LEAD_MS 500           /* between confirmations of the lock */
#define CLOCK_MS 10000        /* between comparisons of the clocks */
#define EARS_MAX_MS 5000      /* between looks whether the events stream began anew */
#define KNOCK_MS 8000         /* workers have looked for a bus that was away by then */
#define FORGET_MS 3600000     /* between walks over old jobs, */
#define FORGET_PAGE_MS 1000   /* and between their pages */
#define FORGET_FIRST_MS 60000 /* a leader that begins has better things to do */
#define COST_ROWS 8192

void kiln_leader_pause(uint32_t ms)
{
    struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&ts, NULL);
}

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

static void name_keys(struct kiln_leader *leader)
{
    kiln_wire_key(leader->intake_key, sizeof(leader->intake_key), leader->pool, "intake", NULL);
    kiln_wire_key(leader->events_key, sizeof(leader->events_key), leader->pool, "events", NULL);
    kiln_wire_key(leader->control_key, sizeof(leader->control_key), leader->pool, "control", NULL);
    snprintf(leader->session, sizeof(leader->session), "%llx.%x",
             (unsigned long long)kiln_wall_ms(), (unsigned)getpid());
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
    name_keys(leader);
    int64_t now_ms = kiln_clock_ms();
    leader->bus_back_ms = leader->began_ms = now_ms;
    leader->probe_due = true;
    leader->sweep_due_ms = INT64_MAX; /* the first load is one */
    leader->forget_due_ms = now_ms + FORGET_FIRST_MS;
    leader->costs = kiln_cost_model_new(COST_ROWS);
    int rc = leader->costs ? kiln_policy_new(NULL, leader->costs, &leader->policy, err)
                           : kiln_fail(err, KILN_NO_MEMORY, "no memory for the cost model");
    if (rc == 0)
        rc = kiln_bus_open(config, &leader->bus, err);
    if (rc == 0)
        rc = compare_clocks(leader, now_ms, err);
    if (rc == 0)
        rc = kiln_costs_load(leader, err);
    if (rc == 0)
        rc = kiln_hold_back(leader, now_ms, err);
    if (rc == 0)
        rc = kiln_reconcile(leader, now_ms, err);
    if (rc == 0 && pthread_create(&leader->intake_thread, NULL, kiln_feed_run, leader) != 0)
        rc = kiln_fail(err, KILN_NO_MEMORY, "the thread of the intake cannot be started");
    leader->intake_started = rc == 0;
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
    kiln_fleet_clear(leader);
    kiln_holds_release(&leader->holds);
    kiln_policy_free(leader->policy);
    kiln_cost_model_free(leader->costs);
    kiln_bus_close(leader->bus);
    free(leader);
}

/* --- the step -------------------------------------------------------------------------------- */
static int confirm_lead(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err)
{
    bool leads = false;
    int rc = kiln_ledger_lead(leader->ledger, leader->pool, &leads, err);
    leader->lead_due_ms = now_ms + LEAD_MS;
    if (rc == 0 && !leads)
        return kiln_fail(err, KILN_STALE, "another scheduler leads pool '%s'", leader->pool);
    if (rc == 0)
        kiln_health_heard(KILN_PEER_LEDGER);
    return rc;
}

/* Stream ids "ms-seq" as numbers; "" comes before all. */
static bool id_before(const char *a, const char *b)
{
    char *a_end, *b_end;
    unsigned long long a_ms = strtoull(a, &a_end, 10), b_ms = strtoull(b, &b_end, 10);
    if (a_ms != b_ms)
        return a_ms < b_ms;
    unsigned long long a_seq = *a_end == '-' ? strtoull(a_end + 1, NULL, 10) : 0;
    unsigned long long b_seq = *b_end == '-' ? strtoull(b_end + 1, NULL, 10) : 0;
    return a_seq < b_seq;
}

/* Nothing was lost, and `kiln doctor`, which looks when the events began, is told so. */
static void mark_events(struct kiln_leader *leader)
{
    char at[32];
    kiln_time_text(kiln_wall_ms(), at, sizeof(at));
    const char *const fields[] = {KILN_WIRE_REMADE, at};
    (void)!kiln_bus_append(leader->bus, leader->events_key, 0, fields, NULL, 1, NULL);
}

int kiln_leader_mend(struct kiln_leader *leader, const char *key, int rc, bool *ret_mended,
                     struct kiln_error *err)
{
    enum kiln_bus_refusal refusal = kiln_bus_refusal(leader->bus);
    struct kiln_error why;
    bool mended = false;
    if (ret_mended)
        *ret_mended = false;
    /* A right that the scheduler lacks is a matter for its operator, as is a Redis that is away. */
    if (rc == 0 || refusal == KILN_BUS_NOT_REFUSED || refusal == KILN_BUS_NOT_ALLOWED)
        return rc;
    why = *err;
    rc = kiln_bus_mend(leader->bus, key, &mended, err);
    kiln_hush_log(&leader->hush[KILN_HUSH_KEY], mended ? "key_deleted" : "key_unusable", key,
                  why.text);
    if (ret_mended)
        *ret_mended = mended;
    if (mended && strcmp(key, leader->events_key) == 0)
        mark_events(leader);
    return rc && kiln_bus_refusal(leader->bus) == KILN_BUS_NOT_REFUSED ? rc : 0;
}

/* A stream with the greatest possible id takes no entry any more.  Control is read until it is
 * empty and then made anew.  Events are kept for those who look at them later, and nothing depends
 * on them: once they were heard, the stream is made anew. */
static int probe_streams(struct kiln_leader *leader, bool heard_all, struct kiln_error *err)
{
    int rc = kiln_bus_probe(leader->bus, leader->control_key, err);
    bool again = rc != 0;
    rc = kiln_leader_mend(leader, leader->control_key, rc, NULL, err);
    if (rc == 0)
        rc = kiln_bus_probe(leader->bus, leader->events_key, err);
    if (rc && kiln_bus_refusal(leader->bus) == KILN_BUS_EXHAUSTED && heard_all) {
        kiln_hush_log(&leader->hush[KILN_HUSH_KEY], "key_deleted", leader->events_key, err->text);
        rc = kiln_bus_delete(leader->bus, leader->events_key, err);
        if (rc == 0)
            mark_events(leader);
        again = true; /* until the probe is answered as it should */
    }
    again = again || rc;
    rc = kiln_leader_mend(leader, leader->events_key, rc, NULL, err);
    if (rc == 0)
        leader->probe_due = again;
    return rc;
}

/* Ids of a stream only grow while the stream lives.  After a flush, with Redis' clock behind, new
 * events could have ids that were passed already: then everything is read again, which is harmless.
 */
static int check_ears(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err)
{
    char last[sizeof(leader->events_after)] = "";
    int64_t half_ms = leader->lease_ms / 2;
    leader->ears_due_ms = now_ms + (half_ms < EARS_MAX_MS ? half_ms : EARS_MAX_MS);
    int rc = kiln_bus_last_id(leader->bus, leader->events_key, last, sizeof(last), err);
    rc = kiln_leader_mend(leader, leader->events_key, rc, NULL, err);
    if (rc)
        return rc;
    leader->probe_due = leader->probe_due || kiln_wire_last_id(last);
    bool began = leader->events_after[0] == '\0';
    if (began || id_before(last, leader->events_after))
        snprintf(leader->events_after, sizeof(leader->events_after), "%s",
                 began && last[0] ? last : "0");
    return leader->probe_due ? probe_streams(leader, !id_before(leader->events_after, last), err)
                             : 0;
}

static int hear_bus(struct kiln_leader *leader, uint32_t wait_ms, int64_t now_ms,
                    struct kiln_error *err)
{
    int rc = now_ms >= leader->ears_due_ms ? check_ears(leader, now_ms, err) : 0;
    if (rc == 0)
        rc = kiln_hear(leader, wait_ms, err);
    now_ms = kiln_clock_ms();
    if (rc == 0 && now_ms >= leader->beats_due_ms) {
        rc = kiln_hear_heartbeats(leader, now_ms, err);
        int64_t every = (int64_t)leader->member_count * 2;
        leader->beats_due_ms = now_ms + (every < 200 ? 200 : every > 1000 ? 1000 : every);
    }
    return rc;
}

/* Whether the bus is there; logs when it goes and when it is back. */
static bool hear(struct kiln_leader *leader, uint32_t wait_ms, int64_t now_ms)
{
    struct kiln_error err;
    kiln_health_asks(KILN_PEER_BUS);
    int rc = hear_bus(leader, wait_ms, now_ms, &err);
    kiln_health_asks(KILN_PEER_LEDGER);
    if (rc) { /* set while it is away, for the very round in which it is back judges the silent */
        (void)kiln_outage_fail(&leader->bus_outage, &err);
        leader->bus_back_ms = kiln_clock_ms() + KNOCK_MS;
        kiln_leader_pause(wait_ms);
        return false;
    }
    if (kiln_outage_is(&leader->bus_outage)) {
        leader->control_caught_up = false;
        leader->probe_due = true;
        leader->ears_due_ms = 0;
    }
    kiln_outage_over(&leader->bus_outage);
    kiln_health_heard(KILN_PEER_BUS);
    return true;
}

/* The moves of jobs that ended long ago, a page at a time. */
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

/* All that follows hearing; what is due first is what jobs wait for. */
static int work(struct kiln_leader *leader, bool bus, struct kiln_error *err)
{
    int64_t now_ms = kiln_clock_ms();
    int rc = now_ms >= leader->clock_due_ms ? compare_clocks(leader, now_ms, err) : 0;
    if (rc == 0 && bus && now_ms >= leader->reconcile_due_ms) {
        leader->reconcile_due_ms = now_ms + leader->lease_ms / 4;
        rc = kiln_reconcile(leader, now_ms, err);
    }
    if (rc == 0)
        rc = kiln_costs_keep(leader, now_ms, err);
    if (rc == 0)
        rc = kiln_hold_back(leader, now_ms, err);
    if (rc == 0)
        rc = kiln_load(leader, now_ms, err);
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
    int rc = now_ms >= leader->lead_due_ms ? confirm_lead(leader, now_ms, err) : 0;
    if (rc)
        return rc;
    bool hurry = leader->busy && !kiln_outage_is(&leader->bus_outage);
    leader->busy = false;
    bool bus = hear(leader, hurry ? 0 : wait_ms, now_ms);
    if (leader->ledger_error.code)
        return kiln_fail(err, leader->ledger_error.code, "%s", leader->ledger_error.text);
    int64_t started = kiln_stopwatch_start();
    rc = work(leader, bus, err);
    kiln_metric_observe(KILN_METRIC_STEP_SECONDS, 0, kiln_stopwatch_s(started));
    return rc;
}
