/* leader.h - what the leading scheduler knows and does; private to the files that share it.
 *
 * One thread owns all of this.  A second one (intake_thread.c) has connections of its own and says
 * through `inserted` and `revived` that there is something new in the ledger.  Calls between the
 * files go one way, from the bottom of this list up:
 *
 *     leader.c         rebuilding, and one step: read messages, reconcile, load, dispatch
 *     intake_thread.c  the second thread
 *     webhook_thread.c the third thread: tells URLs that a batch has ended
 *     gauges.c         the copy of all this that the metrics show
 *     messages.c       heartbeats, events and control messages from the bus
 *     answer.c         the leader's answers to queries of the command line
 *     dispatch.c       picks of the policy become assignments
 *     expect.c         which waiting jobs would begin from stored latents
 *     reconcile.c      the ledger's assigned jobs against the fleet: what returns to the queue
 *     loader.c         waiting jobs from the ledger into the policy, and paused ones out of it
 *     fleet.c          members (workers with a heartbeat) and the assignments in flight there
 *     costs.c          what finished assignments teach, and its way over a restart
 *     streams.c        sending to workers; streams that take no entries
 *
 * Time is CLOCK_MONOTONIC in milliseconds.  Times of the ledger are its database's wall clock;
 * `clock_offset_ms` converts them.
 */
#ifndef KILN_LEADER_H
#define KILN_LEADER_H

#include <pthread.h>
#include <stdatomic.h>

#include "scheduler/cache/cache.h"
#include "scheduler/gauges.h"
#include "scheduler/intake/intake.h"
#include "scheduler/pace.h"
#include "scheduler/pauses.h"
#include "scheduler/policy/policy.h"
#include "schemas/config/config.h"
#include "schemas/telemetry/log_limit.h"
#include "schemas/telemetry/metrics.h"
#include "schemas/wire/wire.h"
#include "storage/bus/bus.h"
#include "storage/daemon/outage.h"
#include "storage/ledger/ledger.h"

#define KILN_ASSIGNED_MAX 32 /* assignments remembered of one member */
#define KILN_FINISHED_MAX 32 /* ids of its last finished ones */
#define KILN_KEY_MAX (KILN_NAME_MAX * 2 + 32)
#define KILN_FLEET_MAX 4096 /* members that heartbeats may add; so many fit the policy */

/* Log lines that clients can cause at will (log_limit.h). */
enum kiln_limited {
    KILN_LIMIT_HEARTBEAT,
    KILN_LIMIT_EVENT,
    KILN_LIMIT_CONTROL,
    KILN_LIMIT_ANSWER,
    KILN_LIMIT_KEY,
    KILN_LIMIT_COUNT
};

/* An assignment, from the ledger's commit until none of its jobs is assigned any more. */
struct kiln_assigned {
    char id[KILN_WIRE_ID_MAX + 1];
    char model[KILN_NAME_MAX + 1], lora_set[KILN_LORA_SET_MAX], mode[KILN_MODE_MAX];
    uint64_t tag; /* the policy's name for it */
    uint32_t width, height, steps, count;
    double guidance;
    enum kiln_switch_kind load; /* what had to be loaded for it */
    bool first_of_size;
    uint64_t jobs[KILN_ASSIGN_MAX];
    uint32_t attempts[KILN_ASSIGN_MAX];
    bool open[KILN_ASSIGN_MAX]; /* still assigned, as the last reconciliation saw it */
    bool in_flight;             /* on its way to the worker, or named by its heartbeats */
    bool seen;                  /* some heartbeat has named it, */
    bool named;                 /* the latest one does */
    bool begun;                 /* the latest one says that it may have been in the engine */
    bool alone;                 /* it has a suspect, which shares its worker with nothing */
    bool lost;                  /* its worker is gone: return it now */
    bool clean;                 /* ... after a clean shutdown, or not begun: no crash */
    bool inherited;             /* its worker restarted and may find it unread in its stream */
    uint32_t orphan_rounds; /* reconciliations in which the heartbeat names it, the ledger not */
    int64_t assigned_ms;    /* when it was assigned, or found after a restart */
    int64_t since_ms;       /* the same, or since when it is missing */
};

struct kiln_member {
    char name[KILN_NAME_MAX + 1];
    char incarnation[KILN_WIRE_ID_MAX + 1];
    char device_class[KILN_NAME_MAX + 1];
    char running[KILN_WIRE_ID_MAX + 1]; /* the assignment that it renders now, by its heartbeat */
    bool known;                         /* a heartbeat was read; else only the ledger names it */
    bool present, bye;                  /* in the last round of heartbeats; has said goodbye */
    bool draining, refused;             /* by its store; says the latest heartbeat */
    bool yields;                        /* what it holds, to others: its store takes nothing */
    bool able;                          /* it takes jobs, and nothing refuses its pictures */
    char model[KILN_NAME_MAX + 1];
    uint32_t minor;              /* of the protocol: which modes it knows */
    bool foreign;                /* speaks another protocol version, which was logged */
    bool tells_progress;         /* its heartbeats say what is rendered: `begun` can be trusted */
    int64_t started_ms, sent_ms; /* by the worker's clock: compared for equality and order only */
    int64_t changed_ms;          /* when a new heartbeat was last read */
    int64_t warned_ms;           /* about a second worker of this name */
    int64_t blocked_until_ms;    /* its stream takes nothing: not tried before; 0 = it does */
    struct kiln_assigned *assignments[KILN_ASSIGNED_MAX]; /* in the order they were sent */
    uint32_t assignment_count;
    char finished[KILN_FINISHED_MAX][KILN_WIRE_ID_MAX + 1];
    uint32_t finished_turn;
    struct kiln_pace pace;
};

