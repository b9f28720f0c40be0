/* spin.h - how long the compute threads of a picture wait awake for one another.
 *
 * Between two operations every thread waits for the last one.  LibTorch's threads (libgomp) stay
 * awake meanwhile, for milliseconds: on a machine that has other work each of them then keeps a
 * processor from the very thread that all wait for, and a picture of a second takes ten.  Some tens
 * of microseconds awake and sleep after that cost nothing where the processors are free.
 */
#ifndef KILN_SPIN_H
#define KILN_SPIN_H

/* Starts the program again, as the same process, with a short wait in its environment, which
 * libgomp reads before main() runs.  Returns where it is set already, by this or by anybody
 * (GOMP_SPINCOUNT, OMP_WAIT_POLICY), and where that fails: all is well then, but slower beside
 * others.  argv: the program's own. */
void kiln_spin_briefly(char **argv);

#endif
