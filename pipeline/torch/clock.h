/* clock.h - how long a device was at work, by its own clock.
 *
 * The host's time around a call says when something was asked for and when it had come back, not
 * whether the device did anything meanwhile.  Here the device itself notes when it comes to a piece
 * of work and when it is through with it.  Pieces of both lanes may overlap: time counts once.
 *
 * A piece lasts from its first kernel to its last one.  Where kernels are started one by one, what
 * lies between two of them counts as work; a recorded graph has nothing between them.
 */
#ifndef KILN_TORCH_CLOCK_H
#define KILN_TORCH_CLOCK_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kt_clock;
struct kt_clock *kt_clock_new(int device); /* NULL: no memory */
void kt_clock_free(struct kt_clock *c);    /* accepts NULL */

/* What the lane is asked from here to kt_clock_end is one piece.  Returns the piece; pieces that
 * cannot be noted are left out, which is no error.  c may be NULL: nothing is noted.  Any thread.
 */
int kt_clock_begin(struct kt_clock *c, bool side);
void kt_clock_end(struct kt_clock *c, int piece);
/* Milliseconds in which at least one piece was worked on, of those that have ended; they are then
 * forgotten.  Does not wait: what still runs counts the next time, without what it shares with
 * pieces that have been counted.  Any thread. */
double kt_clock_take(struct kt_clock *c);

#ifdef __cplusplus
}
#endif
#endif
