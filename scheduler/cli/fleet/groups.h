/* groups.h - `kiln status --groups`: what waits in which group, as the leader sees it. */
#ifndef KILN_CLI_GROUPS_H
#define KILN_CLI_GROUPS_H

#include "scheduler/cli/core/cli.h"

/* Asks the leader and prints; an exit status.  75 if nobody answers. */
int kiln_status_groups(struct kiln_cli *cli);

#endif
