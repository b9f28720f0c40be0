/* stopwatch.c - see stopwatch.h. */
#include "storage/daemon/stopwatch.h"

#include <time.h>

int64_t kiln_stopwatch_start(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

double kiln_stopwatch_s(int64_t started)
{
    return (double)(kiln_stopwatch_start() - started) / 1e9;
}

void kiln_stopwatch_note(enum kiln_metric metric, uint32_t label, enum kiln_metric errors, int code,
                         int64_t started)
{
    kiln_metric_observe(metric, label, kiln_stopwatch_s(started));
    if (code != 0)
        kiln_metric_add(errors, (uint32_t)code, 1);
}
