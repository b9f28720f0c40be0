/* check.h - the guarantees that hold after every step, and those that hold at the end. */
#ifndef KILN_SIM_CHECK_H
#define KILN_SIM_CHECK_H

#include "tests/sim/plan.h"

void sim_check_start(void);
/* Every job has ended and every client has its receipt. */
bool sim_check_over(void);
/* Says what is left if the run is over too late; else holds the end to its guarantees. */
void sim_check_end(void);

#endif
