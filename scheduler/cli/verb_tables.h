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
extern const struct kiln_verb kiln_verbs_measure[];
extern const struct kiln_verb kiln_verbs_alone[];

/* How pictures are looked at, of `run` and of `export`. */
#define KILN_LOOK_OPTIONS                                                                          \
    {"note", "TEXT", "a sentence above the pictures of the page"},                                 \
        {"sheet", "FILE.webp", "a contact sheet of the pictures"},                                 \
    {                                                                                              \
        "columns", "N", "square pictures in a row of the sheet (6)"                                \
    }

#endif
