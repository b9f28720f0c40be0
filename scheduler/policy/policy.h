/* policy.h - which jobs a worker should render next.
 *
 * No I/O, no clock, no threads: time comes in as milliseconds of any steady clock.  The ledger and
 * the bus are the caller's.  All memory is taken by _new, from the limits.  The same code runs in
 * the daemon and under simulated time.
 *
 * Vocabulary: a *set* is (model, LoRA set): what a worker must load, so changing it costs time.
 * A *group* is a set plus width, height, steps, mode, guidance and the steps that a stored latent
 * is expected to save: what can share a batch, from whatever starts.  A *holder* of a set is a
 * worker in which it is or will be resident.  The rules, first match wins (choose.c):
 *
 *   1. overdue   jobs whose deadline needs the fleet from now on (deadlines.c), those of the
 *                worker's own set before others
 *   2. stay      on the set while the penalty of the others is below the cost of switching
 *   3. open      the best waiting set without a holder
 *   4. join      a set with holders, only if they are overloaded with it, or if the worker is idle
 *                and something would begin sooner with its help
 *
 * Among waiting jobs: backfill (priority -10) last; then the tenant that has used fewest
 * GPU-seconds, in rounds of a quantum (deficit round robin); then who waits longest, a level of
 * priority being worth an hour of waiting.  A job that crashed a worker before runs alone, on a
 * worker that has nothing else in flight.  A job that failed is kept from that worker for a minute
 * while another one takes jobs of its kind: the fault may be the worker's, or its store's.
 *
 * A LoRA file that a worker does not have on its disk is fetched first, which takes it longer than
 * a worker that has the file: of idle workers the one that begins sooner takes the set, and of sets
 * that wait equally long a worker opens the one that it fetches least for.
 *
 * A worker runs one assignment and has one ahead.  Of short ones it has more ahead: an assignment
 * hides the latency of a message only for as long as it runs.
 *
 * Every call is O(log n) in jobs, sets and workers unless its comment says otherwise.  A waiting
 * job takes about 155 bytes.
 */
#ifndef KILN_POLICY_H
#define KILN_POLICY_H

#include "scheduler/policy/cost_model.h"
#include "schemas/error.h"
#include "schemas/job.h"
#include "schemas/reuse/look.h"

struct kiln_policy;

struct kiln_policy_limits {
    uint32_t jobs, sets, groups, tenants, workers; /* 0 = the default of policy.c */
};

/* A waiting job; the texts are copied. */
struct kiln_policy_job {
    uint64_t id, batch_id;
    const char *model, *lora_set, *tenant;
    uint32_t width, height, steps;
    const char *mode; /* its text; NULL or "" = exact */
    uint32_t skip;    /* steps that a stored latent is expected to save; 0 = none */
    bool skip_coarse; /* small steps of a run that stays coarse first */
    bool asks;        /* whether it may begin from one is to be looked up before it goes */
    double guidance;
    int32_t priority;
    uint32_t max_wait_s;   /* 0 = no deadline */
    int64_t queued_ms;     /* on the policy's clock */
    int64_t not_before_ms; /* backs off until then */
    bool alone;            /* a suspect: no batch neighbours */
    const char *avoid;     /* the worker where it failed last; NULL or "" = none */
};

/* What a worker says of itself. */
struct kiln_policy_worker {
    const char *model, *lora_set; /* resident */
    uint32_t width, height;       /* of its last batch; 0 = none */
    uint32_t capacity;            /* assignments in flight that it takes: running, ahead, ... */
    uint32_t capacity_short;      /* ... while they are short; below capacity: no difference */
    uint32_t rendered;            /* of those in flight: being stored or committed */
    double left_s;                /* of the running batch, by its steps; 0: unknown */
    uint32_t batch_max;
    bool draining;
    uint32_t minor; /* of the protocol: it gets jobs of the modes it knows (kiln_mode_minor) */
    /* LoRA files on its disk, as in its heartbeats; copied.  NULL: not told, so nothing counts as
     * missing there. */
    const uint64_t *files;
    uint32_t file_count;
    const char *device; /* class of hardware, for the cost model; NULL or "" = any */
};

