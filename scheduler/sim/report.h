/* report.h - what a run was worth, in the numbers of `kiln sim`. */
#ifndef KILN_SIM_REPORT_H
#define KILN_SIM_REPORT_H

#include "scheduler/sim/sim.h"

struct kiln_sim_report {
    uint32_t jobs;
    double makespan_s;     /* from the first arrival to the end of the last picture */
    double lower_bound_s;  /* of bounds.h, from a cold start; arrivals not counted */
    double arrivals_s;     /* of bounds.h, arrivals and the loads of their sets counted */
    double ratio;          /* makespan over lower_bound_s */
    uint64_t switches;     /* loads of a set that a worker did not hold, its first one included */
    uint64_t switches_min; /* each set once */
    double fetch_s;        /* of a LoRA file; 0: fetches are not counted, and not shown */
    uint64_t fetches;
    double wait_mean_s;
    double wait_p50_s, wait_p99_s; /* the smallest wait that so many do not exceed */
    double wait_max_s;
    uint32_t promises, missed_max_wait; /* jobs with a max_wait_s, and those that waited longer */
    double fair_gap_gpu_s;              /* fair.h */
    double work_s, switch_s;            /* GPU-seconds of compute and of switching */
    double latency_mean_s; /* from the arrival to the end of the call with the picture */
    double latency_p50_s, latency_p99_s;
    uint64_t calls; /* of engines: equal to jobs without batches */
    uint32_t may_hit, hits;
    double steps, steps_saved; /* of all modes, in steps at full size: in full, and less by hits */
    double lookup_s;
};

int kiln_sim_report(const struct kiln_trace *trace, const struct kiln_sim_options *options,
                    const struct kiln_sim_run *run, struct kiln_sim_report *ret,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* One trace, hit model and fleet with each value of known. */
struct kiln_sim_comparison {
    struct kiln_sim_report full, unknown, known;
};

/* What the hits are worth, and what it is worth that the policy knows them: the member "cache" of
 * the JSON object, and a table.  For the baselines, which know nothing of a job, unknown is left
 * out. */
void kiln_sim_comparison_json(const struct kiln_sim_comparison *cache,
                              const struct kiln_sim_options *options, struct kiln_text *out);
void kiln_sim_comparison_text(const struct kiln_sim_comparison *cache,
                              const struct kiln_sim_options *options, struct kiln_text *out);

/* One JSON object without its closing brace and a line end; a table for people; the run as CSV, a
 * job a line. */
void kiln_sim_report_json(const struct kiln_sim_report *report, struct kiln_text *out);
void kiln_sim_report_text(const struct kiln_sim_report *report,
                          const struct kiln_sim_options *options, struct kiln_text *out);

#endif
