/* state.h - the policy's data; private to this folder.
 *
 *     model --> sets (with a holder or without) --> groups --> queues (one a tenant) --> jobs
 *
 * Each level is ordered by the rank of its best member, so the best job of anything is a walk
 * down the first elements.  A rank is
 *   hi = BACKFILL_RANK if it is backfill + round of the tenant  (who has used less goes first)
 *   lo = queued_ms - priority * AGEING_MS                       (who waits longer goes first)
 * A tenant's round grows when it is charged, so a stored rank may be too good.  It is corrected
 * when it comes to the front (kiln_policy_best_*).  That is enough: ranks only get worse.
 *
 * "root" in a comment is the root of a treap (treap.h).  The calls between the files are one-way:
 *
 *     treap, slots <- tables, estimates <- deadlines <- ranks <- workers <- may <- urgent <- choose
 *     <- pick;  workers <- batch, take_back, why, policy
 */
#ifndef KILN_POLICY_STATE_H
#define KILN_POLICY_STATE_H

#include <assert.h> /* static_assert */
#include <string.h>

#include "scheduler/policy/policy.h"
#include "scheduler/policy/slots.h"
#include "scheduler/policy/treap.h"
#include "schemas/wire/wire.h"

#define AGEING_MS (3600 * 1000LL) /* what a level of priority is worth */
#define AVOID_MS (60 * 1000LL)    /* how long a job is kept from the worker where it failed */
#define PATIENCE 256.0            /* seconds of waiting longer that weigh as one of switching */
#define FAIR_PATIENCE 64.0        /* the same of the fleet's time that a tenant had more */
#define SIZE_SWITCH_S 0.05        /* a new size in the same set */
#define QUANTUM_S 20.0            /* GPU-seconds of a tenant's round for each worker */
#define IN_FLIGHT_MAX 16          /* assignments of one worker that are tracked, */
#define IN_FLIGHT_LONG 4          /* and in flight there when they are long */
#define AHEAD_S 0.5               /* short ones: given while less than this is ahead */
#define IN_FLIGHT_S 1.0           /* ... and all in flight is less, and no older, than this */
#define KNOWN_MIN 3               /* assignments that a worker finishes before it counts as quick */
#define RECENT_MAX 32             /* sets that a worker had last: their files are in its memory */
#define SIZES_MAX 8               /* sizes that a worker rendered last: it has their graphs */
#define HEAT_S 60.0               /* how long a set is remembered as asked for */
#define LEAD_MS 2000              /* long work is given this long before the worker is idle, */
#define LEAD_LOAD_S 20.0          /* plus the time to load a set, at most this */

struct pol_job {
    uint64_t id, batch_id;
    int64_t queued_ms;
    int64_t wake_ms; /* backing off until then; 0 = ready */
    uint32_t queue;
    uint32_t confirmed; /* sweep in which the ledger last named it */
    float due_s;        /* what it adds to the work with a deadline; 0 = none, or backing off */
    int8_t priority;
    bool has_deadline : 1; /* job_due contains it */
    bool later : 1;        /* counted in the coarse buckets */
    bool asks : 1;         /* for a stored latent */
    bool unplaced : 1;     /* its look found a latent, but its group has no room */
    struct kiln_reuse_look look;
    /* two treap nodes (64) and the slot table (12 to 16) come on top */
};
static_assert(sizeof(struct pol_job) == 72, "a million jobs wait in 150 MB");

struct pol_queue { /* the ready jobs of one tenant in one group */
    uint32_t group, tenant, jobs /* root */;
    uint32_t refs; /* jobs, ready or backing off, that name this queue */
    bool listed;   /* among its group's queues */
};

