/* spin.c - see spin.h. */
#include "schemas/spin.h"

#include <stdlib.h>

#define SPIN "GOMP_SPINCOUNT"
#define POLICY "OMP_WAIT_POLICY"
#define BRIEF "2000" /* turns of libgomp's loop: 20 to 30 microseconds */

bool kiln_spin_briefly(void)
{
    return !getenv(SPIN) && !getenv(POLICY) && setenv(SPIN, BRIEF, 0) == 0;
}
