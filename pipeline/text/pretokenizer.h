/* pretokenizer.h - splits normalised text into words by a regular expression. */
#ifndef KILN_PRETOKENIZER_H
#define KILN_PRETOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

/* The pattern of Qwen 2 and 3, which vocab.json + merges.txt imply. */
extern const char kiln_qwen_pattern[];

struct kiln_pretokenizer;

/* pattern: in the dialect of tokenizer.json (Oniguruma).  KILN_UNSUPPORTED for an escape that may
 * mean something else in PCRE2, KILN_CORRUPT if it does not compile. */
int kiln_pretokenizer_new(const char *pattern, struct kiln_pretokenizer **ret,
                          struct kiln_error *err) KILN_MUST_CHECK;
void kiln_pretokenizer_free(struct kiln_pretokenizer *p); /* accepts NULL */

/* Calls word for every match and for the text between matches, in order.  Stops when word returns a
 * code other than 0, and returns it.  The text is valid UTF-8. */
typedef int kiln_word_fn(void *ctx, const uint8_t *word, size_t len, struct kiln_error *err);
int kiln_pretokenizer_split(const struct kiln_pretokenizer *p, const uint8_t *text, size_t len,
                            kiln_word_fn *word, void *ctx, struct kiln_error *err) KILN_MUST_CHECK;

#endif
