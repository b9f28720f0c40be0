/* hits.h - the hit model of a simulation: which pictures begin from a stored latent, and how late.
 *
 * A job may hit if its run could begin from a latent that the cache chooses
 * (scheduler/cache/rule.h): from noise, without variety, and here without LoRAs, whose rows are not
 * known.  Of these a share hits, drawn by the seed alone; a hit skips one of the depths, drawn by
 * their weights.  A run that is coarse first leaves out so many of its small steps, if it has more
 * than that, and else begins at the full size.  A depth hits nothing where it would leave no step,
 * or as much work as the job's own mode.  Each job that may hit costs a look-up, also if it does
 * not.
 *
 * The share is of hits, not of repeated prompts: which repeats find a donor that may still be used
 * is what `kiln bench teleport-stream` measures.
 */
#ifndef KILN_SIM_HITS_H
#define KILN_SIM_HITS_H

#include "scheduler/sim/trace.h"

#define KILN_SIM_DEPTHS_MAX 8

struct kiln_sim_hit_model {
    double share; /* of the jobs that may hit; 0: no hit model */
    struct {
        uint32_t skip; /* steps */
        double weight;
    } depths[KILN_SIM_DEPTHS_MAX];
    uint32_t depth_count;
    double lookup_s;
};

/* What a run makes of the hits. */
enum kiln_sim_hits_known {
    KILN_SIM_HITS_KNOWN,   /* the policy is told how many steps a job will skip */
    KILN_SIM_HITS_UNKNOWN, /* it takes all for runs in full */
    KILN_SIM_HITS_NONE     /* they are: no cache */
};

/* "1" or "1:3,2:1": depths with their weights; false if it is neither. */
bool kiln_sim_depths_parse(const char *text, struct kiln_sim_hit_model *ret);

/* Whether the job costs a look-up. */
bool kiln_sim_may_hit(const struct kiln_trace *trace, uint32_t job);
/* The steps that a job skips; 0: none. */
uint32_t kiln_sim_skip(const struct kiln_trace *trace, const struct kiln_sim_hit_model *model,
                       uint64_t seed, uint32_t job);
/* The mode of its run if it skips so many steps; 0: its own. */
struct kiln_mode kiln_sim_hit_mode(struct kiln_trace_shape shape, uint32_t skip);
/* What is left of its seconds if it skips so many steps: 0 .. 1. */
double kiln_sim_left(struct kiln_trace_shape shape, uint32_t skip);

/* A number in [0, 1) that depends on seed, item and draw alone. */
double kiln_sim_uniform(uint64_t seed, uint64_t item, uint64_t draw);

#endif
