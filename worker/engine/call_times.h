/* call_times.h - how long calls of the engine took here, and so which stored latents save time.
 *
 * Pictures that begin at different steps need calls of their own.  A device that takes hardly
 * longer for eight small pictures than for one takes longer for three calls than for one of all
 * pictures in full, however many steps that saves.  So a worker notes how long its calls took, by
 * what they rendered, the step at which they began and their number of pictures: the median of the
 * last KILN_CALL_TIMES_KEPT of a kind.  A call of more pictures takes as long or longer, and one
 * that leaves out steps no less than its share.  Pictures are left to run in full if all calls that
 * their batch would need otherwise take longer, by these bounds, than the calls without them.  A
 * batch that is one call anyway is left as it is.  What the bounds do not tell is tried; and every
 * KILN_CALL_TIMES_AGAIN-th batch is cut all the same, so that old times do not last.
 *
 * No I/O, no clock; memory for 256 kinds of calls.  Any thread.
 */
#ifndef KILN_CALL_TIMES_H
#define KILN_CALL_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/job/mode.h"
#include "schemas/limits.h"

#define KILN_CALL_TIMES_KEPT 5
#define KILN_CALL_TIMES_KNOWN 3 /* calls that count as measured */
#define KILN_CALL_TIMES_AGAIN 32

struct kiln_call_times;

/* What a batch asks for; its pictures have no guidance.  With other LoRAs, as many, a call takes as
 * long. */
struct kiln_call_kind {
    uint32_t width, height, steps, loras;
    char mode[KILN_MODE_MAX]; /* its text */
};

struct kiln_call_times *kiln_call_times_new(void);        /* NULL: no memory */
void kiln_call_times_free(struct kiln_call_times *times); /* accepts NULL */
/* A call of so many pictures that began at this step (0: in full) took so long. */
void kiln_call_times_learn(struct kiln_call_times *times, const struct kiln_call_kind *kind,
                           uint32_t step, uint32_t pictures, double ms);
/* pictures[s]: how many of a batch would begin at step s; [0]: those that run in full.  Adds those
 * that do not pay to [0] and sets theirs to 0; whether there are any. */
bool kiln_call_times_sort_out(struct kiln_call_times *times, const struct kiln_call_kind *kind,
                              uint32_t pictures[KILN_STEPS_MAX]);

#endif
