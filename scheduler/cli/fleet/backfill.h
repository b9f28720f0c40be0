/* backfill.h - `kiln backfill`: backfill.c lists, pauses and removes, backfill_add.c adds. */
#ifndef KILN_CLI_BACKFILL_H
#define KILN_CLI_BACKFILL_H

#include "scheduler/cli/core/cli.h"

/* `backfill add NAME`, its options in args.  The exit status. */
int kiln_backfill_add(struct kiln_cli *cli, const struct kiln_args *args, const char *name);

#endif
