/* makespan.h - how long the pictures of a batch took, against the lower bound. */
#ifndef KILN_CLI_MAKESPAN_H
#define KILN_CLI_MAKESPAN_H

#include "scheduler/cli/core/cli.h"

/* {"makespan_s","lower_bound_s","ratio","switches","switches_min","workers"} of the batch's
 * pictures (scheduler/policy/bounds.h); NULL if there are none or the ledger does not say.  The
 * caller frees it. */
json_t *kiln_makespan_json(struct kiln_cli *cli, const char *batch);
/* The same as one line on stderr. */
void kiln_say_makespan(struct kiln_cli *cli, const char *batch);

#endif