struct pol_group {
    uint32_t set, width, height, steps;
    char mode[KILN_MODE_MAX]; /* "" = exact */
    uint32_t minor;           /* of workers that know the mode */
    uint32_t skip;            /* steps that stored latents are expected to save, */
    bool skip_coarse;         /* small ones of coarse runs */
    char runs[KILN_MODE_MAX]; /* the mode in which it is expected to run, which it costs */
    double guidance;
    uint32_t queues;   /* root */
    uint32_t refs;     /* queues */
    uint32_t ready;    /* jobs that could go now */
    double unit_s;     /* of one of them on a worker of speed 1: ready * unit_s is the backlog */
    uint64_t costs_at; /* turn of the cost model that unit_s is from */
    bool alone, listed;
    uint32_t avoid;         /* hash of the name of the worker where its jobs failed; 0 = none */
    int64_t avoid_until_ms; /* of the job that failed last */
    uint64_t fewest_at;     /* epoch that fewest is from; 0 = none */
    uint32_t fewest;        /* files that the best other worker must fetch (may.c) */
};

struct pol_set {
    uint32_t model;
    char lora_set[KILN_LORA_SET_MAX];
    uint64_t files[KILN_LORAS_MAX]; /* that lora_set names */
    uint32_t file_count;
    uint32_t groups;         /* root */
    uint32_t deadlines;      /* root: jobs with a deadline, by deadline */
    uint32_t refs;           /* groups, holders, assignments */
    uint32_t holders;        /* workers that have or will have it */
    uint32_t ranked_holders; /* root: the same, best first (workers.c) */
    uint32_t ready;
    double backlog_s, holder_speed;
    double switch_s; /* a cold load of it, as of turn costs_at */
    uint64_t costs_at;
    double heat;        /* jobs that came lately, forgotten over HEAT_S */
    int64_t heat_ms;    /* as of then */
    bool listed;        /* among its model's sets, */
    bool in_held;       /* ... in held_sets, not free_sets */
    bool has_due;       /* in due_sets */
    bool loaded;        /* in loaded_sets */
    bool hot;           /* in hot_sets */
    uint32_t asking;    /* jobs that ask for a stored latent; if there are any: */
    uint32_t asking_at; /* position in asking_sets */
};

struct pol_model {
    char name[KILN_NAME_MAX + 1];
    uint32_t free_sets, held_sets; /* roots by rank: sets without a holder, and with one */
    uint32_t due_sets;             /* root: by first deadline */
    uint32_t loaded_sets;          /* root: sets with a holder, the most loaded first */
    uint32_t rooms;                /* root: its workers that would take work */
    uint32_t refs, workers, ready;
};

struct pol_tenant {
    char name[KILN_NAME_MAX + 1];
    double used_s;  /* GPU-seconds charged; on joining, lifted to that of who is served */
    double spent_s; /* of them, in this round */
    uint64_t round; /* grows by one a quantum, never shrinks; on joining, lifted like used_s */
    uint32_t ready, refs;
};

struct pol_assignment {
    uint64_t tag;
    uint32_t set;     /* KILN_NONE: not picked here */
    float expected_s; /* switching and computing */
    int64_t since_ms; /* when it was given */
    bool alone;
    bool taken;     /* back by kiln_policy_take_back */
    uint32_t minor; /* needs a worker of this one at least */
};

struct pol_worker {
    char name[KILN_NAME_MAX + 1];
    char device[KILN_NAME_MAX + 1]; /* class */
    uint32_t model;                 /* slot */
    uint32_t set;                   /* slot of the set it will end with */
    uint32_t width, height, steps;  /* the same for the size, */
    char mode[KILN_MODE_MAX];       /* ... and for the mode; "" until it is given work */
    uint32_t capacity, capacity_short, rendered, batch_max;
    struct pol_assignment in_flight[IN_FLIGHT_MAX]; /* oldest first */
    uint32_t in_flight_count;
    uint32_t recent[RECENT_MAX], recent_turn; /* hashes of sets */
    uint32_t sizes[SIZES_MAX], sizes_turn;    /* hashes of sizes */
    double since_switch_s;                    /* work that it got since it last changed its set */
    double speed;                             /* 1 is the fleet's mean */
    int64_t free_ms;                          /* when it will be idle, or has been since */
    uint32_t busy;     /* assignments that it runs or will run; others are rendered */
    uint32_t finished; /* rendered since it is known here */
    bool draining, room, in_rooms;
    uint32_t name_hash;  /* never 0 */
    uint32_t minor;      /* of the protocol */
    uint64_t tried;      /* epoch in which nothing was found for it */
    bool tells_files;    /* disks has what is on its disk, */
    uint32_t file_count; /* in ascending order */
};

