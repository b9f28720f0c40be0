/* devices.h - --device as a list: "cpu", "cuda:0,cuda:1", "cuda:all". */
#ifndef KILN_CLI_DEVICES_H
#define KILN_CLI_DEVICES_H

#include "scheduler/cli/stack/stack.h"

struct kiln_devices {
    char at[KILN_STACK_DEVICES_MAX][32];
    int count;
};

/* cuda:all becomes one entry a GPU.  A GPU that this machine does not have is refused here, where
 * the number is still in sight, and not by a worker that dies in the background. */
int kiln_devices_read(const char *text, struct kiln_devices *ret,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* KILN_CONFIG if --device was given and is no such list, whatever GPUs there are. */
int kiln_devices_flag(const struct kiln_config *config, struct kiln_error *err) KILN_MUST_CHECK;

#endif