struct kiln_leader {
    const struct kiln_config *config;
    const char *pool;
    struct kiln_ledger *ledger; /* the connection that holds the leader's lock */
    struct kiln_bus *bus;
    struct kiln_cost_model *costs;
    struct kiln_policy *policy;
    struct kiln_cache *cache;
    struct kiln_member **members;
    size_t member_count, member_room;
    char events_key[KILN_KEY_MAX], control_key[KILN_KEY_MAX];
    char events_after[48];            /* the last event read */
    char newcomer[KILN_NAME_MAX + 1]; /* unknown names up to this one had their turn */
    char session[32];                 /* begins every assignment id of this leadership */
    uint64_t adopted;                 /* assignments that were not picked here */
    int64_t lease_ms, began_ms;
    int64_t heartbeats_due_ms, reconcile_due_ms, lead_due_ms, clock_due_ms, load_due_ms,
        sweep_due_ms, streams_due_ms, costs_due_ms, forget_due_ms, pauses_due_ms;
    uint64_t costs_kept;     /* turn of the cost model up to which the ledger knows it */
    uint64_t forget_after;   /* the job that the walk over old ones has reached */
    int64_t bus_back_ms;     /* leases count from here at the earliest: no heartbeat before */
    int64_t clock_offset_ms; /* database - monotonic */
    bool busy;               /* the last round left work behind: the next one does not wait */
    struct kiln_outage bus_outage;
    bool check_cancelled, control_caught_up;
    bool probe_due; /* control and events may be streams that take no more entries */
    struct kiln_log_limit limits[KILN_LIMIT_COUNT];
    struct kiln_error ledger_error; /* met while reading messages; ends the leadership */
    uint64_t loaded_id, sweep_id;   /* cursors */
    int64_t sweep_began_ms;
    bool loaded, sweeping, queue_full;
    uint64_t expected_turn; /* of the cache, when it was last looked up where jobs may begin; */
    int64_t expect_due_ms, expect_rest_ms; /* before this only for new donors, and not at all */
    struct kiln_gauges *gauges;            /* the daemon's; NULL without metrics */
    struct kiln_pauses pauses;             /* jobs that these match are kept out of the policy */
    /* the other threads */
    pthread_t intake_thread, webhook_thread;
    bool intake_started, webhook_started;
    atomic_bool stop, inserted, revived; /* revived: jobs of old ids wait again */
};

/* ledger: open and holding the lock; stays the caller's.  Rebuilds everything from the ledger and
 * starts the intake.  config is borrowed. */
