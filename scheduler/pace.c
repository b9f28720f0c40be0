/* pace.c - see pace.h. */
#include "scheduler/pace.h"

#include <stdio.h>
#include <string.h>

#define LEFT_MIN_S 0.001 /* of a batch whose steps are all done: it is being decoded */

/* The running batch as a coarse run; one without smaller sizes has none of their steps.  A worker
 * of before minor 6 does not say; and a mode whose steps are not those of its heartbeat was
 * rendered as another. */
static struct kiln_mode run_of(const struct kiln_heartbeat *beat, const struct kiln_mode *mode)
{
    struct kiln_mode run = {.kind = KILN_MODE_COARSE};
    if (beat->coarse_steps > 0) {
        run.small = beat->coarse_steps;
        run.middle = beat->middle_steps;
    } else if (mode->kind == KILN_MODE_COARSE &&
               mode->small + mode->middle + mode->full == beat->steps) {
        run = *mode;
    }
    return run;
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
    const struct kiln_mode run = run_of(beat, mode);
    double all = kiln_mode_begun_forwards(&run, beat->steps);
    double now = kiln_mode_begun_forwards(&run, beat->step);
    double done = now - kiln_mode_begun_forwards(&run, pace->step);
    double left_s = (double)(now_ms - pace->since_ms) / 1000 / done * (all - now);
    return left_s > LEFT_MIN_S ? left_s : LEFT_MIN_S;
}
