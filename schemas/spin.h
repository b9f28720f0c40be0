/* spin.h - how long the compute threads spin while they wait for one another.
 *
 * Between two operations every thread waits for the last one.  LibTorch's threads (libgomp) spin
 * meanwhile, for milliseconds: on a busy machine each then takes a processor from the thread that
 * all wait for, and a picture of 1.5 seconds takes twelve.  Spinning for some tens of microseconds
 * and then sleeping costs nothing where processors are free (kernels/LAB.md, "Beside other work").
 */
#ifndef KILN_SPIN_H
#define KILN_SPIN_H

#include <stdbool.h>

/* Sets a short spin in the environment, which libgomp reads when a program is loaded, so for the
 * programs that this one starts.  True: it is new.  False: it is set already, by this function or
 * another (GOMP_SPINCOUNT, OMP_WAIT_POLICY), or memory is short. */
bool kiln_spin_briefly(void);

#endif
