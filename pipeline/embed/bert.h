/* bert.h - the weights of an encoder of the BERT class, in the order that its products read, and
 * its forward pass.  Private to bert.c, bert_load.c and bert_run.c.
 */
#ifndef KILN_EMBED_BERT_H
#define KILN_EMBED_BERT_H

#include "pipeline/embed/directory.h"
#include "pipeline/embed/table.h"

/* A linear layer; weights packed as kernels/products/dense.h says. */
struct kiln_bert_linear {
    float *packed, *bias;
    size_t inputs, outputs;
};

struct kiln_bert_norm {
    float *gain, *bias;
};

struct kiln_bert_layer {
    struct kiln_bert_linear query, key, value, output, inner, outer;
    struct kiln_bert_norm attention_norm, norm;
};

struct kiln_bert_weights {
    size_t layers, width, heads, inner, positions;
    float eps;
    bool tanh_gelu;
    struct kiln_st *st;
    struct kiln_table *words;
    float *places; /* [positions][width]: position embedding + token type 0 */
    struct kiln_bert_norm norm;
    struct kiln_bert_layer *layer;
};

/* Release also after a failure. */
int kiln_bert_load(const struct kiln_embed_layout *layout, struct kiln_bert_weights *ret,
                   struct kiln_error *err) KILN_MUST_CHECK;
void kiln_bert_release(struct kiln_bert_weights *w);

/* Texts that go through the encoder together. */
struct kiln_bert_batch {
    const int32_t *ids;   /* of all texts, one after the other; within the vocabulary */
    const size_t *counts; /* [texts] tokens of each, 1 to positions */
    size_t texts, tokens; /* tokens: of all */
};

/* states: [tokens][width], the last layer's output. */
int kiln_bert_run(const struct kiln_bert_weights *w, const struct kiln_bert_batch *batch,
                  float *states, struct kiln_error *err) KILN_MUST_CHECK;

#endif
