/* models.h - the two models of subword tokenizers: one word to the ids of its pieces.
 *
 * WordPiece takes the longest piece again and again; Unigram the pieces whose log-probabilities
 * have the largest sum (Viterbi).  Private to this folder.
 */
#ifndef KILN_EMBED_MODELS_H
#define KILN_EMBED_MODELS_H

#include <jansson.h>

#include "pipeline/embed/tokens/ids.h"
#include "pipeline/embed/tokens/pieces.h"
#include "schemas/error.h"

enum kiln_subword_model { KILN_WORDPIECE, KILN_UNIGRAM };

struct kiln_model {
    enum kiln_subword_model type;
    struct kiln_pieces *pieces;
    int32_t unk_id; /* -1: it has none */
    int32_t max_id;
    size_t word_max;              /* WordPiece: characters of a word; a longer one is unknown */
    struct kiln_piece_walk inner; /* WordPiece: the walk behind "##" */
    bool has_inner;               /* whether any piece begins with that prefix */
    double *scores;               /* Unigram: [max_id + 1] */
    double unk_score;
};

/* model: the object "model" of a tokenizer.json, path names the file.  Release after failure too.
 */
int kiln_model_read(const json_t *model, const char *path, struct kiln_model *ret,
                    struct kiln_error *err) KILN_MUST_CHECK;
void kiln_model_release(struct kiln_model *m);

/* Append the ids of a word of valid UTF-8.  KILN_UNSUPPORTED if it needs an unknown token and the
 * model has none. */
int kiln_wordpiece_encode(const struct kiln_model *m, const char *word, size_t len,
                          struct kiln_ids *ids, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_unigram_encode(const struct kiln_model *m, const char *word, size_t len,
                        struct kiln_ids *ids, struct kiln_error *err) KILN_MUST_CHECK;

#endif
