/* leader.h - what the leading scheduler knows and does; private to the files that share it.
 *
 * One thread owns all of this.  A second one runs the intake and the standing orders (feed.c) with
 * connections of its own and says through `inserted` that there is something new in the ledger.
 *
 *     leader.c     the step: lead, hear, reconcile, load, dispatch
 *     fleet.c      members (workers with a heartbeat) and the assignments in their hands
 *     fleet_send.c the streams of the workers
 *     hear.c       heartbeats, events and orders from the bus
 *     reconcile.c  the ledger's assigned jobs against the fleet: what comes back to the queue
 *     loader.c     waiting jobs from the ledger into the policy
 *     hold_back.c  what is held: out of the policy, and back when it is let go
 *     feed.c       the second thread
 *     answer.c     what the command line asks the leader
 *     dispatch.c   picks of the policy become assignments
 *     hush.c       warnings that clients cause, not more often than one can read
 *     costs.c      what finished assignments teach, and its way over a restart
 *     gauges.c     the copy of all this that the metrics show
 *
 * Time is CLOCK_MONOTONIC in milliseconds; times of the ledger are its database's wall clock and
 * are brought over by `clock_offset_ms`.
 */
#ifndef KILN_LEADER_H
#define KILN_LEADER_H

#include <pthread.h>
#include <stdatomic.h>

#include "scheduler/gauges.h"
#include "scheduler/holds.h"
#include "scheduler/hush.h"
#include "scheduler/intake/intake.h"
#include "scheduler/pace.h"
#include "scheduler/policy/policy.h"
#include "schemas/config.h"
#include "schemas/metrics.h"
#include "schemas/wire.h"
#include "storage/bus/bus.h"
#include "storage/daemon/outage.h"
#include "storage/ledger/ledger.h"

#define KILN_GUARD_MAX 32    /* assignments remembered of one member */
#define KILN_FINISHED_MAX 32 /* ids of its last finished ones */
#define KILN_KEY_MAX (KILN_NAME_MAX * 2 + 32)
#define KILN_FLEET_MAX 4096 /* members that beats may add, as many as the policy has room for */

/* What clients can make the leader say. */
enum kiln_hushed {
    KILN_HUSH_HEARTBEAT,
    KILN_HUSH_EVENT,
    KILN_HUSH_ORDER,
    KILN_HUSH_ANSWER,
    KILN_HUSH_KEY,
    KILN_HUSH_COUNT
};

/* An assignment, from the ledger's commit until nothing of it is assigned any more. */
struct kiln_assigned {
    char id[KILN_WIRE_ID_MAX + 1];
    char model[KILN_NAME_MAX + 1], lora_set[KILN_LORA_SET_MAX];
    uint64_t tag; /* the policy's name for it */
    uint32_t width, height, steps, count;
    double guidance;
    enum kiln_switch_kind load; /* what had to be loaded for it */
    bool first_of_size;
    uint64_t jobs[KILN_ASSIGN_MAX];
    uint32_t attempts[KILN_ASSIGN_MAX];
    bool open[KILN_ASSIGN_MAX]; /* still assigned, as the last reconciliation saw it */
    bool held;                  /* on its way to the worker or in its hands */
    bool seen;                  /* some beat named it, */
    bool beaten;                /* the latest one does */
    bool begun;                 /* the latest one says that it may have been in the engine */
    bool alone;                 /* it holds a suspect, which shares its worker with nothing */
    bool lost;                  /* its holder is gone: return it now */
    bool clean;                 /* ... having said good-bye, or it had not begun: no crash */
    bool inherited;             /* its holder began anew and may find it unread in its stream */
    uint32_t orphan_rounds;     /* reconciliations in which the beat named it and the ledger not */
    int64_t since_ms;           /* of being assigned, or of being missing */
};

