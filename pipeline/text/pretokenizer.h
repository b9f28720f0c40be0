/* pretokenizer.h - normalised text to words: the split by a regular expression. */
#ifndef KILN_PRETOKENIZER_H
#define KILN_PRETOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

/* The pattern of Qwen 2 and 3, which vocab.json + merges.txt imply. */
extern const char kiln_qwen_pattern[];

struct kiln_pretokenizer;

/* pattern: in the dialect of tokenizer.json (Oniguruma).  KILN_UNSUPPORTED for an escape whose
 * meaning is not surely the same in both dialects, KILN_CORRUPT if it is no pattern. */
int kiln_pretokenizer_new(const char *pattern, struct kiln_pretokenizer **ret,
                          struct kiln_error *err) KILN_MUST_CHECK;
void kiln_pretokenizer_free(struct kiln_pretokenizer *p); /* accepts NULL */

/* Calls word for every match and for every stretch between matches, in order, until it returns
 * non-zero, which is then returned.  The text is valid UTF-8. */
typedef int kiln_word_fn(void *ctx, const uint8_t *word, size_t len, struct kiln_error *err);
int kiln_pretokenizer_split(const struct kiln_pretokenizer *p, const uint8_t *text, size_t len,
                            kiln_word_fn *word, void *ctx, struct kiln_error *err) KILN_MUST_CHECK;

#endif
