/* cache.h - `kiln cache`: cache.c tells what is stored, cache_build.c orders what is missing. */
#ifndef KILN_CLI_CACHE_H
#define KILN_CLI_CACHE_H

#include "scheduler/cli/core/cli.h"

/* Latents of one command, unless --limit says otherwise: more are rather a mistake. */
#define KILN_CACHE_BUILD_LIMIT 100000

/* `cache build`, its options in args.  The exit status. */
int kiln_cache_build(struct kiln_cli *cli, const struct kiln_args *args);

#endif
