/* cache.h - the subcommands of `kiln cache`.  Each returns the exit status of the verb. */
#ifndef KILN_CLI_CACHE_H
#define KILN_CLI_CACHE_H

#include "scheduler/cli/core/cli.h"

int kiln_latents_build(struct kiln_cli *cli, const struct kiln_args *args);
/* Whether the objects of all donors are in the store; full: reads them. */
int kiln_latents_verify(struct kiln_cli *cli, bool full);
/* Evicts latents until the stored ones fit a budget. */
int kiln_latents_prune(struct kiln_cli *cli, const struct kiln_args *args);
/* Waits until the leading scheduler has all donors in memory. */
int kiln_latents_warm(struct kiln_cli *cli, const struct kiln_args *args);
/* From which donor a run of the job would begin now, and why not from others. */
int kiln_latents_why(struct kiln_cli *cli, const char *job);

#endif
