/* pace.h - predicts from a worker's heartbeats when its running batch will end.
 *
 * The expected time of a batch is the mean of its kind, and after the first, cold batch of a size
 * it is far too long.  Two heartbeats of one batch tell how fast this one goes; the rest of its
 * steps takes as long.  Decoding is no step and comes on top, a few hundredths of a batch.
 */
#ifndef KILN_PACE_H
#define KILN_PACE_H

#include "schemas/wire/wire.h"

/* Of one worker; zero-initialise. */
struct kiln_pace {
    char running[KILN_WIRE_ID_MAX + 1]; /* the assignment it is about; "" = none */
    uint32_t step;                      /* where it was first seen, */
    int64_t since_ms;                   /* and when */
};

/* Takes in a new heartbeat, read at now_ms, whose running batch was assigned in this mode; the
 * heartbeat says how many steps are at smaller sizes, also where the worker decides that (auto).
 * Returns the seconds until the batch ends, or 0 if they are not known.  Steps count as in
 * kiln_mode_forwards. */
double kiln_pace_left_s(struct kiln_pace *pace, const struct kiln_heartbeat *beat,
                        const struct kiln_mode *mode, int64_t now_ms);

#endif
