/* verbs.h - the verbs of `kiln` that need the model and no queue, and what they share.
 *
 * The command line `kiln` executes kiln-worker for them, so that kiln itself does not load
 * LibTorch. argv[0] is the verb's name; they return an exit status of sysexits.h.
 */
#ifndef KILN_VERBS_H
#define KILN_VERBS_H

#include <stdbool.h>
#include <stddef.h>

#include "schemas/error.h"

int kiln_verb_render(int argc, char **argv);
int kiln_verb_tokenize(int argc, char **argv);

/* Prints "kiln VERB: text" and returns the code's exit status. */
int kiln_verb_fail(const char *verb, const struct kiln_error *err);

/* --- files ------------------------------------------------------------------------------------ */
/* Under a temporary name first: a reader of the file never meets half of it, and one that is there
 * keeps its mode.  What exists and is no regular file (a pipe, /dev/null) is written to and never
 * replaced, nor is a link. */
int kiln_verb_write(const char *path, const void *data, size_t size,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* Whether that can go well, asked before there is anything to write.  name: the option's. */
int kiln_verb_may_write(const char *name, const char *path, struct kiln_error *err) KILN_MUST_CHECK;
/* Whether the second of two files would replace the first; not of /dev/null, which takes both. */
bool kiln_verb_same_file(const char *a, const char *b);

#endif
