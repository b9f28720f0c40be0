/* tokenizer.h - text to token ids: the byte-level BPE of Qwen 2 and 3.
 *
 *     text -> added tokens cut out -> NFC -> regular expression -> bytes -> merges -> ids
 *
 * Gives the ids of Hugging Face's tokenizers for the same files.  Reads tokenizer.json, or else
 * vocab.json + merges.txt with the added tokens of tokenizer_config.json.  An open tokenizer never
 * changes, so any number of threads may encode with it.
 */
#ifndef KILN_TOKENIZER_H
#define KILN_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_TOKENIZE_BYTES_MAX (1024 * 1024) /* of one text */

struct kiln_tokenizer;

/* dir: the folder tokenizer of a model.  KILN_NOT_FOUND without its files, KILN_CORRUPT for
 * inconsistent files, KILN_UNSUPPORTED for a step that Kiln does not run; the text names file and
 * part. */
int kiln_tokenizer_open(const char *dir, struct kiln_tokenizer **ret,
                        struct kiln_error *err) KILN_MUST_CHECK;
void kiln_tokenizer_free(struct kiln_tokenizer *t); /* accepts NULL */

/* The first KILN_TOKENS_MAX ids of the text, wrapped as one user turn of the chat template unless
 * raw. The caller frees *ret_ids, which is never NULL.  KILN_BAD_INPUT for text that is not UTF-8
 * (with the offset of the byte) or longer than KILN_TOKENIZE_BYTES_MAX. */
int kiln_tokenizer_encode(const struct kiln_tokenizer *t, const char *text, size_t len, bool raw,
                          int32_t **ret_ids, size_t *ret_count,
                          struct kiln_error *err) KILN_MUST_CHECK;

/* How many ids the chat template puts before a text and behind it. */
int kiln_tokenizer_turn(const struct kiln_tokenizer *t, size_t *ret_before, size_t *ret_after,
                        struct kiln_error *err) KILN_MUST_CHECK;

/* Whether it has the tokens of the chat template; if not, only raw text can be encoded. */
bool kiln_tokenizer_wraps(const struct kiln_tokenizer *t);
/* The largest id that it can give; the text encoder needs more embeddings than that. */
int32_t kiln_tokenizer_max_id(const struct kiln_tokenizer *t);

#endif
