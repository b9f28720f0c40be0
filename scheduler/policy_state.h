/* policy_state.h - the policy's data; private to the policy_*.c files.
 *
 *     model --> sets (two orders: free and held) --> groups --> queues (one a tenant) --> jobs
 *
 * Each level is ordered by the rank of its best member, so the best job of anything is a walk
 * down the first elements.  A rank is (class and round, virtual time):
 *   hi = backfill << 40 | round of the tenant      (who has used less goes first)
 *   lo = queued_ms - priority * AGEING_MS          (who waits longer goes first)
 * A tenant's round grows when it is charged; stored ranks may then be too good.  They are put
 * right when they come to the front (kiln_policy_best_*), which is enough: ranks only get worse
 * that way.
 */
#ifndef KILN_POLICY_STATE_H
#define KILN_POLICY_STATE_H

#include "scheduler/order.h"
#include "scheduler/policy.h"
#include "scheduler/slots.h"

#define AGEING_MS (3600 * 1000LL) /* what a level of priority is worth */
#define PATIENCE 32.0             /* seconds of unfairness that weigh as one second of switching */
#define SIZE_SWITCH_S 0.05        /* a new size in the same set */
#define QUANTUM_S 20.0            /* GPU-seconds of a tenant's round for each worker */
#define MARGIN_MAX_MS 60000       /* a promise becomes urgent at most this long before its end */
#define HELD_MAX 4                /* assignments of one worker that are tracked */

struct pol_job {
    uint64_t id, batch_id;
    int64_t queued_ms;
    int64_t wake_ms;    /* sleeping until then; 0 = ready */
    uint32_t margin_ms; /* urgent this long before the deadline; 0 = no promise */
    uint32_t queue;
    float cost_s;
    uint32_t confirmed; /* sweep in which the ledger last named it */
    int8_t priority;
    /* 48 bytes; two order nodes (64) and the slot table (8 to 16) come on top */
};

struct pol_queue { /* the ready jobs of one tenant in one group */
    uint32_t group, tenant, jobs /* root */;
    uint32_t refs; /* jobs, ready or sleeping, that name this queue */
    bool listed;   /* in its group's order */
};

struct pol_group {
    uint32_t set, width, height, steps;
    double guidance;
    uint32_t queues; /* root */
    uint32_t refs;   /* queues */
    uint32_t ready;  /* jobs that could go now */
    double backlog_s;
    bool alone, listed;
};

struct pol_set {
    uint32_t model;
    char lora_set[KILN_LORA_SET_MAX];
    uint32_t groups;    /* root */
    uint32_t deadlines; /* root over jobs with a promise, by urgent time */
    uint32_t refs;      /* groups and holders */
    uint32_t holders;   /* workers that have or will have it */
    uint32_t ready;
    double backlog_s;
    bool listed, in_held; /* in its model's order, and in which */
    bool promised;        /* in its model's order by deadline */
};

struct pol_model {
    char name[KILN_NAME_MAX + 1];
    uint32_t free_sets, held_sets, promised_sets; /* roots */
    uint32_t refs, workers;
};

struct pol_tenant {
    char name[KILN_NAME_MAX + 1];
    double used_s;  /* GPU-seconds charged; on joining, lifted to the least of the active ones */
    double spent_s; /* of them, in this round */
    uint64_t round; /* grows by one a quantum, never shrinks; on joining, lifted like used_s */
    uint32_t ready, refs;
};

struct pol_held {
    uint64_t tag;
    bool alone;
};

struct pol_worker {
    char name[KILN_NAME_MAX + 1];
    uint32_t model;                /* slot */
    uint32_t set;                  /* slot of the set it will end with */
    uint32_t width, height, steps; /* the same for the size */
    uint32_t capacity, batch_max, held_count;
    struct pol_held held[HELD_MAX];
    bool draining;
    uint64_t tried; /* epoch in which nothing was found for it */
};

#define MODELS_MAX 64

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
    /* order nodes, one array for each order a thing can be in */
    struct kiln_order_node *job_rank, *job_due, *queue_rank, *group_rank, *set_rank, *set_due,
        *tenant_used;
    uint32_t sleepers;       /* root in job_rank: sleeping jobs by wake time */
    uint32_t active_tenants; /* root in tenant_used: tenants with ready jobs */
    uint32_t ready, workers_alive;
    double backlog_s;
    uint32_t pool_model;  /* slot of the model "", which every worker serves */
    uint32_t worker_span; /* slots of workers ever used are below this */
    int64_t last_ms;      /* of the last pick: another time is another epoch */
    uint32_t sweep;
    uint64_t epoch, next_tag, picks, switches;
};

/* --- policy_index.c: keeping the levels in order --------------------------------------------- */
/* A ready job enters or leaves its queue and everything above is put in order. */
void kiln_policy_job_ready(struct kiln_policy *p, uint32_t job);
void kiln_policy_job_unready(struct kiln_policy *p, uint32_t job);
/* The best member with ranks put right, or KILN_NONE. */
uint32_t kiln_policy_best_set(struct kiln_policy *p, uint32_t *root);
uint32_t kiln_policy_best_group(struct kiln_policy *p, uint32_t set);
uint32_t kiln_policy_best_queue(struct kiln_policy *p, uint32_t group);
/* The worker's planned set changes (KILN_NONE: to nothing known). */
void kiln_policy_worker_takes(struct kiln_policy *p, uint32_t worker, uint32_t set);
/* Charges a tenant with seconds of GPU time. */
void kiln_policy_charge(struct kiln_policy *p, uint32_t tenant, double seconds);
/* Moves sleepers whose time has come to their queues. */
void kiln_policy_wake(struct kiln_policy *p, int64_t now_ms);

/* --- policy_tables.c: finding and making the rows -------------------------------------------- */
uint32_t kiln_policy_find_job(const struct kiln_policy *p, uint64_t id);
uint32_t kiln_policy_find_worker(const struct kiln_policy *p, const char *name);
/* Find or make; KILN_NONE when the table is full.  A made row has no references yet. */
uint32_t kiln_policy_get_model(struct kiln_policy *p, const char *name);
uint32_t kiln_policy_get_set(struct kiln_policy *p, uint32_t model, const char *lora_set);
uint32_t kiln_policy_get_tenant(struct kiln_policy *p, const char *name);
uint32_t kiln_policy_get_group(struct kiln_policy *p, uint32_t set,
                               const struct kiln_policy_job *job);
uint32_t kiln_policy_get_queue(struct kiln_policy *p, uint32_t group, uint32_t tenant);
/* Give back a row that nothing refers to, and what it alone referred to. */
void kiln_policy_drop_queue(struct kiln_policy *p, uint32_t queue);
void kiln_policy_drop_group(struct kiln_policy *p, uint32_t group);
void kiln_policy_drop_set(struct kiln_policy *p, uint32_t set);
void kiln_policy_drop_tenant(struct kiln_policy *p, uint32_t tenant);
void kiln_policy_drop_model(struct kiln_policy *p, uint32_t model);

#endif
