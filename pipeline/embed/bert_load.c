/* bert_load.c - reads the tensors of a BERT-class checkpoint, with or without the prefix "bert.".
 * Matrices are packed once; word embeddings stay as the file has them.  The pooler and
 * the buffer position_ids are not needed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/products/dense.h"
#include "pipeline/embed/bert.h"

#define NAME_MAX_BYTES 160

struct loading {
    struct kiln_bert_weights *w;
    const char *prefix;
    struct kiln_error *err;
    int rc; /* the first failure; what follows does nothing */
};

/* The values of a tensor of that many, or NULL with l->rc set. */
static float *values(struct loading *l, const char *name, size_t count)
{
    char full[NAME_MAX_BYTES];
    float *read = NULL;
    if (l->rc)
        return NULL;
    snprintf(full, sizeof full, "%s%s", l->prefix, name);
    const struct kiln_st_tensor *t = kiln_st_find(l->w->st, full);
    if (!t)
        l->rc = kiln_fail(l->err, KILN_CORRUPT, "no tensor \"%s\"", full);
    else
        l->rc = kiln_table_values(l->w->st, t, count, &read, l->err);
    return l->rc ? NULL : read;
}

static void read_norm(struct loading *l, const char *name, struct kiln_bert_norm *ret)
{
    char full[NAME_MAX_BYTES];
    snprintf(full, sizeof full, "%s.weight", name);
    ret->gain = values(l, full, l->w->width);
    snprintf(full, sizeof full, "%s.bias", name);
    ret->bias = values(l, full, l->w->width);
}

static void read_linear(struct loading *l, size_t layer, const char *name, size_t inputs,
                        size_t outputs, struct kiln_bert_linear *ret)
{
    char full[NAME_MAX_BYTES];
    const int64_t size = kiln_dense_packed((int64_t)inputs, (int64_t)outputs);
    *ret = (struct kiln_bert_linear){.inputs = inputs, .outputs = outputs};
    snprintf(full, sizeof full, "encoder.layer.%zu.%s.weight", layer, name);
    float *rows = values(l, full, inputs * outputs);
    if (rows && !(ret->packed = malloc((size_t)size * sizeof *ret->packed)))
        l->rc = kiln_fail(l->err, KILN_NO_MEMORY, "no memory for \"%s\"", full);
    if (ret->packed)
        kiln_dense_pack_rows(rows, (int64_t)inputs, (int64_t)outputs, (int64_t)inputs, ret->packed);
    free(rows);
    snprintf(full, sizeof full, "encoder.layer.%zu.%s.bias", layer, name);
    ret->bias = values(l, full, outputs);
}

static void read_layer(struct loading *l, size_t i, struct kiln_bert_layer *ret)
{
    const size_t width = l->w->width, inner = l->w->inner;
    char name[NAME_MAX_BYTES];
    read_linear(l, i, "attention.self.query", width, width, &ret->query);
    read_linear(l, i, "attention.self.key", width, width, &ret->key);
    read_linear(l, i, "attention.self.value", width, width, &ret->value);
    read_linear(l, i, "attention.output.dense", width, width, &ret->output);
    read_linear(l, i, "intermediate.dense", width, inner, &ret->inner);
    read_linear(l, i, "output.dense", inner, width, &ret->outer);
    snprintf(name, sizeof name, "encoder.layer.%zu.attention.output.LayerNorm", i);
    read_norm(l, name, &ret->attention_norm);
    snprintf(name, sizeof name, "encoder.layer.%zu.output.LayerNorm", i);
    read_norm(l, name, &ret->norm);
}

/* Position embeddings, with the embedding of token type 0 that every token has. */
static void read_places(struct loading *l)
{
    struct kiln_bert_weights *w = l->w;
    char full[NAME_MAX_BYTES];
    snprintf(full, sizeof full, "%sembeddings.token_type_embeddings.weight", l->prefix);
    const struct kiln_st_tensor *t = kiln_st_find(w->st, full);
    const size_t types = t && t->ndim == 2 && t->shape[0] > 0 ? (size_t)t->shape[0] : 1;
    w->places = values(l, "embeddings.position_embeddings.weight", w->positions * w->width);
    float *type = values(l, "embeddings.token_type_embeddings.weight", types * w->width);
    for (size_t i = 0; type && i < w->positions * w->width; i++)
        w->places[i] += type[i % w->width];
    free(type);
}

int kiln_bert_load(const struct kiln_embed_layout *layout, struct kiln_bert_weights *ret,
                   struct kiln_error *err)
{
    static const char word_table[] = "embeddings.word_embeddings.weight";
    char full[NAME_MAX_BYTES];
    *ret = (struct kiln_bert_weights){.layers = layout->layers,
                                      .width = layout->width,
                                      .heads = layout->heads,
                                      .inner = layout->inner,
                                      .positions = layout->positions,
                                      .eps = layout->norm_eps,
                                      .tanh_gelu = layout->tanh_gelu};
    struct loading l = {ret, "", err, kiln_st_open(layout->tensors, &ret->st, err)};
    if (l.rc)
        return l.rc;
    if (!kiln_st_find(ret->st, word_table))
        l.prefix = "bert.";
    snprintf(full, sizeof full, "%s%s", l.prefix, word_table);
    l.rc = kiln_table_open(ret->st, full, ret->width, KILN_EMBED_DIMS_MAX, &ret->words, err);
    read_places(&l);
    read_norm(&l, "embeddings.LayerNorm", &ret->norm);
    if (!l.rc && !(ret->layer = calloc(ret->layers, sizeof *ret->layer)))
        l.rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for %zu layers", ret->layers);
    for (size_t i = 0; i < ret->layers && !l.rc; i++)
        read_layer(&l, i, &ret->layer[i]);
    return l.rc;
}

static void release_linear(struct kiln_bert_linear *linear)
{
    free(linear->packed);
    free(linear->bias);
}

static void release_norm(struct kiln_bert_norm *norm)
{
    free(norm->gain);
    free(norm->bias);
}

void kiln_bert_release(struct kiln_bert_weights *w)
{
    for (size_t i = 0; w->layer && i < w->layers; i++) {
        struct kiln_bert_layer *layer = &w->layer[i];
        release_linear(&layer->query);
        release_linear(&layer->key);
        release_linear(&layer->value);
        release_linear(&layer->output);
        release_linear(&layer->inner);
        release_linear(&layer->outer);
        release_norm(&layer->attention_norm);
        release_norm(&layer->norm);
    }
    free(w->layer);
    release_norm(&w->norm);
    free(w->places);
    kiln_table_free(w->words);
    kiln_st_close(w->st);
    *w = (struct kiln_bert_weights){0};
}
