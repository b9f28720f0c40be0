/* pace.h - when a worker will have drawn what it draws now, by the steps that its beats tell.
 *
 * What is expected of a batch is the mean of its kind, and after the first, cold batch of a size
 * far too much.  Two beats of one batch say how fast this one goes: at that pace the rest of its
 * steps. Decoding is no step and comes on top, a few hundredths of a batch.
 */
#ifndef KILN_PACE_H
#define KILN_PACE_H

#include "schemas/wire.h"

/* Of one worker; zero-initialise. */
struct kiln_pace {
    char running[KILN_WIRE_ID_MAX + 1]; /* the assignment it is about; "" = none */
    uint32_t step;                      /* where it was first seen, */
    int64_t since_ms;                   /* and when */
};

/* Takes in a new beat, read at now_ms; seconds until the end of what it says is running, more than
 * 0, or 0: not known. */
double kiln_pace_left_s(struct kiln_pace *pace, const struct kiln_heartbeat *beat, int64_t now_ms);

#endif
