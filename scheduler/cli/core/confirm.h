/* confirm.h - asking before something is destroyed. */
#ifndef KILN_CLI_CONFIRM_H
#define KILN_CLI_CONFIRM_H

#include "scheduler/cli/core/cli.h"

/* Whether to go on: yes (the option --yes was given), or a person at a terminal who says so.  Where
 * nobody can be asked it says what --yes would do and answers no. */
bool kiln_confirm(const struct kiln_cli *cli, bool yes, const char *question);
/* The same for what another command takes back (`kiln retry`, `kiln worker start`) and what scripts
 * have always called as it is: where nobody can be asked the answer is yes. */
bool kiln_confirm_at_terminal(bool yes, const char *question);

#endif
