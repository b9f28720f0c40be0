/* spin.c - see spin.h; the numbers are in kernels/LAB.md, "Beside other work". */
#include "worker/spin.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#define SPIN "GOMP_SPINCOUNT"
#define POLICY "OMP_WAIT_POLICY"
#define BRIEF "2000" /* turns of libgomp's loop: 20 to 30 microseconds */

void kiln_spin_briefly(char **argv)
{
    char path[PATH_MAX];
    if (getenv(SPIN) || getenv(POLICY) || setenv(SPIN, BRIEF, 0) != 0)
        return;
    /* By its path, not by the link: the process would be called "exe". */
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    if (len < 0)
        return;
    path[len] = '\0';
    (void)execv(path, argv);
}