struct kiln_member {
    char name[KILN_NAME_MAX + 1];
    char incarnation[KILN_WIRE_ID_MAX + 1];
    char device_class[KILN_NAME_MAX + 1];
    char
        running[KILN_WIRE_ID_MAX + 1]; /* the assignment that the latest beat says is being drawn */
    bool known;                        /* a beat was read; else only the ledger names it */
    bool present, bye;                 /* in the last round of beats; has said good-bye */
    bool draining;                     /* says the latest beat */
    bool foreign;                      /* speaks another protocol version, which was logged */
    bool tells;                        /* how far it is: `begun` of its hand is its word */
    int64_t started_ms, sent_ms; /* the worker's own words, compared for equality and order only */
    int64_t changed_ms;          /* when a new beat was last read */
    int64_t warned_ms;           /* about a second worker of this name */
    int64_t mute_until_ms;       /* its stream took nothing: not tried before then; 0 = it does */
    struct kiln_assigned *hand[KILN_GUARD_MAX]; /* in the order they were sent */
    uint32_t hand_count;
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
    struct kiln_member **members;
    size_t member_count, member_room;
    char intake_key[KILN_KEY_MAX], events_key[KILN_KEY_MAX], control_key[KILN_KEY_MAX];
    char events_after[48];            /* last event heard */
    char newcomer[KILN_NAME_MAX + 1]; /* unknown names up to this one had their turn */
    char session[32];                 /* begins every assignment id of this leadership */
    uint64_t assignments;
    int64_t lease_ms, beats_due_ms, reconcile_due_ms, lead_due_ms, clock_due_ms, load_due_ms,
        sweep_due_ms, ears_due_ms;
    int64_t costs_due_ms;
    uint64_t costs_kept; /* turn of the cost model up to which the ledger knows it */
    int64_t forget_due_ms;
    uint64_t forget_after;   /* the job that the walk over old ones has reached */
    int64_t bus_back_ms;     /* leases count from here at the earliest: nobody was heard before */
    int64_t clock_offset_ms; /* database - monotonic */
    bool busy;               /* the last round left work behind: the next one does not wait */
    struct kiln_outage bus_outage;
    bool check_cancelled, control_caught_up;
    bool probe_due; /* control and events may be streams that take nothing any more */
    struct kiln_hush hush[KILN_HUSH_COUNT];
    struct kiln_error ledger_error; /* met while hearing; ends the leadership */
    uint64_t loaded_id, sweep_id;   /* cursors */
    bool loaded, sweeping, queue_full;
    int64_t began_ms;
    int64_t sweep_began_ms;
    struct kiln_gauges *gauges; /* the daemon's; NULL where nobody looks */
    struct kiln_holds holds;    /* kept out of the policy */
    int64_t holds_due_ms;
    /* the second thread */
    pthread_t intake_thread;
    bool intake_started;
    atomic_bool stop, inserted, revived; /* revived: jobs of old ids wait again */
};

/* ledger: open and holding the lock; stays the caller's.  Rebuilds everything from the ledger and
 * starts the intake.  config is borrowed. */
