/* rule.h - who is served next: the face that the event loop of sim.c sees of a policy.
 *
 * The loop owns time and workers and tells a rule what happens; a rule owns which jobs wait.  One
 * is made for one run.
 */
#ifndef KILN_SIM_RULE_H
#define KILN_SIM_RULE_H

#include "scheduler/sim/disks.h"
#include "scheduler/sim/sim.h"
#include "schemas/limits.h"

/* What rules may look at; the loop keeps it up to date. */
struct kiln_sim_world {
    const struct kiln_trace *trace;
    const struct kiln_sim_options *options;
    const int64_t *service_ns; /* of each job, as the cost model would say: in full, no noise */
    const uint8_t *skips;      /* steps that each will skip */
    const struct kiln_disks *disks; /* NULL: fetching costs nothing */
    uint32_t *resident;             /* the set of each worker; KILN_NONE before its first */
};

struct kiln_sim_rule {
    void *self;
    /* The job has arrived. */
    int (*add)(void *self, uint32_t job, struct kiln_error *err);
    /* Takes waiting jobs of one set for a free worker: fills ret_jobs[KILN_ASSIGN_MAX] and returns
     * how many, at most options->batch; 0: nothing now. */
    uint32_t (*pick)(void *self, int64_t now_ns, uint32_t *ret_jobs, uint32_t *ret_worker);
    /* The worker has rendered them in so many seconds of compute and is free; before the first it
     * switched, and fetched so many files. */
    void (*finished)(void *self, uint32_t worker, const uint32_t *jobs, uint32_t count,
                     bool switched, uint32_t fetches, double seconds);
    /* When to ask again although nothing has happened; INT64_MAX for never. */
    int64_t (*next_ns)(void *self, int64_t now_ns);
    void (*free)(void *self);
};

int kiln_sim_rule_kiln(const struct kiln_sim_world *world, struct kiln_sim_rule *ret,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* fifo and affinity, as world->options->policy says. */
int kiln_sim_rule_baseline(const struct kiln_sim_world *world, struct kiln_sim_rule *ret,
                           struct kiln_error *err) KILN_MUST_CHECK;

/* Seconds of the jobs by base_s and the formula of cost_model.h. */
int64_t kiln_sim_formula_ns(struct kiln_trace_shape shape, double base_s);

#endif
