/* since.h - a moment as people type it: --since 2026-11-21, 2026-11-21T08:30, 90m, 7d. */
#ifndef KILN_CLI_SINCE_H
#define KILN_CLI_SINCE_H

#include "scheduler/cli/core/cli.h"

/* Milliseconds since 1970 of a date or a time in UTC, or of a span (duration.h) before now_ms.
 * False if the text is neither, or no day of the calendar. */
bool kiln_since_parse(const char *text, int64_t now_ms, int64_t *ret);

/* The option --since, fallback_ms if it was not given.  0 or an exit status. */
int kiln_arg_since(struct kiln_cli *cli, const struct kiln_args *args, int64_t fallback_ms,
                   int64_t *ret) KILN_MUST_CHECK;

#endif
