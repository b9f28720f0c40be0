/* pace.c - see pace.h. */
#include "scheduler/pace.h"

#include <stdio.h>
#include <string.h>

#define LEFT_MIN_S 0.001 /* of a batch whose steps are all done: it is being decoded */

/* Steps of the running batch at the small size.  A worker of before minor 6 does not say; and a
 * mode whose steps are not those of its heartbeat was rendered as another. */
static uint32_t small_steps(const struct kiln_heartbeat *beat, const struct kiln_mode *mode)
{
    if (beat->coarse_steps > 0)
        return beat->coarse_steps;
    const bool coarse = mode->kind == KILN_MODE_COARSE && mode->small + mode->full == beat->steps;
    return coarse ? mode->small : 0;
}

/* The work of the first steps, in steps at full size. */
static double work_of(uint32_t small, uint32_t steps)
{
    const struct kiln_mode begun = {.kind = KILN_MODE_COARSE,
                                    .small = steps < small ? steps : small,
                                    .full = steps > small ? steps - small : 0};
    return kiln_mode_forwards(&begun, 0);
}

double kiln_pace_left_s(struct kiln_pace *pace, const struct kiln_heartbeat *beat,
                        const struct kiln_mode *mode, int64_t now_ms)
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
    const uint32_t small = small_steps(beat, mode);
    double done = work_of(small, beat->step) - work_of(small, pace->step);
    double step_s = (double)(now_ms - pace->since_ms) / 1000 / done;
    double left_s = step_s * (work_of(small, beat->steps) - work_of(small, beat->step));
    return left_s > LEFT_MIN_S ? left_s : LEFT_MIN_S;
}
