/* sim.h - a fleet under virtual time: what a policy makes of a trace.
 *
 * A discrete-event simulation.  The policy `kiln` is the very object that the daemon runs
 * (policy.h over cost_model.h); fifo and affinity are what it is compared with:
 *
 *     kiln      policy.h over the whole backlog
 *     fifo      the oldest job to the worker that has been free longest
 *     affinity  a free worker takes the first job of the set it holds among the `window` oldest
 *               that wait, else the oldest.  Free workers that find one go first.
 *
 * The model: every worker holds one LoRA set, "no LoRA" being a set, and at the start none at
 * all: whatever is rendered first must be loaded first.  A picture of another set than the resident
 * one costs switch_s, then its seconds of compute.  A picture is rendered alone (the
 * trace says what one picture costs, and a batch of n would cost n times that), and chosen at the
 * moment its worker is free.  Nothing fails.
 *
 * With batch > 1 the policy kiln assigns so many pictures at once.  Those with as many steps left
 * are a call of the engine; the calls of an assignment follow each other, in the order of their
 * first pictures, and a worker is free after the last.  A call of pictures of s_1 .. s_n seconds
 * takes
 *
 *     batch_fixed * max(s_i) + (1 - batch_fixed) * sum(s_i)
 *
 * With fetch_s > 0 a switch also fetches the files of LoRAs that the worker's disk lacks (disks.h),
 * at fetch_s each; the policy kiln is told what is on the disks when a picture ends.
 *
 * Waiting ends when the call with the job's own picture starts, behind the switch it needed.
 *
 * Which pictures begin from stored latents is the hit model of hits.h; a look-up holds up the
 * assignment of its job.
 *
 * The kiln policy is not told what a job costs: it has a cost model that has seen every shape of
 * the trace before (the mean of its pictures) and learns on, as the daemon does.
 *
 * Virtual time is whole nanoseconds; nothing depends on the machine, its clock or the order of
 * addresses: equal input gives equal output.
 */
#ifndef KILN_SIM_H
#define KILN_SIM_H

#include "scheduler/sim/hits.h"
#include "scheduler/sim/trace.h"

#define KILN_SIM_WORKERS_MAX 100000

enum kiln_sim_policy { KILN_SIM_KILN, KILN_SIM_FIFO, KILN_SIM_AFFINITY };
/* "kiln", "fifo", "affinity"; -1 for an unknown name. */
const char *kiln_sim_policy_name(enum kiln_sim_policy policy);
int kiln_sim_policy_by_name(const char *name);

struct kiln_sim_options {
    enum kiln_sim_policy policy;
    uint32_t workers;
    uint32_t window; /* of affinity */
    double switch_s;
    double fetch_s;     /* of a LoRA file, 0: all workers have all of them */
    uint32_t disk;      /* files of LoRAs that a worker keeps: disks.h has the bounds */
    double base_s;      /* a picture of 1024x1024 and 8 steps, where the trace does not say */
    double noise;       /* standard deviation of a picture's time over its mean; 0: exact */
    uint64_t seed;      /* of the noise and of the hits */
    uint32_t batch;     /* of the policy kiln: pictures of an assignment; 0 counts as 1 */
    double batch_fixed; /* 0 .. 1 */
    struct kiln_sim_hit_model hits;
    enum kiln_sim_hits_known known;
};

static inline uint32_t kiln_sim_batch(const struct kiln_sim_options *options)
{
    return options->batch > 1 ? options->batch : 1;
}

/* What became of job i of the trace. */
struct kiln_sim_served {
    int64_t start_ns, end_ns; /* of its compute */
    int64_t work_ns;          /* its share of its call */
    uint32_t worker;
    uint32_t skip;    /* steps that a stored latent saved; 0: it ran in full */
    bool switched;    /* its set was loaded for it, in the switch_s before start_ns, */
    uint32_t fetches; /* behind the fetches of so many files */
};

struct kiln_sim_run {
    struct kiln_sim_served *served; /* one a job of the trace */
    int64_t end_ns;                 /* of the last picture */
    uint64_t switches, fetches;
    uint64_t calls;              /* of engines */
    double lookup_s, fair_gap_s; /* fair_gap_s: see fair.h */
};

/* KILN_NO_MEMORY, or KILN_INTERNAL if the policy lets jobs wait for ever. */
int kiln_sim(const struct kiln_trace *trace, const struct kiln_sim_options *options,
             struct kiln_sim_run *ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_sim_release(struct kiln_sim_run *run);

#endif
