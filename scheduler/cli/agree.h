/* agree.h - asking before something is destroyed. */
#ifndef KILN_CLI_AGREE_H
#define KILN_CLI_AGREE_H

#include "scheduler/cli/cli.h"

/* Whether to go on: yes (the option --yes was given), or a person at a terminal who says so.  Where
 * nobody can be asked it says what --yes would do and answers no. */
bool kiln_agreed(const struct kiln_cli *cli, bool yes, const char *question);

#endif