struct pol_disk { /* of LoRAs on a worker's disk */
    uint64_t at[KILN_HEARTBEAT_FILES_MAX];
};

#define MODELS_MAX 64
#define BUCKETS 1024           /* of work with a deadline: two rings */
#define BUCKET_FINE_MS 1024    /* nearly 18 minutes of them; */
#define BUCKET_COARSE_MS 65536 /* later ones, nearly 19 hours; beyond that, none */

struct kiln_policy {
    const struct kiln_cost_model *costs;
    struct kiln_slots job_slots, queue_slots, group_slots, set_slots, tenant_slots, worker_slots,
        model_slots;
    struct pol_job *jobs;
    struct pol_queue *queues;
    struct pol_group *groups;
    struct pol_set *sets;
    struct pol_tenant *tenants;
    struct pol_worker *workers;
    struct pol_model *models;
    bool *worker_used;
    struct pol_disk *disks; /* of the workers; the memory of those that tell none is not touched */
    /* treap nodes, one array for each treap that a thing can be in */
    struct kiln_treap_node *job_rank, *job_due, *queue_rank, *group_rank, *set_rank, *set_due,
        *set_load, *set_hot, *tenant_used, *worker_room, *holder_rank;
    uint32_t sleepers;       /* root in job_rank: jobs that back off, by wake time */
    uint32_t active_tenants; /* root in tenant_used: tenants with ready jobs */
    uint32_t hot_sets;       /* root in set_hot: sets with work and a holder with room, */
                             /* by how soon that holder is free */
    uint32_t ready, workers_alive;
    double backlog_s;
    double served_used_s;        /* the most that a tenant had used when it was served, */
    uint64_t served_round;       /* and its round: the fair queue's virtual time */
    double speed_sum, speed_max; /* of the workers that take work */
    double load_s;               /* a cold load of a set that was never measured */
    double batch_s;              /* what an assignment usually takes, switching included */
    uint32_t pool_model;         /* slot of the model "", which every worker serves */
    uint32_t worker_span;        /* slots of workers ever used are below this */
    int64_t last_ms;             /* of the last pick: another time is another epoch */
    /* seconds of work by deadline; what is due up to the horizon must go now */
    float *fine, *coarse;
    uint32_t deadlines;
    int64_t horizon_ms, horizon_at_ms;
    uint32_t sweep;
    uint32_t *asking_sets; /* those with jobs that ask for a stored latent, in any order */
    uint32_t asking_set_count;
    uint32_t sought; /* groups that failed somewhere and need files, which few workers may have */
    uint64_t epoch, next_tag, picks, switches;
};

/* Whether jobs of two groups of one set are rendered alike but for the steps that are left. */
static inline bool pol_renders_alike(const struct pol_group *a, const struct pol_group *b)
{
    return a->width == b->width && a->height == b->height && a->steps == b->steps &&
           a->guidance == b->guidance && strcmp(a->mode, b->mode) == 0;
}

/* --- tables.c: finding and making the rows --------------------------------------------------- */
/* A job of the queue's set that asks for a stored latent comes, or goes. */
void kiln_policy_note_asking(struct kiln_policy *p, uint32_t queue, bool comes);
/* 0 for NULL or "", and for nothing else. */
uint32_t kiln_policy_name_hash(const char *name);
uint32_t kiln_policy_find_job(const struct kiln_policy *p, uint64_t id);
uint32_t kiln_policy_find_worker(const struct kiln_policy *p, const char *name);
uint32_t kiln_policy_make_worker(struct kiln_policy *p, const char *name); /* KILN_NONE: full */
uint32_t kiln_policy_find_set(const struct kiln_policy *p, uint32_t model, const char *lora_set);
/* Find or make; KILN_NONE when the table is full.  A made row has no references yet. */
uint32_t kiln_policy_get_model(struct kiln_policy *p, const char *name);
uint32_t kiln_policy_get_set(struct kiln_policy *p, uint32_t model, const char *lora_set);
uint32_t kiln_policy_get_tenant(struct kiln_policy *p, const char *name);
uint32_t kiln_policy_get_group(struct kiln_policy *p, uint32_t set,
                               const struct kiln_policy_job *job);
