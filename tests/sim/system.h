/* system.h - the system's calls as the programs meet them, in virtual time.
 *
 * The linker puts the functions of system.c in the place of clock_gettime, nanosleep, pthread_* and
 * the like (--wrap, see WRAPPED in tests/sim/sim.mk), so the programs' own objects run unchanged.
 */
#ifndef KILN_SIM_SYSTEM_H
#define KILN_SIM_SYSTEM_H

#include "tests/sim/world.h"

#define SIM_EPOCH_S 1795000000 /* the wall clock when the world begins */

/* A process' clocks at a moment of the world, in us. */
int64_t sim_monotonic_us(const struct sim_process *process, int64_t now);
int64_t sim_wall_us(const struct sim_process *process, int64_t now);

#endif
