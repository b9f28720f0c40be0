/* verb_tables.h - the verbs: one row a verb, in the order `kiln help` shows them, one table an
 * area.
 *
 * A verb's options stand above its table; settings are options of every verb and are not repeated
 * there.  A name that is also a setting would never reach its verb (tests/cli/test_args.c holds
 * this).
 */
#ifndef KILN_CLI_VERB_TABLES_H
#define KILN_CLI_VERB_TABLES_H

#include "scheduler/cli/core/cli.h"

/* Each ended by a row with name NULL. */
extern const struct kiln_verb kiln_verbs_work[];
extern const struct kiln_verb kiln_verbs_jobs[];
extern const struct kiln_verb kiln_verbs_fleet[];
extern const struct kiln_verb kiln_verbs_gallery[];
extern const struct kiln_verb kiln_verbs_lora[];
extern const struct kiln_verb kiln_verbs_measure[];
extern const struct kiln_verb kiln_verbs_alone[];

/* All rows, in the order of the help; NULL after the last. */
const struct kiln_verb *kiln_verb_at(size_t number);

/* command.c: runs a command line with the verbs of a program; an exit status. */
int kiln_command(int argc, char **argv, const struct kiln_verb *(*verb_at)(size_t number));

/* Options of `run` and `export` for the gallery page and the contact sheet. */
#define KILN_LOOK_OPTIONS                                                                          \
    {"force", NULL, "write into a directory that another export or program filled"},               \
        {"note", "TEXT", "a sentence at the top of the gallery page"},                             \
        {"sheet", "FILE.webp", "also write a contact sheet of all pictures"},                      \
        {"grid", "X,Y", "also write grid.html, the pictures by two settings: steps,seed"},         \
    {                                                                                              \
        "columns", "N", "square pictures in a row of the contact sheet (6)"                        \
    }

#endif