uint32_t kiln_policy_get_queue(struct kiln_policy *p, uint32_t group, uint32_t tenant);
/* Free a row that nothing refers to, and what it alone referred to. */
void kiln_policy_drop_queue(struct kiln_policy *p, uint32_t queue);
void kiln_policy_drop_job(struct kiln_policy *p, uint32_t job); /* it is in no order any more */
void kiln_policy_drop_group(struct kiln_policy *p, uint32_t group);
void kiln_policy_drop_set(struct kiln_policy *p, uint32_t set);
void kiln_policy_drop_tenant(struct kiln_policy *p, uint32_t tenant);
void kiln_policy_drop_model(struct kiln_policy *p, uint32_t model);

/* --- estimates.c: what work and switches cost ------------------------------------------------ */
/* A batch of the group as the cost model knows it; worker NULL: on any device. */
struct kiln_cost_shape kiln_policy_shape(const struct kiln_policy *p, uint32_t group, uint32_t jobs,
                                         const struct pol_worker *worker);
/* What one job of the group, and a cold load of the set, cost as of now. */
double kiln_policy_unit_s(struct kiln_policy *p, uint32_t group);
double kiln_policy_switch_s(struct kiln_policy *p, uint32_t set);
/* The ready jobs of the set have changed by so many seconds of work. */
void kiln_policy_add_backlog(struct kiln_policy *p, uint32_t set, double seconds);
/* Jobs of the set that came lately, with `more` new ones. */
double kiln_policy_heat(struct kiln_policy *p, uint32_t set, double more);
/* What it takes this worker to have the set. */
uint32_t kiln_policy_set_hash(const struct pol_set *set);
enum kiln_switch_kind kiln_policy_switch_kind(const struct kiln_policy *p,
                                              const struct pol_worker *worker, uint32_t set);
double kiln_policy_load_s(const struct kiln_policy *p, const struct pol_worker *worker,
                          uint32_t set);
/* What is on the worker's disk (kiln_policy_worker). */
void kiln_policy_set_files(struct kiln_policy *p, uint32_t worker, const uint64_t *files,
                           uint32_t count);
/* Files of the set that the worker would have to fetch first, as far as it tells. */
uint32_t kiln_policy_fetches(const struct kiln_policy *p, const struct pol_worker *worker,
                             uint32_t set);
/* Whether the worker has graphs for the group's size, and what recording them costs if not. */
uint32_t kiln_policy_size_hash(const struct pol_group *group);
bool kiln_policy_has_size(const struct pol_worker *worker, const struct pol_group *group);
double kiln_policy_capture_s(const struct kiln_policy *p, const struct pol_worker *worker,
                             uint32_t group);
/* How long before a worker is idle it gets its next work: long enough to load a set. */
int64_t kiln_policy_lead_ms(const struct kiln_policy *p);
/* Seconds until the holders have rendered all that waits for the set, once they are at it. */
double kiln_policy_holders_s(const struct kiln_policy *p, uint32_t set);
/* Its holders would still be at it when all others have finished. */
bool kiln_policy_overloaded(struct kiln_policy *p, uint32_t set);
/* Seconds of loading that so many holders of the set will probably save. */
double kiln_policy_worth_s(struct kiln_policy *p, uint32_t set, uint32_t holders);
/* What the worker loses by giving its set up. */
double kiln_policy_regret_s(struct kiln_policy *p, const struct pol_worker *worker);

