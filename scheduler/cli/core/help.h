/* help.h - what `kiln help` prints, all of it made from the verb table and the settings table. */
#ifndef KILN_CLI_HELP_H
#define KILN_CLI_HELP_H

#include <stdio.h>

#include "scheduler/cli/core/cli.h"

const struct kiln_verb *kiln_verb_find(const struct kiln_cli *cli, const char *name); /* or NULL */
void kiln_help_overview(const struct kiln_cli *cli, FILE *out);
void kiln_help_verb(FILE *out, const struct kiln_verb *verb);
int kiln_help_job(const struct kiln_cli *cli); /* an exit status */
/* Says that there is no such verb, names the nearest one, returns EX_USAGE. */
int kiln_help_unknown(const struct kiln_cli *cli, const char *word);

#endif
