/* verbs.h - the two verbs of `kiln` that need the model and no queue.
 *
 * The command line `kiln` executes kiln-worker for them, so that kiln itself does not load
 * LibTorch. argv[0] is the verb's name; they return an exit status of sysexits.h.
 */
#ifndef KILN_VERBS_H
#define KILN_VERBS_H

#include "schemas/error.h"

int kiln_verb_render(int argc, char **argv);
int kiln_verb_tokenize(int argc, char **argv);

/* Prints "kiln VERB: text" and returns the code's exit status. */
int kiln_verb_fail(const char *verb, const struct kiln_error *err);

#endif
