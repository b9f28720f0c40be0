/* subwords.h - text to token ids with the tokenizers of text embedders: WordPiece and Unigram.
 *
 *     text -> added tokens cut out -> normaliser -> words -> model -> template ([CLS] .. [SEP])
 *
 * Gives the ids of Hugging Face's tokenizers for the same tokenizer.json.  Open tokenizers never
 * change, so any number of threads may encode with one.
 */
#ifndef KILN_EMBED_SUBWORDS_H
#define KILN_EMBED_SUBWORDS_H

#include "pipeline/embed/tokens/ids.h"
#include "schemas/error.h"

struct kiln_subwords;

struct kiln_subwords_info {
    int32_t unk_id;       /* -1: none */
    int32_t blank_id;     /* the piece that is only the mark of a space, U+2581; -1: none */
    int32_t max_id;       /* the largest id that a text can have */
    size_t special_count; /* tokens that the template adds to a text */
    size_t median_length; /* characters of a token, the median, rounded down; at least 1 */
    int lowercase;        /* 1, 0, or -1: no step says so */
};

/* path: a tokenizer.json.  KILN_NOT_FOUND without it, KILN_CORRUPT if it is inconsistent,
 * KILN_UNSUPPORTED for a part that Kiln does not run; the text names file and part. */
int kiln_subwords_open(const char *path, struct kiln_subwords **ret,
                       struct kiln_error *err) KILN_MUST_CHECK;
void kiln_subwords_free(struct kiln_subwords *s); /* accepts NULL */
const struct kiln_subwords_info *kiln_subwords_info(const struct kiln_subwords *s);

/* How many of the ids say anything: neither unknown nor the mark of a space alone. */
size_t kiln_subwords_known(const struct kiln_subwords *s, const int32_t *ids, size_t count);

/* Appends the ids of a text of valid UTF-8: at most max of the text's own and, if template is set,
 * those of the template around them. */
int kiln_subwords_encode(const struct kiln_subwords *s, const char *text, size_t len, bool template,
                         size_t max, struct kiln_ids *ids, struct kiln_error *err) KILN_MUST_CHECK;

#endif