/* --- deadlines.c ----------------------------------------------------------------------------- */
void kiln_policy_add_deadline(struct kiln_policy *p, uint32_t job);
void kiln_policy_remove_deadline(struct kiln_policy *p, uint32_t job);
/* Deadlines up to this are urgent. */
int64_t kiln_policy_horizon(struct kiln_policy *p, int64_t now_ms);
/* Seconds before a deadline from which on nobody is waited for. */
double kiln_policy_reserve_s(const struct kiln_policy *p);

/* --- ranks.c: keeping the levels in order ---------------------------------------------------- */
/* Whether the queue, group or set of this rank has nothing better than backfill. */
#define BACKFILL_RANK (INT64_C(1) << 40)
static inline bool pol_is_backfill(const struct kiln_treap_node *rank)
{
    return rank->hi >= BACKFILL_RANK;
}
/* Puts the slot at *key in a treap, or takes it out (NULL); *listed says whether it is in. */
void kiln_policy_place(struct kiln_treap_node *nodes, uint32_t *root, uint32_t slot, bool *listed,
                       const struct kiln_treap_node *key);
/* A ready job enters or leaves its queue and everything above is put in order. */
void kiln_policy_job_ready(struct kiln_policy *p, uint32_t job);
void kiln_policy_job_unready(struct kiln_policy *p, uint32_t job);
/* The best member with ranks corrected, or KILN_NONE. */
uint32_t kiln_policy_best_set(struct kiln_policy *p, uint32_t *root);
uint32_t kiln_policy_best_group(struct kiln_policy *p, uint32_t set);
uint32_t kiln_policy_best_queue(struct kiln_policy *p, uint32_t group);
/* A set's place among the sets of its model, after its holders or jobs have changed. */
void kiln_policy_place_set(struct kiln_policy *p, uint32_t set);
/* A set's place among the hot ones, after its work or a holder's room has changed. */
void kiln_policy_place_hot(struct kiln_policy *p, uint32_t set);
/* Charges a tenant with seconds of GPU time. */
void kiln_policy_charge(struct kiln_policy *p, uint32_t tenant, double seconds);
/* Moves jobs whose backoff has ended to their queues. */
void kiln_policy_wake(struct kiln_policy *p, int64_t now_ms);

/* --- workers.c: who has what, and who has room ------------------------------------------------ */
/* The set that the worker will end with changes (KILN_NONE: nothing known). */
void kiln_policy_plan_set(struct kiln_policy *p, uint32_t worker, uint32_t set);
/* Puts the worker in order after its assignments or its capacity have changed. */
void kiln_policy_place_worker(struct kiln_policy *p, uint32_t worker);
/* One more assignment is in flight there. */
void kiln_policy_add_assignment(struct kiln_policy *p, uint32_t worker,
                                const struct pol_assignment *assignment, int64_t now_ms);

/* --- batch.c --------------------------------------------------------------------------------- */
/* How many jobs of the group the worker should render at once. */
uint32_t kiln_policy_batch_size(struct kiln_policy *p, const struct pol_worker *worker,
                                uint32_t group);

/* --- may.c, urgent.c, choose.c: from a worker to the group that it is served with ------------- */
struct pol_choice {
    uint32_t group;
    uint32_t job; /* goes first; KILN_NONE: in the order of the group */
    enum kiln_policy_rule rule;
};
/* Whether the worker may take the group; whether some holder of the set may. */
bool kiln_policy_allowed(const struct kiln_policy *p, const struct pol_worker *worker,
                         uint32_t group);
bool kiln_policy_holder_may(const struct kiln_policy *p, uint32_t set, uint32_t group);
/* Rule 1: a deadline that goes first, in the worker's model or the pool's (KILN_NONE: no second
 * one); false: there is none. */
bool kiln_policy_overdue(struct kiln_policy *p, const struct pol_worker *worker,
                         const uint32_t models[2], int64_t now_ms, struct pol_choice *ret);
/* All rules; false: nothing for this worker. */
bool kiln_policy_choose(struct kiln_policy *p, const struct pol_worker *worker, int64_t now_ms,
                        struct pol_choice *ret);

#endif
