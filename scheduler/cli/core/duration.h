/* duration.h - spans of time as people type them: "90s", "36h", "30d", "1d12h". */
#ifndef KILN_CLI_DURATION_H
#define KILN_CLI_DURATION_H

#include "scheduler/cli/core/cli.h"

/* Numbers with a unit each, added up, in seconds.  False: not a span, or over 100 years. */
bool kiln_duration_parse(const char *text, int64_t *ret_s);

/* An option's span in seconds, fallback when it was not given.  Numbers with s, m, h, d or w; a
 * bare number is refused, since nobody can tell which unit was meant, except 0.  At most 100 years.
 * 0 or an exit status. */
int kiln_arg_duration(struct kiln_cli *cli, const struct kiln_args *args, const char *name,
                      int64_t fallback_s, int64_t *ret_s) KILN_MUST_CHECK;

#endif
