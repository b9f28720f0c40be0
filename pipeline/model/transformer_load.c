/* transformer_load.c - the transformer's tensors by name and shape; see transformer_parts.h. */
#include <stdio.h>
#include <stdlib.h>

#include "pipeline/model/transformer_parts.h"

#define TIME_FREQUENCIES 256 /* inputs of the time MLP */
#define TIME_HIDDEN 1024

/* Notes the layer in the parameter table, so that LoRAs can be applied beside its weight. */
static void note_layer(struct kiln_param_table *params, struct kiln_linear_layer *layer)
{
    for (size_t i = 0; i < params->count; i++)
        if (params->items[i].slot == &layer->weight)
            params->items[i].layer = layer;
}

/* e4m3: the large matrices are quantised. */
static void load_block(struct kiln_weights *w, const struct kiln_transformer_config *c,
                       const char *list, int index, bool modulated, bool e4m3, struct kiln_block *b)
{
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s.%d.", list, index);
    int64_t n = c->width, ffn = c->ffn;
    const struct kiln_pack qkv = {.modules = {"attention.to_q", "attention.to_k", "attention.to_v"},
                                  .rows = {n, n, n},
                                  .fused = "attention.qkv"};
    const struct kiln_pack gate_up = {.modules = {"feed_forward.w1", "feed_forward.w3"},
                                      .rows = {ffn, ffn}};
    kiln_weights_gain(w, &b->norm_attention_in, prefix, "attention_norm1.weight", n);
    kiln_weights_gain(w, &b->norm_attention_out, prefix, "attention_norm2.weight", n);
    kiln_weights_gain(w, &b->norm_ffn_in, prefix, "ffn_norm1.weight", n);
    kiln_weights_gain(w, &b->norm_ffn_out, prefix, "ffn_norm2.weight", n);
    if (c->qk_norm) {
        kiln_weights_vector(w, &b->q_norm, prefix, "attention.norm_q.weight", c->head_dim);
        kiln_weights_vector(w, &b->k_norm, prefix, "attention.norm_k.weight", c->head_dim);
    }
    kiln_weights_quantise(w, e4m3);
    kiln_weights_pack(w, &b->qkv.weight, prefix, &qkv, n);
    kiln_weights_linear(w, &b->out.weight, prefix, "attention.to_out.0", n, n);
    kiln_weights_pack(w, &b->gate_up.weight, prefix, &gate_up, n);
    kiln_weights_linear(w, &b->down.weight, prefix, "feed_forward.w2", n, ffn);
    kiln_weights_quantise(w, false);
    if (modulated) {
        kiln_weights_linear(w, &b->modulation, prefix, "adaLN_modulation.0", 4 * n, c->time_width);
        kiln_weights_vector(w, &b->modulation_bias, prefix, "adaLN_modulation.0.bias", 4 * n);
    }
}

static void load_time(struct kiln_weights *w, const struct kiln_transformer_config *c,
                      const char *prefix, struct kiln_time_embedder *e)
{
    kiln_weights_linear(w, &e->in, prefix, "mlp.0", TIME_HIDDEN, TIME_FREQUENCIES);
    kiln_weights_vector(w, &e->in_bias, prefix, "mlp.0.bias", TIME_HIDDEN);
    kiln_weights_linear(w, &e->out, prefix, "mlp.2", c->time_width, TIME_HIDDEN);
    kiln_weights_vector(w, &e->out_bias, prefix, "mlp.2.bias", c->time_width);
}

