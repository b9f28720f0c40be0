/* captions.h - the embedder over the image model's own text encoder.
 *
 * The features that the picture was rendered from are a description of it, without a second model.
 * A query must go through the same encoder, so this is for models whose encoder is small (the demo
 * model: 1.3 M parameters).  Vectors are averages over the caption's own tokens after a fit
 * (fit.h); they find candidates, and the tokens, mapped by a head (head.h), rank them
 * (token_rows.h).  README.md says how the processes get the encoder.
 */
#ifndef KILN_CAPTIONS_H
#define KILN_CAPTIONS_H

#include "pipeline/embed/captions/fit.h"
#include "pipeline/embed/captions/head.h"
#include "pipeline/embed/embedder.h"

#define KILN_CAPTION_TOKENS_MAX 512 /* of one caption, wrapper not counted */

/* A text encoder, whoever provides it: the library that library.h opens, or a test. */
struct kiln_caption_encoder {
    /* Features of the text's own tokens, without those of the chat template: [*ret_count][width],
     * at most KILN_CAPTION_TOKENS_MAX.  A text without tokens gives 0.  One call at a time. */
    int (*encode)(void *arg, const char *text, size_t len, float *features, size_t *ret_count,
                  struct kiln_error *err);
    void (*close)(void *arg);
    void *arg;
    size_t width;
    char model[KILN_FIT_MODEL_SIZE]; /* hash of the model */
};

/* Encodes a text for this use, a query in the words of noun_phrase.h, and says how the head is to
 * be applied. */
int kiln_caption_encode(const struct kiln_caption_encoder *encoder, enum kiln_embed_use use,
                        const char *text, size_t len, float *features, size_t *ret_count,
                        enum kiln_head_use *ret_use, struct kiln_error *err) KILN_MUST_CHECK;

/* An embedder ("captions") with features of tokens, the first KILN_TOKEN_ROWS_MAX of which rank
 * what the vector finds; it owns the encoder from now on, also after a failure.  fit, head: files;
 * head NULL: tokens are used as they are.  KILN_CORRUPT if one was made for another model or width.
 */
int kiln_captions_open(const struct kiln_caption_encoder *encoder, const char *fit,
                       const char *head, struct kiln_embedder **ret,
                       struct kiln_error *err) KILN_MUST_CHECK;

#endif
