/* hardening.h - protects the memory of a daemon before it reads a secret. */
#ifndef KILN_HARDENING_H
#define KILN_HARDENING_H

#include "schemas/config/config.h"

/* No core dumps, no debugger of the same user, /proc/PID/environ and mem closed to others:
 * passwords and keys are in this memory.  core_dumps = on allows all that, to debug a
 * crash. */
void kiln_harden(const struct kiln_config *config);

#endif
