/* bounds.h - how good any schedule could be: a lower bound of the makespan, and of the switches.
 *
 * A run prints its own makespan over this bound, so that nobody has to believe in the policy.  For
 * jobs of p_j seconds in sets that take s_k seconds to load, on m equal workers, no schedule ends
 * before
 *
 *     max( (sum p_j + sum of s_k) / m ,  max over sets of (s_k + longest p in k) )
 *
 * where the s_k of what some worker has resident at the start count as 0: each other set must be
 * loaded once by somebody.  With workers of unlike speed p is in seconds of a worker of speed 1;
 * work then shares the sum of the speeds, set-ups are taken to hit the slowest worker, and the
 * longest job the fastest.
 *
 * Where jobs arrive over time, there is a bound for each moment t (kiln_bound_arrivals).  What
 * arrives from t on is computed after t, and its sets are loaded after t, except those that the m
 * workers hold or are loading at t:
 *
 *     t + (sum p_j of arrivals from t on + (their sets - m) * the shortest load) / m
 *
 * This holds even for a schedule that knows all arrivals and loads sets ahead of them.
 *
 * Pure arithmetic; the caller's arrays are borrowed for the call.
 */
#ifndef KILN_BOUNDS_H
#define KILN_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is to be done with one set. */
struct kiln_bound_set {
    double work_s, longest_s; /* of its jobs: the sum, and one that cannot be split */
    double switch_s;          /* to load it */
    bool resident;            /* some worker had it at the start */
};

struct kiln_bound_fleet {
    double speed_sum, speed_min, speed_max;
    uint32_t workers;
};
/* m workers of speed 1. */
struct kiln_bound_fleet kiln_bound_fleet_of(uint32_t workers);

struct kiln_bound {
    double makespan_s;
    double work_s, switch_s; /* sums over what must be computed and loaded */
    uint64_t switches;       /* the fewest that any schedule pays */
};
/* Sets without work are passed over.  An empty fleet: makespan_s is infinite if there is work. */
struct kiln_bound kiln_bound_of(const struct kiln_bound_set *sets, size_t count,
                                struct kiln_bound_fleet fleet);

struct kiln_bound_job {
    double arrival_s, work_s;
    bool last; /* no later job is of its set */
};
/* The end, counted from time 0, that arrivals impose: the largest of the bounds of all moments.
 * jobs: by arrival, earliest first.  load_s: what the load of any of their sets takes at least. */
double kiln_bound_arrivals(const struct kiln_bound_job *jobs, size_t count, double load_s,
                           struct kiln_bound_fleet fleet);

/* made / bound, where nothing to do was done perfectly: 1 if both are 0. */
double kiln_bound_ratio(double made, double bound);

#endif
