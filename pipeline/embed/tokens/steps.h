/* steps.h - what a tokenizer does before its model: a normaliser that rewrites the text and a
 * pre-tokenizer that cuts it into words, both lists of steps as tokenizer.json names them.
 */
#ifndef KILN_EMBED_STEPS_H
#define KILN_EMBED_STEPS_H

#include <jansson.h>

#include "schemas/error.h"
#include "schemas/text/text.h"

#define KILN_EMBED_STEPS_MAX 64             /* of each list */
#define KILN_EMBED_NORMAL_MAX (1024 * 1024) /* bytes of a normalised text */

struct kiln_steps;

/* root: a tokenizer.json; path names it in errors.  KILN_UNSUPPORTED for an unknown step or
 * option, with its name. */
int kiln_steps_read(const json_t *root, const char *path, struct kiln_steps **ret,
                    struct kiln_error *err) KILN_MUST_CHECK;
void kiln_steps_free(struct kiln_steps *s); /* accepts NULL */

/* Appends the normalised text to out; text is valid UTF-8.  KILN_BAD_INPUT if it grows beyond
 * KILN_EMBED_NORMAL_MAX. */
int kiln_steps_normalise(const struct kiln_steps *s, const char *text, size_t len,
                         struct kiln_text *out, struct kiln_error *err) KILN_MUST_CHECK;

/* Calls word for each word of normalised text, in order; a result other than 0 ends the call and
 * is returned.  The word is lent for the call. */
typedef int kiln_word_fn(void *arg, const char *word, size_t len, struct kiln_error *err);
int kiln_steps_split(const struct kiln_steps *s, const char *text, size_t len, kiln_word_fn *word,
                     void *arg, struct kiln_error *err) KILN_MUST_CHECK;

/* Whether the text is put into lower case: -1 no step says so, else 0 or 1. */
int kiln_steps_lowercase(const struct kiln_steps *s);

#endif
