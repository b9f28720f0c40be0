/* bounds.c - the sums of bounds.h. */
#include "scheduler/policy/bounds.h"

#include <math.h>

struct kiln_bound_fleet kiln_bound_fleet_of(uint32_t workers)
{
    double any = workers > 0;
    return (struct kiln_bound_fleet){workers, any, any, workers};
}

/* Nothing takes no time, even for nobody. */
static double shared(double work_s, double speed)
{
    return work_s > 0 ? work_s / speed : 0;
}

struct kiln_bound kiln_bound_of(const struct kiln_bound_set *sets, size_t count,
                                struct kiln_bound_fleet fleet)
{
    struct kiln_bound bound = {0};
    double alone_s = 0;
    for (size_t i = 0; i < count; i++) {
        if (sets[i].work_s <= 0)
            continue;
        double switch_s = sets[i].resident ? 0 : sets[i].switch_s;
        bound.work_s += sets[i].work_s;
        bound.switch_s += switch_s;
        bound.switches += !sets[i].resident;
        alone_s = fmax(alone_s, switch_s + shared(sets[i].longest_s, fleet.speed_max));
    }
    double all_s = shared(bound.work_s + bound.switch_s * fleet.speed_min, fleet.speed_sum);
    bound.makespan_s = fmax(all_s, alone_s);
    return bound;
}

double kiln_bound_arrivals(const struct kiln_bound_job *jobs, size_t count, double load_s,
                           struct kiln_bound_fleet fleet)
{
    double end_s = 0, after_s = 0;
    uint64_t sets = 0;
    for (size_t i = count; i-- > 0;) {
        after_s += jobs[i].work_s;
        sets += jobs[i].last;
        if (jobs[i].last && sets > fleet.workers)
            after_s += load_s * fleet.speed_min;
        end_s = fmax(end_s, jobs[i].arrival_s + shared(after_s, fleet.speed_sum));
        end_s = fmax(end_s, jobs[i].arrival_s + shared(jobs[i].work_s, fleet.speed_max));
    }
    return end_s;
}

double kiln_bound_ratio(double made, double bound)
{
    if (bound > 0)
        return made / bound;
    return made > 0 ? INFINITY : 1;
}
