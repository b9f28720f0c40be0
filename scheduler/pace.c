/* pace.c - see pace.h. */
#include "scheduler/pace.h"

#include <stdio.h>
#include <string.h>

#define LEFT_MIN_S 0.001 /* of a batch whose steps are all done: it is being decoded */

/* The work of the first steps, in steps at full size.  A mode whose steps are not those of the
 * heartbeat was rendered as another. */
static double work_of(const struct kiln_heartbeat *beat, const struct kiln_mode *mode,
                      uint32_t steps)
{
    if (mode->kind != KILN_MODE_COARSE || mode->small + mode->full != beat->steps)
        return steps;
    const struct kiln_mode begun = {.kind = KILN_MODE_COARSE,
                                    .small = steps < mode->small ? steps : mode->small,
                                    .full = steps > mode->small ? steps - mode->small : 0};
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
    double done = work_of(beat, mode, beat->step) - work_of(beat, mode, pace->step);
    double step_s = (double)(now_ms - pace->since_ms) / 1000 / done;
    double left_s = step_s * (work_of(beat, mode, beat->steps) - work_of(beat, mode, beat->step));
    return left_s > LEFT_MIN_S ? left_s : LEFT_MIN_S;
}