enum kiln_policy_rule {
    KILN_RULE_OVERDUE,
    KILN_RULE_STAY,
    KILN_RULE_OPEN,
    KILN_RULE_JOIN,
};
const char *kiln_policy_rule_name(enum kiln_policy_rule rule);

struct kiln_policy_pick {
    char worker[KILN_NAME_MAX + 1];
    uint64_t tag; /* names the assignment until kiln_policy_release */
    uint64_t ids[KILN_ASSIGN_MAX];
    struct kiln_reuse_look looks[KILN_ASSIGN_MAX]; /* of each, the last that was said of
                                                      it; zero: look again */
    uint32_t count;
    uint32_t skip; /* steps that the first ones are expected to save; the last that wait for this
                      size and set may save others */
    enum kiln_policy_rule rule;
    double compute_s, switch_s; /* expected */
    double capture_s;           /* ... more, if it is the worker's first of this size */
    enum kiln_switch_kind load; /* what switch_s is for */
    bool first_of_size;
};

/* costs is borrowed for the policy's life.  NULL limits: all defaults. */
int kiln_policy_new(const struct kiln_policy_limits *limits, const struct kiln_cost_model *costs,
                    struct kiln_policy **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_policy_free(struct kiln_policy *policy); /* accepts NULL */

/* --- jobs ------------------------------------------------------------------------------------ */
/* KILN_EXISTS if the id waits here already, KILN_FULL when a limit is reached (the job stays
 * where it came from; try again when others have gone). */
int kiln_policy_add(struct kiln_policy *policy, const struct kiln_policy_job *job,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* The job is expected to begin from this donor; job 0: it runs in full.  It keeps its place among
 * the waiting jobs.  Without effect on one that is not known, or has failed before.  look: how that
 * was found out; copied. */
void kiln_policy_expect(struct kiln_policy *policy, uint64_t id, const struct kiln_donor *donor,
                        const struct kiln_reuse_look *look);
/* Jobs that ask and are among the first that go of their kind, and of which the last look is
 * outdated, by rank; returns how many, at most max.  Looks at KILN_POLICY_SOON jobs at most, of the
 * LoRA sets that a stored latent may serve. */
#define KILN_POLICY_SOON 2048
typedef bool kiln_policy_serves(const void *arg, const char *lora_set);
typedef bool kiln_policy_outdated(const void *arg, const struct kiln_reuse_look *look);
size_t kiln_policy_to_look(const struct kiln_policy *policy, kiln_policy_serves *serves,
                           kiln_policy_outdated *outdated, const void *arg, uint64_t *ret,
                           size_t max);
/* Whether it was there. */
bool kiln_policy_remove(struct kiln_policy *policy, uint64_t id);
/* All waiting jobs of a batch; looks at every job.  Returns how many. */
uint32_t kiln_policy_remove_batch(struct kiln_policy *policy, uint64_t batch_id);
/* All waiting jobs that match; the job is borrowed, without its times.  Looks at every job. */
typedef bool kiln_policy_matches(const void *arg, const struct kiln_policy_job *job);
uint32_t kiln_policy_remove_where(struct kiln_policy *policy, kiln_policy_matches *matches,
                                  const void *arg);

/* For comparing with the ledger: between the two calls the caller adds every job that still waits
 * there again (KILN_EXISTS confirms it).  _end drops those not added and returns how many. */
void kiln_policy_sweep_begin(struct kiln_policy *policy);
uint32_t kiln_policy_sweep_end(struct kiln_policy *policy);

/* --- workers --------------------------------------------------------------------------------- */
/* Adds the worker or updates what is known of it. */
int kiln_policy_worker_set(struct kiln_policy *policy, const char *name,
                           const struct kiln_policy_worker *worker,
                           struct kiln_error *err) KILN_MUST_CHECK;
/* Forgets it and what is in flight there. */
void kiln_policy_worker_remove(struct kiln_policy *policy, const char *name);
/* Assigns it nothing until the next kiln_policy_worker_set. */
void kiln_policy_worker_suspend(struct kiln_policy *policy, const char *name);
/* An assignment that was not picked here (found after a restart) is in flight under this tag. */
void kiln_policy_adopt(struct kiln_policy *policy, const char *name, uint64_t tag, bool alone);
/* It is in flight no longer; _finish: because the worker has rendered it. */
void kiln_policy_release(struct kiln_policy *policy, const char *name, uint64_t tag);
void kiln_policy_finish(struct kiln_policy *policy, const char *name, uint64_t tag);

/* --- deciding -------------------------------------------------------------------------------- */
/* The next assignment worth making now, idle workers first; false: none.  The jobs leave the policy
 * and the assignment is in flight.  Call until false. */
bool kiln_policy_pick(struct kiln_policy *policy, int64_t now_ms, struct kiln_policy_pick *ret);
/* An assignment that is ahead at a busy worker and that an idle one would end sooner; false: none.
 * For when there is nothing to pick.  The caller releases it (kiln_policy_release) and adds its
 * jobs again, or leaves it: it is not returned twice. */
struct kiln_policy_taken_back {
    char worker[KILN_NAME_MAX + 1]; /* that has it ahead */
    uint64_t tag;
    double gain_s; /* expected */
};
bool kiln_policy_take_back(struct kiln_policy *policy, int64_t now_ms,
                           struct kiln_policy_taken_back *ret);
/* When time alone may change the answer: a backoff or a deadline ends; INT64_MAX for never. */
int64_t kiln_policy_next_ms(const struct kiln_policy *policy, int64_t now_ms);

/* --- looking --------------------------------------------------------------------------------- */
struct kiln_policy_counts {
    uint32_t waiting, sleeping, groups, sets, workers;
    uint64_t picks, switches; /* since _new */
    double backlog_s;         /* GPU-seconds of all waiting jobs */
};
void kiln_policy_counts(const struct kiln_policy *policy, struct kiln_policy_counts *ret);

struct kiln_policy_group {
    const char *model, *lora_set, *mode; /* borrowed until the next call */
    uint32_t width, height, steps, skip, jobs, holders;
    double guidance, backlog_s;
    int64_t queued_ms; /* since when the next job waits, of the tenant that waits longest */
    bool alone;
};
/* Lists at most `max` of the groups; returns how many. */
size_t kiln_policy_groups(const struct kiln_policy *policy, struct kiln_policy_group *ret,
                          size_t max);

/* Why a job waits. */
enum kiln_policy_reason {
    KILN_REASON_BACKOFF,   /* it backs off after a failure */
    KILN_REASON_NO_WORKER, /* no worker serves its model, or knows its mode */
    KILN_REASON_DEADLINE,  /* it goes next: its deadline is urgent */
    KILN_REASON_SUSPECT,   /* it must run alone, on an idle worker */
    KILN_REASON_BACKFILL,  /* other jobs want the capacity */
    KILN_REASON_TENANT,    /* its tenant has had more than others that wait */
    KILN_REASON_HOLDERS,   /* the holders of its set are at work on it */
    KILN_REASON_UNOPENED,  /* its set has no holder: opening it does not pay yet */
};
const char *kiln_policy_reason_name(enum kiln_policy_reason reason);

struct kiln_policy_why {
    enum kiln_policy_reason reason;
    uint32_t place, of;   /* among the jobs of its tenant in its group, in all of the group */
    uint32_t holders;     /* of its set */
    double start_s;       /* from now; with what is known now */
    double low_s, high_s; /* if all goes well; if all that may go before it does */
    char text[512];       /* the same as one sentence */
};
/* KILN_NOT_FOUND if it does not wait here.  start_s is infinite while no worker serves it.  The
 * times are sums of rendering and loading: a worker whose encoder is slower than its device takes
 * longer. */
int kiln_policy_why(const struct kiln_policy *policy, uint64_t id, int64_t now_ms,
                    struct kiln_policy_why *ret, struct kiln_error *err) KILN_MUST_CHECK;

#endif
