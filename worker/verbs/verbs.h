/* verbs.h - the verbs of `kiln` that need the model and no queue, and what they share.
 *
 * The command line `kiln` executes kiln-worker for them, so that kiln itself does not load
 * LibTorch. argv[0] is the verb's name; they return an exit status of sysexits.h.
 */
#ifndef KILN_VERBS_H
#define KILN_VERBS_H

#include <stddef.h>
#include <stdint.h>

#include "pipeline/diffusionz_batch.h"
#include "schemas/error.h"

int kiln_verb_render(int argc, char **argv);
int kiln_verb_tokenize(int argc, char **argv);

/* Prints "kiln VERB: text" and returns the code's exit status. */
int kiln_verb_fail(const char *verb, const struct kiln_error *err);

/* --- values of options; KILN_BAD_INPUT names the option ------------------------------------- */
int kiln_verb_whole(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *ret,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* The same, where max is in the range of an int32_t. */
int kiln_verb_small(const char *name, const char *text, uint64_t min, uint64_t max, int32_t *ret,
                    struct kiln_error *err) KILN_MUST_CHECK;
int kiln_verb_number(const char *name, const char *text, double min, double max, double *ret,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* What to draw, or not to: UTF-8 within the bounds of a prompt. */
int kiln_verb_prompt(const char *name, const char *text, struct kiln_error *err) KILN_MUST_CHECK;
/* FILE or FILE:W; a colon that no number follows belongs to the name, unless there is such a FILE
 * and none of the whole name, and so does one where there is a file of the whole name alone.  Cuts
 * text at the colon; the path in *ret is text.  count: of those given before. */
int kiln_verb_lora(char *text, int count, DiffusionZLora *ret,
                   struct kiln_error *err) KILN_MUST_CHECK;
/* A side of a picture in pixels; steps; threads of the CPU, 0 for all. */
int kiln_verb_side(const char *name, const char *text, int32_t *ret,
                   struct kiln_error *err) KILN_MUST_CHECK;
int kiln_verb_steps(const char *text, int32_t *ret, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_verb_threads(const char *text, int32_t *ret, struct kiln_error *err) KILN_MUST_CHECK;

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