int kiln_leader_open(const struct kiln_config *config, struct kiln_ledger *ledger,
                     struct kiln_leader **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_leader_close(struct kiln_leader *leader); /* accepts NULL */
/* One round; waits on the bus for at most wait_ms.  KILN_STALE: somebody else leads.  Any other
 * failure is the ledger's; both end the leadership.  An outage of the bus is waited out inside. */
int kiln_leader_step(struct kiln_leader *leader, uint32_t wait_ms,
                     struct kiln_error *err) KILN_MUST_CHECK;

/* --- intake_thread.c ------------------------------------------------------------------------- */
/* The second thread; arg is the leader.  Ends when `stop` is set. */
void *kiln_intake_thread(void *arg);
/* The third thread, where webhook_hosts names a host; likewise. */
void *kiln_webhook_thread(void *arg);

/* --- messages.c ------------------------------------------------------------------------------ */
/* Failures of these two are the bus's; one of the ledger is left in ledger_error. */
int kiln_read_messages(struct kiln_leader *leader, uint32_t wait_ms,
                       struct kiln_error *err) KILN_MUST_CHECK;
int kiln_read_heartbeats(struct kiln_leader *leader, int64_t now_ms,
                         struct kiln_error *err) KILN_MUST_CHECK;

/* --- answer.c -------------------------------------------------------------------------------- */
/* Answers a query, a control message of the kind ask.  Failures are the bus's; an answer that
 * cannot be delivered to its asker is none. */
int kiln_answer(struct kiln_leader *leader, const struct kiln_control *control,
                struct kiln_error *err) KILN_MUST_CHECK;

/* --- dispatch.c, expect.c, reconcile.c, loader.c: failures are the ledger's ------------------ */
int kiln_dispatch(struct kiln_leader *leader, int64_t now_ms,
                  struct kiln_error *err) KILN_MUST_CHECK;
/* For the jobs that go soon; before they are picked. */
int kiln_expect(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_reconcile(struct kiln_leader *leader, int64_t now_ms,
                   struct kiln_error *err) KILN_MUST_CHECK;
/* Returns the open jobs of an assignment to the queue, and loads them; cause is for the metrics. */
int kiln_return_assignment(struct kiln_leader *leader, const struct kiln_member *member,
                           const struct kiln_assigned *assigned, const struct kiln_return *how,
                           enum kiln_return_cause cause, struct kiln_error *err) KILN_MUST_CHECK;
/* The same of a live worker, for other workers, and no attempt counts.  First in the ledger: then
 * the attempt is another, and this worker's is void.  Then it is told to drop the assignment; if
 * the message is lost, it finds out before it begins, or at its commit.  The assignment counts as
 * in flight until a heartbeat names it no more. */
int kiln_take_back(struct kiln_leader *leader, const struct kiln_member *member,
                   const struct kiln_assigned *assigned, const char *reason,
                   enum kiln_return_cause cause, struct kiln_error *err) KILN_MUST_CHECK;
/* Reads the pauses, twice a second or when a control message says that they have changed. */
int kiln_load_pauses(struct kiln_leader *leader, int64_t now_ms,
                     struct kiln_error *err) KILN_MUST_CHECK;
int kiln_load(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err) KILN_MUST_CHECK;
/* One job by id, if it waits. */
int kiln_load_one(struct kiln_leader *leader, uint64_t id, struct kiln_error *err) KILN_MUST_CHECK;

/* --- fleet.c --------------------------------------------------------------------------------- */
struct kiln_member *kiln_fleet_find(const struct kiln_leader *leader, const char *name);
struct kiln_member *kiln_fleet_get(struct kiln_leader *leader,
                                   const char *name); /* NULL: no memory */
struct kiln_assigned *kiln_fleet_assigned(const struct kiln_member *member, const char *id);
/* A new assignment of the member; NULL at KILN_ASSIGNED_MAX or without memory. */
struct kiln_assigned *kiln_fleet_add(struct kiln_member *member, const char *id, int64_t now_ms);
void kiln_fleet_drop(struct kiln_member *member, struct kiln_assigned *assigned);
void kiln_fleet_clear(struct kiln_leader *leader);
/* A heartbeat that was read now. */
void kiln_fleet_heartbeat(struct kiln_leader *leader, const struct kiln_heartbeat *beat,
                          int64_t now_ms);
/* After a round of heartbeats: members whose lease has expired lose all their assignments. */
void kiln_fleet_expire(struct kiln_leader *leader, int64_t now_ms);
/* The worker acknowledged it. */
void kiln_fleet_finished(struct kiln_leader *leader, const struct kiln_event *event);

/* --- costs.c --------------------------------------------------------------------------------- */
int kiln_costs_load(struct kiln_leader *leader, struct kiln_error *err) KILN_MUST_CHECK;
/* Writes a page of what has changed, now and then. */
int kiln_costs_keep(struct kiln_leader *leader, int64_t now_ms,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* The member has finished it. */
void kiln_costs_learn(struct kiln_leader *leader, const struct kiln_member *member,
                      const struct kiln_assigned *assigned, const struct kiln_event *event);

/* --- streams.c ------------------------------------------------------------------------------- */
void kiln_sleep_ms(uint32_t ms);
/* Appends a field with this text to the worker's stream; a stream that another program has damaged
 * is made anew.  kiln_bus_refusal tells a stream that takes nothing from a bus that is away. */
int kiln_stream_send(struct kiln_leader *leader, const char *worker, const char *field,
                     const char *text, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_stream_send_control(struct kiln_leader *leader, const char *worker,
                             enum kiln_control_kind kind, uint64_t job, const char *id,
                             struct kiln_error *err) KILN_MUST_CHECK;
/* The same for a message that is only a hint: a failure is logged. */
void kiln_stream_hint(struct kiln_leader *leader, const char *worker, enum kiln_control_kind kind,
                      uint64_t job, const char *id);
/* Nothing was assigned to it since it was lost, so its stream has old control messages at most. */
void kiln_stream_delete(struct kiln_leader *leader, const char *worker);
/* After a command on a key under a name of the scheduler's: rc, or 0 if Redis refused that command
 * alone.  Then a foreign value there is removed, as far as nothing is lost by that, and a warning
 * says so; *ret_repaired (may be NULL): the command may be repeated. */
int kiln_stream_repair(struct kiln_leader *leader, const char *key, int rc, bool *ret_repaired,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* Whether events began anew, or control or events take no more entries; due now and then. */
int kiln_streams_check(struct kiln_leader *leader, int64_t now_ms,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* Assigns nothing to the worker until its stream takes entries again. */
void kiln_fleet_block(struct kiln_leader *leader, struct kiln_member *member, int64_t now_ms);
bool kiln_fleet_is_blocked(struct kiln_leader *leader, struct kiln_member *member, int64_t now_ms);

#endif
