/* bert_run.c - the forward pass of an encoder of the BERT class (Devlin et al., 2019):
 *
 *     x = norm(word + position + type)
 *     layer: x = norm(x + Wo softmax(q k' / sqrt d) v);  x = norm(x + W2 gelu(W1 x))
 *
 * Texts are not padded: linear layers run over the tokens of all texts, attention text by text.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/attention/softmax.h"
#include "kernels/products/dense.h"
#include "kernels/rows/gelu.h"
#include "kernels/rows/post_norm.h"
#include "pipeline/embed/bert.h"

#define QUERIES 64 /* whose scores are computed together */

/* Memory of one pass, taken as one piece. */
struct scratch {
    float *qkv;    /* [tokens][3 width] */
    float *mixed;  /* [tokens][width]: what attention gathered, then a layer's output */
    float *inner;  /* [tokens][inner], or [tokens][width] behind attention */
    float *keys;   /* of a head, packed */
    float *values; /* of a head, packed */
    float *scores; /* [QUERIES][tokens of a text] */
};

/* False: no memory. */
static bool take_scratch(const struct kiln_bert_weights *w, size_t tokens, size_t longest,
                         struct scratch *ret)
{
    const int64_t head = (int64_t)(w->width / w->heads), most = (int64_t)longest;
    const size_t inner = w->inner > w->width ? w->inner : w->width;
    const size_t sizes[] = {tokens * 3 * w->width,
                            tokens * w->width,
                            tokens * inner,
                            (size_t)kiln_dense_packed(head, most),
                            (size_t)kiln_dense_packed(most, head),
                            QUERIES * longest};
    float **parts[] = {&ret->qkv, &ret->mixed, &ret->inner, &ret->keys, &ret->values, &ret->scores};
    size_t total = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        total += sizes[i];
    float *at = malloc(total * sizeof *at);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        *parts[i] = at;
        at = at ? at + sizes[i] : NULL;
    }
    return ret->qkv != NULL;
}

/* y of all rows, in columns of rows that are y_pitch long. */
static void linear(const struct kiln_bert_linear *l, const float *x, size_t rows, float *y,
                   size_t y_pitch)
{
    const struct kiln_dense args = {.x = x,
                                    .b = l->packed,
                                    .bias = l->bias,
                                    .y = y,
                                    .k = (int64_t)l->inputs,
                                    .n = (int64_t)l->outputs,
                                    .x_pitch = (int64_t)l->inputs,
                                    .y_pitch = (int64_t)y_pitch};
    kiln_dense_ref(&args, (int64_t)rows);
}

/* One head of one text.  qkv: of its first token and this head; out: [tokens][width] likewise. */
static void attend_head(const struct scratch *s, const float *qkv, size_t width, size_t head,
                        size_t tokens, float *out)
{
    const int64_t pitch = (int64_t)(3 * width), d = (int64_t)head, count = (int64_t)tokens;
    kiln_dense_pack_rows(qkv + width, pitch, count, d, s->keys);
    kiln_dense_pack_lines(qkv + 2 * width, pitch, d, count, s->values);
    for (int64_t from = 0; from < count; from += QUERIES) {
        const int64_t left = count - from, rows = left < QUERIES ? left : QUERIES;
        const struct kiln_dense score = {.x = qkv + from * pitch,
                                         .b = s->keys,
                                         .y = s->scores,
                                         .k = d,
                                         .n = count,
                                         .x_pitch = pitch,
                                         .y_pitch = count};
        const struct kiln_softmax soft = {.scores = s->scores,
                                          .y = s->scores,
                                          .n = count,
                                          .format = KILN_F32,
                                          .scale = 1.0f / sqrtf((float)head)};
        const struct kiln_dense mix = {.x = s->scores,
                                       .b = s->values,
                                       .y = out + from * (int64_t)width,
                                       .k = count,
                                       .n = d,
                                       .x_pitch = count,
                                       .y_pitch = (int64_t)width};
        kiln_dense_ref(&score, rows);
        kiln_softmax_ref(&soft, 0, rows);
        kiln_dense_ref(&mix, rows);
    }
}

static void attend(const struct kiln_bert_weights *w, const struct kiln_bert_batch *batch,
                   const struct scratch *s)
{
    const size_t head = w->width / w->heads;
    const float *qkv = s->qkv;
    float *out = s->mixed;
    for (size_t i = 0; i < batch->texts; i++) {
        for (size_t h = 0; h < w->heads; h++)
            attend_head(s, qkv + h * head, w->width, head, batch->counts[i], out + h * head);
        qkv += batch->counts[i] * 3 * w->width;
        out += batch->counts[i] * w->width;
    }
}

static void norm(const struct kiln_bert_weights *w, const struct kiln_bert_norm *n, float *x,
                 const float *y, size_t rows)
{
    const struct kiln_post_norm args = {
        .x = x, .y = y, .gain = n->gain, .bias = n->bias, .n = (int64_t)w->width, .eps = w->eps};
    kiln_post_norm_ref(&args, (int64_t)rows);
}

static void run_layer(const struct kiln_bert_weights *w, const struct kiln_bert_layer *layer,
                      const struct kiln_bert_batch *batch, const struct scratch *s, float *x)
{
    const size_t rows = batch->tokens, width = w->width;
    linear(&layer->query, x, rows, s->qkv, 3 * width);
    linear(&layer->key, x, rows, s->qkv + width, 3 * width);
    linear(&layer->value, x, rows, s->qkv + 2 * width, 3 * width);
    attend(w, batch, s);
    linear(&layer->output, s->mixed, rows, s->inner, width);
    norm(w, &layer->attention_norm, x, s->inner, rows);
    linear(&layer->inner, x, rows, s->inner, w->inner);
    kiln_gelu_ref(s->inner, (int64_t)(rows * w->inner), w->tanh_gelu);
    linear(&layer->outer, s->inner, rows, s->mixed, width);
    norm(w, &layer->norm, x, s->mixed, rows);
}

static int embed_tokens(const struct kiln_bert_weights *w, const struct kiln_bert_batch *batch,
                        float *x, struct kiln_error *err)
{
    const int32_t *id = batch->ids;
    for (size_t i = 0; i < batch->texts; i++)
        for (size_t at = 0; at < batch->counts[i]; at++, x += w->width) {
            memcpy(x, w->places + at * w->width, w->width * sizeof *x);
            int rc = kiln_table_add(w->words, (size_t)*id++, 1, x, err);
            if (rc)
                return rc;
        }
    return 0;
}

int kiln_bert_run(const struct kiln_bert_weights *w, const struct kiln_bert_batch *batch,
                  float *states, struct kiln_error *err)
{
    struct scratch s;
    size_t longest = 0;
    for (size_t i = 0; i < batch->texts; i++)
        longest = batch->counts[i] > longest ? batch->counts[i] : longest;
    int rc = embed_tokens(w, batch, states, err);
    if (rc)
        return rc;
    if (!take_scratch(w, batch->tokens, longest, &s))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to embed %zu tokens", batch->tokens);
    norm(w, &w->norm, states, NULL, batch->tokens);
    for (size_t i = 0; i < w->layers; i++)
        run_layer(w, &w->layer[i], batch, &s, states);
    free(s.qkv);
    return 0;
}
