/* stopwatch.h - the time that a request took, into a histogram of metrics.h. */
#ifndef KILN_STOPWATCH_H
#define KILN_STOPWATCH_H

#include <stdint.h>

#include "schemas/telemetry/metrics.h"

/* Monotonic nanoseconds. */
int64_t kiln_stopwatch_start(void);
double kiln_stopwatch_s(int64_t started);
/* Observes the time since `started`; a request that failed (code is not 0) also counts under
 * `errors`. */
void kiln_stopwatch_note(enum kiln_metric metric, uint32_t label, enum kiln_metric errors, int code,
                         int64_t started);

#endif
