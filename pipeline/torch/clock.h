/* clock.h - how long a device has been busy, by its own clock.
 *
 * The host's time around a call does not tell whether the device did anything meanwhile.  So the
 * device itself stamps the begin and the end of each piece of work.  Where pieces of the two
 * streams overlap, the time counts once.
 *
 * A piece lasts from its first kernel to its last.  Gaps between kernels that are started one by
 * one count as work; a graph has no gaps.
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

/* All work that is queued in the stream from here to kt_clock_end is one piece, whose number is
 * returned.  Pieces that cannot be stamped are left out without an error.  c NULL: nothing is
 * measured.  Any thread. */
int kt_clock_begin(struct kt_clock *c, bool side);
void kt_clock_end(struct kt_clock *c, int piece);
/* Milliseconds in which at least one of the pieces that have ended was at work; forgets them.  Does
 * not wait: a running piece counts next time, without the part that overlaps pieces counted before.
 * Any thread. */
double kt_clock_take(struct kt_clock *c);

#ifdef __cplusplus
}
#endif
#endif
