/* times.h - spans and moments as people type them: "90s", "1d12h"; "2026-11-21", "7d" ago. */
#ifndef KILN_CLI_TIMES_H
#define KILN_CLI_TIMES_H

#include "scheduler/cli/core/cli.h"

/* Numbers with a unit each (s, m, h, d, w), added up, in seconds.  False: not a span, or over 100
 * years. */
bool kiln_duration_parse(const char *text, int64_t *ret_s);
/* An option's span in seconds, fallback when it was not given.  A bare number is refused, except 0:
 * its unit would be a guess.  0 or an exit status. */
int kiln_arg_duration(struct kiln_cli *cli, const struct kiln_args *args, const char *name,
                      int64_t fallback_s, int64_t *ret_s) KILN_MUST_CHECK;

/* Milliseconds since 1970 of a date or a time (2026-11-21, 2026-11-21T08:30+01:00; UTC without a
 * zone), or of a span before now_ms.  False: the text is neither, or not a day of the calendar. */
bool kiln_moment_parse(const char *text, int64_t now_ms, int64_t *ret);
/* The option --since, fallback_ms if it was not given.  0 or an exit status. */
int kiln_arg_since(struct kiln_cli *cli, const struct kiln_args *args, int64_t fallback_ms,
                   int64_t *ret) KILN_MUST_CHECK;

#endif
