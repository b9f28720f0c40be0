/* spin.h - how long the compute threads of a picture wait awake for one another.
 *
 * Between two operations every thread waits for the last one.  LibTorch's threads (libgomp) stay
 * awake meanwhile, for milliseconds: on a machine that has other work each of them then keeps a
 * processor from the very thread that all wait for, and a picture of 1.5 seconds takes twelve.  Some
 * tens of microseconds awake and sleep after that cost nothing where the processors are free
 * (kernels/LAB.md, "Beside other work").
 */
#ifndef KILN_SPIN_H
#define KILN_SPIN_H

#include <stdbool.h>

/* Puts a short wait into the environment, which libgomp reads when a program is loaded: it is for
 * the programs that this one starts.  True: it is new there.  False: it is set already, by this or
 * by anybody (GOMP_SPINCOUNT, OMP_WAIT_POLICY), or there is no memory for it. */
bool kiln_spin_briefly(void);

#endif
