/* embedder.h - texts to vectors whose dot product says how alike the texts are in meaning.
 *
 * An embedder is opened from a directory in the layout of sentence-transformers, Hugging Face or
 * model2vec, detected by its files:
 *
 *     static    one vector a token, averaged: model2vec (potion), StaticEmbedding
 *     bert      a BERT-class encoder: all-MiniLM, bge, multilingual-e5
 *
 * The model's own caption features (captions/captions.h) are a third kind behind the same calls.
 *
 *     struct kiln_embedder *e;
 *     if (kiln_embedder_open(dir, NULL, &e, err) == 0) {
 *         float *row = malloc(kiln_embedder_info(e)->dims * sizeof *row);
 *         rc = kiln_embedder_embed(e, KILN_EMBED_QUERY, &(struct kiln_embed_text){text, len}, 1,
 *                                  row, err);
 *     }
 *
 * Vectors of two embedders must never be compared: store info->recipe beside every vector.  A raw
 * cosine is no probability; each embedder has its own background.
 */
#ifndef KILN_EMBEDDER_H
#define KILN_EMBEDDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_EMBED_DIMS_MAX 4096
#define KILN_EMBED_RECIPE_SIZE 64       /* bytes, with its NUL */
#define KILN_EMBED_PREFIX_MAX 256       /* bytes, with its NUL */
#define KILN_EMBED_TEXT_MAX (64 * 1024) /* bytes of one text */

struct kiln_embedder;

/* Some models want another prefix before what is looked for than before what is stored. */
enum kiln_embed_use { KILN_EMBED_PASSAGE, KILN_EMBED_QUERY };

struct kiln_embed_text {
    const char *at; /* UTF-8, borrowed for the call */
    size_t len;
};

/* NULL leaves a choice to the directory: the prompts of config_sentence_transformers.json, else
 * what is known of the checkpoint by its name (directory.c), else none. */
struct kiln_embed_options {
    const char *query_prefix, *passage_prefix;
};

struct kiln_embed_info {
    const char *kind; /* "static", "bert" or "captions" */
    /* Names the model's files by hash, the pooling, the dimensions and the prefixes:
     * "bert-384-" and 32 hex digits.  Equal recipes give equal vectors. */
    char recipe[KILN_EMBED_RECIPE_SIZE];
    size_t dims;
    size_t token_dims; /* of the features of a token, 0: there are none */
    bool learned;      /* a head that was trained for search has mapped them */
    size_t tokens_max; /* of one text, its special tokens included; what follows is cut off */
    char query_prefix[KILN_EMBED_PREFIX_MAX], passage_prefix[KILN_EMBED_PREFIX_MAX];
};

/* KILN_NOT_FOUND if dir has no model, KILN_UNSUPPORTED for a component that Kiln does not run, by
 * name, KILN_CORRUPT for inconsistent files.  options may be NULL. */
int kiln_embedder_open(const char *dir, const struct kiln_embed_options *options,
                       struct kiln_embedder **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_embedder_close(struct kiln_embedder *e); /* accepts NULL */
const struct kiln_embed_info *kiln_embedder_info(const struct kiln_embedder *e);

/* rows: [n][dims], each of length 1, or all zeros where the text gives no evidence: it is empty or
 * has only tokens that the model does not know.  A zero row matches nothing and must not be stored
 * as a vector.  Several texts in one call cost less than one by one.
 *
 * Any number of threads may call it with one embedder; each call takes its own memory.  Captions
 * run one call after the other.  KILN_BAD_INPUT for a text that is not UTF-8 or longer than
 * KILN_EMBED_TEXT_MAX, with its number; KILN_CORRUPT if the model gives what is not finite or its
 * file has changed.  Rows are undefined after a failure. */
int kiln_embedder_embed(const struct kiln_embedder *e, enum kiln_embed_use use,
                        const struct kiln_embed_text *texts, size_t n, float *rows,
                        struct kiln_error *err) KILN_MUST_CHECK;

/* Whether texts have features of tokens beside their vector. */
bool kiln_embedder_has_tokens(const struct kiln_embedder *e);
/* The vector of one text as above, and the features of its first tokens from the same run of the
 * model: features: [features_max][token_dims]; *ret_count of them, 0 without tokens.  The length of
 * a row says how much the token counts. */
int kiln_embedder_embed_tokens(const struct kiln_embedder *e, enum kiln_embed_use use,
                               const struct kiln_embed_text *text, float *row, float *features,
                               size_t features_max, size_t *ret_count,
                               struct kiln_error *err) KILN_MUST_CHECK;

#endif
