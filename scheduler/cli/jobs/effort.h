/* effort.h - how near to the optimum a finished batch was: `kiln wait`, `kiln run`. */
#ifndef KILN_CLI_EFFORT_H
#define KILN_CLI_EFFORT_H

#include "scheduler/cli/core/cli.h"

/* {"makespan_s","lower_bound_s","ratio","switches","switches_min","workers"} of the batch's
 * pictures (scheduler/policy/bounds.h); NULL if there are none or the ledger does not say.  The
 * caller frees it. */
json_t *kiln_effort_json(struct kiln_cli *cli, const char *batch);
/* The same as a line for people. */
void kiln_say_effort(struct kiln_cli *cli, const char *batch);

#endif
