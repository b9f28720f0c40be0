/* render.h - the command line of a program that needs a model: what the user typed, after defaults.
 *
 * An option that is given twice counts with its last value, so defaults stand first.
 */
#ifndef KILN_CLI_RENDER_H
#define KILN_CLI_RENDER_H

#include "scheduler/cli/core/cli.h"

struct kiln_model_words {
    char *at[KILN_GIVEN_MAX + 1]; /* ended by NULL; at[0] is left for the program's path */
    int count;
    int argc; /* what the user typed, borrowed */
    char **argv;
    char *model; /* what they named, or the default, or NULL */
    char *defaults[3];
    int default_count; /* malloc'd, freed with the words */
};

/* Begins with at[1] = argv[0] and --model DIR if the user named none: the settings' model, else the
 * demo model.  Takes -q and --config out of argv, unless config_is_model: `bench engine` calls its
 * model so.  0, or an exit status after it has said what is wrong. */
int kiln_model_words_begin(struct kiln_cli *cli, int argc, char **argv, bool config_is_model,
                           struct kiln_model_words *ret) KILN_MUST_CHECK;
/* Adds an option that the user has not given; takes over value, malloc'd, or NULL for nothing. */
void kiln_model_words_default(struct kiln_model_words *words, char *name, char *value);
/* Adds what the user typed, and --json if it stood before the verb. */
void kiln_model_words_end(struct kiln_model_words *words, const struct kiln_cli *cli);
void kiln_model_words_release(struct kiln_model_words *words);

#endif
