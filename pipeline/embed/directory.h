/* directory.h - which embedder a directory holds, read from its small JSON files.
 *
 * Understood are sentence-transformers (modules.json; both generations of its module names and
 * pooling keys), plain Hugging Face (config.json with model_type bert) and model2vec.  Any other
 * component is refused by name.  Weights are read by the kinds.
 */
#ifndef KILN_EMBED_DIRECTORY_H
#define KILN_EMBED_DIRECTORY_H

#include <stdbool.h>

#include "pipeline/embed/embedder.h"

enum kiln_embed_type { KILN_EMBED_STATIC, KILN_EMBED_BERT };
enum kiln_embed_pooling { KILN_EMBED_MEAN, KILN_EMBED_CLS };

struct kiln_embed_layout {
    enum kiln_embed_type type;
    char *tensors, *tokenizer;       /* paths, owned: model.safetensors and tokenizer.json */
    enum kiln_embed_pooling pooling; /* bert */
    /* static: tokens of a text, 0 for no limit; bert: with special tokens, at least 3. */
    size_t tokens_max;
    size_t layers, width, heads, inner, positions; /* bert */
    float norm_eps;                                /* bert */
    bool tanh_gelu;                                /* bert: the approximation of GELU by tanh */
    int lowercase;                                 /* what tokenizer_config.json says, or -1 */
    char query_prefix[KILN_EMBED_PREFIX_MAX], passage_prefix[KILN_EMBED_PREFIX_MAX];
};

/* Release also after a failure. */
int kiln_embed_layout_read(const char *dir, const struct kiln_embed_options *options,
                           struct kiln_embed_layout *ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_embed_layout_release(struct kiln_embed_layout *layout);

#endif
