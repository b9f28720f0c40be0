/* pace.c - see pace.h. */
#include "scheduler/pace.h"

#include <stdio.h>
#include <string.h>

#define LEFT_MIN_S 0.001 /* of a batch whose steps are all done: it is being decoded */

double kiln_pace_left_s(struct kiln_pace *pace, const struct kiln_heartbeat *beat, int64_t now_ms)
{
    bool same = beat->running[0] && strcmp(pace->running, beat->running) == 0;
    /* An assignment may be rendered in several calls, each of which begins at step 0. */
    if (!same || beat->step < pace->step) {
        snprintf(pace->running, sizeof(pace->running), "%s", beat->running);
        pace->step = beat->step;
        pace->since_ms = now_ms;
        return 0;
    }
    if (beat->step == pace->step || beat->step > beat->steps || now_ms <= pace->since_ms)
        return 0;
    double step_s = (double)(now_ms - pace->since_ms) / 1000 / (beat->step - pace->step);
    double left_s = step_s * (beat->steps - beat->step);
    return left_s > LEFT_MIN_S ? left_s : LEFT_MIN_S;
}