/* The tensors outside of the blocks.  target: with the embedder of a second time. */
static void load_ends(struct kiln_weights *w, bool target, struct kiln_transformer *t)
{
    const struct kiln_transformer_config *c = &t->config;
    int64_t n = c->width, patch = (int64_t)c->patch * c->patch * c->channels;
    kiln_weights_linear(w, &t->embed, "", "all_x_embedder.2-1", n, patch);
    kiln_weights_vector(w, &t->embed_bias, "", "all_x_embedder.2-1.bias", n);
    kiln_weights_table(w, &t->image_pad, "", "x_pad_token", 1, n);
    kiln_weights_gain(w, &t->caption_norm, "", "cap_embedder.0.weight", c->caption_width);
    kiln_weights_linear(w, &t->caption, "", "cap_embedder.1", n, c->caption_width);
    kiln_weights_vector(w, &t->caption_bias, "", "cap_embedder.1.bias", n);
    kiln_weights_table(w, &t->caption_pad, "", "cap_pad_token", 1, n);
    load_time(w, c, "t_embedder.", &t->time);
    if (target)
        load_time(w, c, "t_embedder_2.", &t->target);
    kiln_weights_linear(w, &t->final, "", "all_final_layer.2-1.linear", patch, n);
    kiln_weights_vector(w, &t->final_bias, "", "all_final_layer.2-1.linear.bias", patch);
    kiln_weights_linear(w, &t->final_modulation, "", "all_final_layer.2-1.adaLN_modulation.1", n,
                        c->time_width);
    kiln_weights_vector(w, &t->final_modulation_bias, "",
                        "all_final_layer.2-1.adaLN_modulation.1.bias", n);
    kiln_weights_ignore(w, "norm_final.weight"); /* some repacks carry it; nothing reads it */
}

/* Sets residual_columns: format and device decide whether rows have tails. */
static void note_stream(struct kt_scope *scope, struct kiln_transformer *t, bool tails)
{
    struct kt_scope *inner = kt_scope_child(scope);
    t->residual_columns = t->config.width;
    if (tails && t->image_pad)
        t->residual_columns = kt_size(kt_with_tails(inner, t->image_pad), 1);
    kt_scope_free(inner);
}

int kiln_transformer_load(const char *dir, const struct kiln_transformer_config *config,
                          struct kt_scope *scope, enum kt_dtype dtype, struct kiln_fp8_cache *cache,
                          const char *name, struct kiln_param_table *params,
                          struct kiln_transformer **ret, struct kiln_error *err)
{
    struct kiln_weights *w;
    const bool e4m3 = dtype == KT_E4M3;
    const enum kt_dtype plain = e4m3 ? KT_BF16 : dtype;
    int code = kiln_weights_open(dir, "cap_embedder.1.weight", scope, plain, params, &w, err);
    if (code)
        return code;
    int refiner = config->refiner_layers, count = 2 * refiner + config->layers;
    struct kiln_transformer *t = calloc(1, sizeof *t + (size_t)count * sizeof t->blocks[0]);
    if (!t) {
        (void)!kiln_weights_close(w, NULL);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the transformer");
    }
    t->config = *config;
    t->dtype = plain;
    kiln_weights_cache(w, cache, name);
    load_ends(w, dir && kiln_weights_has(w, "t_embedder_2.mlp.0.weight"), t);
    note_stream(scope, t, !e4m3);
    for (int i = 0; i < refiner; i++) {
        load_block(w, config, "noise_refiner", i, true, e4m3, &t->blocks[i]);
        /* Runs once a prompt: FP8 would save next to nothing. */
        load_block(w, config, "context_refiner", i, false, false, &t->blocks[refiner + i]);
    }
    for (int i = 0; i < config->layers; i++)
        load_block(w, config, "layers", i, true, e4m3, &t->blocks[2 * refiner + i]);
    for (int i = 0; i < count; i++) {
        note_layer(params, &t->blocks[i].qkv);
        note_layer(params, &t->blocks[i].out);
        note_layer(params, &t->blocks[i].gate_up);
        note_layer(params, &t->blocks[i].down);
    }
    code = kiln_weights_close(w, err);
    if (code)
        kiln_transformer_free(t);
    else
        *ret = t;
    return code;
}

void kiln_transformer_free(struct kiln_transformer *t)
{
    free(t);
}