int kiln_leader_open(const struct kiln_config *config, struct kiln_ledger *ledger,
                     struct kiln_leader **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_leader_close(struct kiln_leader *leader); /* accepts NULL */
/* One round; waits on the bus for at most wait_ms.  KILN_STALE: somebody else leads.  Any other
 * failure is the ledger's; both end the leadership.  A bus that is away is waited for inside. */
int kiln_leader_step(struct kiln_leader *leader, uint32_t wait_ms,
                     struct kiln_error *err) KILN_MUST_CHECK;

/* --- leader.c -------------------------------------------------------------------------------- */
void kiln_leader_pause(uint32_t ms);
/* After a command on a key under a name of the scheduler's: rc, or 0 if Redis refused that command
 * alone.  Then what another program has put there is removed, as far as nothing is lost by that,
 * and a warning says so; *ret_mended (may be NULL): the command may be repeated. */
int kiln_leader_mend(struct kiln_leader *leader, const char *key, int rc, bool *ret_mended,
                     struct kiln_error *err) KILN_MUST_CHECK;

/* --- fleet.c --------------------------------------------------------------------------------- */
struct kiln_member *kiln_fleet_find(const struct kiln_leader *leader, const char *name);
struct kiln_member *kiln_fleet_get(struct kiln_leader *leader,
                                   const char *name); /* NULL: no memory */
struct kiln_assigned *kiln_fleet_assigned(const struct kiln_member *member, const char *id);
/* A new record in the member's hand; NULL when the hand is full or memory short. */
struct kiln_assigned *kiln_fleet_hand(struct kiln_member *member, const char *id, int64_t now_ms);
void kiln_fleet_drop(struct kiln_member *member, struct kiln_assigned *assigned);
void kiln_fleet_clear(struct kiln_leader *leader);
/* Marks everything the member holds as lost and forgets it in the policy.  clean: nothing crashed;
 * else what its last beat shows to lie well behind the engine is clean nevertheless. */
void kiln_fleet_lose(struct kiln_leader *leader, struct kiln_member *member, bool clean);
/* A beat that was read now. */
void kiln_fleet_heartbeat(struct kiln_leader *leader, const struct kiln_heartbeat *beat,
                          int64_t now_ms);
/* After a round of beats: who has not been heard for too long. */
void kiln_fleet_expire(struct kiln_leader *leader, int64_t now_ms);
/* The worker acknowledged it. */
void kiln_fleet_finished(struct kiln_leader *leader, const struct kiln_event *event);
/* --- fleet_send.c ---------------------------------------------------------------------------- */
/* Appends a field with this text to the worker's stream; a stream that another program has spoiled
 * is made anew.  kiln_bus_refusal tells a stream that takes nothing from a bus that is away. */
int kiln_fleet_send(struct kiln_leader *leader, const char *worker, const char *field,
                    const char *text, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_fleet_send_control(struct kiln_leader *leader, const char *worker,
                            enum kiln_control_kind kind, uint64_t job, const char *id,
                            struct kiln_error *err) KILN_MUST_CHECK;
/* Assigns nothing to the worker until its stream takes entries again. */
void kiln_fleet_mute(struct kiln_leader *leader, struct kiln_member *member, int64_t now_ms);
bool kiln_fleet_is_mute(struct kiln_leader *leader, struct kiln_member *member, int64_t now_ms);
/* Nothing was assigned to it since it was lost, so its stream holds old orders at most. */
void kiln_fleet_drop_stream(struct kiln_leader *leader, const char *worker);

/* --- costs.c --------------------------------------------------------------------------------- */
int kiln_costs_load(struct kiln_leader *leader, struct kiln_error *err) KILN_MUST_CHECK;
/* Writes a page of what has changed, now and then. */
int kiln_costs_keep(struct kiln_leader *leader, int64_t now_ms,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* The member has finished it. */
void kiln_costs_learn(struct kiln_leader *leader, const struct kiln_member *member,
                      const struct kiln_assigned *assigned, const struct kiln_event *event);

/* --- answer.c -------------------------------------------------------------------------------- */
/* To an order of the kind ask.  Failures are the bus's; an answer that cannot be delivered to its
 * asker is none. */
int kiln_answer(struct kiln_leader *leader, const struct kiln_control *order,
                struct kiln_error *err) KILN_MUST_CHECK;

/* --- feed.c ---------------------------------------------------------------------------------- */
/* The second thread; arg is the leader.  Ends when `stop` is set. */
void *kiln_feed_run(void *arg);

/* --- the parts of a step --------------------------------------------------------------------- */
/* Failures of these two are the bus's; one of the ledger is left in ledger_error. */
int kiln_hear(struct kiln_leader *leader, uint32_t wait_ms, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_hear_heartbeats(struct kiln_leader *leader, int64_t now_ms,
                         struct kiln_error *err) KILN_MUST_CHECK;
/* Failures of these are the ledger's. */
/* Returns the jobs of an assignment that are open, and loads those that wait again; cause is what
 * the metrics say of it. */
int kiln_give_back(struct kiln_leader *leader, const struct kiln_member *member,
                   const struct kiln_assigned *assigned, const struct kiln_return *how,
                   enum kiln_return_cause cause, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_reconcile(struct kiln_leader *leader, int64_t now_ms,
                   struct kiln_error *err) KILN_MUST_CHECK;
/* Reads what is held, twice a second or when an order says that it has changed. */
int kiln_hold_back(struct kiln_leader *leader, int64_t now_ms,
                   struct kiln_error *err) KILN_MUST_CHECK;
int kiln_load(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err) KILN_MUST_CHECK;
/* One job by id, if it waits. */
int kiln_load_one(struct kiln_leader *leader, uint64_t id, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_dispatch(struct kiln_leader *leader, int64_t now_ms,
                  struct kiln_error *err) KILN_MUST_CHECK;

#endif
