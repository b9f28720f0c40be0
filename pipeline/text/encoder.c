/* encoder.c - loads Qwen3 without its last layer, and runs it prompt by prompt; see encoder.h.
 *
 *     x += o( attention( qkv( RMS(x) ) ) )         per-head q/k norm, rotation by halves, causal
 *     x += down( silu(gate u) * up u ),  u = RMS(x)
 */
#include "pipeline/text/encoder_parts.h"

#include <stdio.h>
#include <stdlib.h>

#include "pipeline/weights/weights.h"
#include "schemas/limits.h"

/* e4m3: the matrices are quantised. */
static void load_layer(struct kiln_weights *w, const struct kiln_text_config *c, int index,
                       bool e4m3, struct kiln_text_layer *l)
{
    char prefix[64];
    snprintf(prefix, sizeof prefix, "layers.%d.", index);
    int64_t q = (int64_t)c->heads * c->head_dim, kv = (int64_t)c->kv_heads * c->head_dim;
    const struct kiln_pack qkv = {
        .modules = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
        .rows = {q, kv, kv}};
    const struct kiln_pack gate_up = {.modules = {"mlp.gate_proj", "mlp.up_proj"},
                                      .rows = {c->ffn, c->ffn}};
    l->form = (struct kt_form){.e4m3 = e4m3};
    kiln_weights_quantise(w, e4m3);
    kiln_weights_gain(w, &l->norm_attention, prefix, "input_layernorm.weight", c->width);
    kiln_weights_gain(w, &l->norm_ffn, prefix, "post_attention_layernorm.weight", c->width);
    kiln_weights_pack(w, &l->qkv, prefix, &qkv, c->width);
    kiln_weights_vector(w, &l->q_norm, prefix, "self_attn.q_norm.weight", c->head_dim);
    kiln_weights_vector(w, &l->k_norm, prefix, "self_attn.k_norm.weight", c->head_dim);
    kiln_weights_linear(w, &l->out, prefix, "self_attn.o_proj", c->width, q);
    if (c->bias) {
        kiln_weights_pack_bias(w, &l->qkv_bias, prefix, &qkv);
        kiln_weights_vector(w, &l->out_bias, prefix, "self_attn.o_proj.bias", c->width);
    }
    kiln_weights_pack(w, &l->gate_up, prefix, &gate_up, c->width);
    kiln_weights_linear(w, &l->down, prefix, "mlp.down_proj", c->width, c->ffn);
    kiln_weights_quantise(w, false);
}

/* Loads the embeddings to host memory. */
static int load_embeddings(const char *dir, enum kt_dtype dtype, struct kiln_text_encoder *te,
                           struct kiln_error *err)
{
    const struct kiln_text_config *c = &te->config;
    struct kiln_weights *w;
    te->host = kt_scope_new(KT_CPU);
    if (!te->host)
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for the embeddings",
                         dir ? dir : "random weights");
    int code = kiln_weights_open(dir, "embed_tokens.weight", te->host, dtype, NULL, &w, err);
    if (code)
        return code;
    kiln_weights_table(w, &te->embed, "", "embed_tokens.weight", c->vocab, c->width);
    kiln_weights_ignore(w, "");
    return kiln_weights_close(w, err);
}

#define PLAIN_SHARE 16

static bool is_at_an_end(const struct kiln_text_encoder *te, int layer)
{
    const int plain = te->count / PLAIN_SHARE;
    return layer < plain || layer >= te->count - plain;
}

static int load_layers(const char *dir, struct kt_scope *scope, enum kt_dtype dtype, bool e4m3,
                       struct kiln_fp8_cache *cache, struct kiln_text_encoder *te,
                       struct kiln_error *err)
{
    struct kiln_weights *w;
    int code = kiln_weights_open(dir, "embed_tokens.weight", scope, dtype, NULL, &w, err);
    if (code)
        return code;
    kiln_weights_cache(w, cache, "text_encoder");
    for (int i = 0; i < te->count; i++)
        load_layer(w, &te->config, i, e4m3 && !is_at_an_end(te, i), &te->layers[i]);
    char last[64], norm[96];
    snprintf(last, sizeof last, "layers.%d.", te->count);
    snprintf(norm, sizeof norm, "%sinput_layernorm.weight", last);
    /* With a layer too many in the config, the features would be those of another layer. */
    kiln_weights_expect(w, norm, "norm.weight");
    kiln_weights_ignore(w, last);
    kiln_weights_ignore(w, "embed_tokens.weight");
    kiln_weights_ignore(w, "norm.weight");
    kiln_weights_ignore(w, "lm_head.weight");
    kiln_weights_ignore(w, "rotary_emb.inv_freq");
    return kiln_weights_close(w, err);
}

int kiln_text_encoder_load(const char *dir, const struct kiln_text_config *config,
                           struct kt_scope *scope, enum kt_dtype dtype,
                           struct kiln_fp8_cache *cache, struct kiln_text_encoder **ret,
                           struct kiln_error *err)
{
    const int count = config->layers - 1;
    const enum kt_dtype plain = dtype == KT_E4M3 ? KT_BF16 : dtype;
    struct kiln_text_encoder *te = calloc(1, sizeof *te + (size_t)count * sizeof te->layers[0]);
    if (!te)
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for the text encoder",
                         dir ? dir : "random weights");
    te->config = *config;
    te->count = count;
    int code = load_embeddings(dir, plain, te, err);
    code = code ? code : load_layers(dir, scope, plain, dtype == KT_E4M3, cache, te, err);
    te->packed = plain == KT_BF16 && kt_packs(scope, config->head_dim);
    if (!code && te->packed) {
        te->rope = kiln_rope_text(scope, config, KILN_TOKENS_MAX);
        code = kt_scope_check(scope, err);
    }
    if (code)
        kiln_text_encoder_free(te);
    else
        *ret = te;
    return code;
}

void kiln_text_encoder_free(struct kiln_text_encoder *te)
{
    if (!te)
        return;
    kt_scope_free(te->host);
    free(te);
}

static kt run_layer(const struct kiln_text_encoder *te, const struct kiln_text_layer *l,
                    struct kt_scope *s, kt x, struct kiln_rope rope)
{
    const struct kiln_text_config *c = &te->config;
    kt h = kt_rms_norm(s, x, l->norm_attention, c->norm_eps, l->form);
    const struct kt_attention_args attention = {.qkv = kt_linear(s, h, l->qkv, l->qkv_bias),
                                                .q_norm = l->q_norm,
                                                .k_norm = l->k_norm,
                                                .cos = rope.cos,
                                                .sin = rope.sin,
                                                .heads = c->heads,
                                                .kv_heads = c->kv_heads,
                                                .head_dim = c->head_dim,
                                                .causal = true,
                                                .eps = c->norm_eps};
    x = kt_add(s, x, kt_linear(s, kt_attention(s, &attention), l->out, l->out_bias));
    h = kt_rms_norm(s, x, l->norm_ffn, c->norm_eps, l->form);
    h = kt_swiglu(s, kt_linear(s, h, l->gate_up, NULL), l->form);
    return kt_add(s, x, kt_linear(s, h, l->down, NULL));
}

kt kiln_text_encoder_run(const struct kiln_text_encoder *te, struct kt_scope *s, const int32_t *ids,
                         size_t count)
{
    if (te->packed) {
        kt features = NULL;
        const struct kiln_prompt_ids prompt = {ids, count};
        kiln_text_packed_run(te, s, &prompt, 1, NULL, &features, NULL);
        return features;
    }
    struct kiln_rope rope = kiln_rope_text(s, &te->config, (int64_t)count);
    kt x = kt_embedding(s, te->embed, ids, count);
    for (int i = 0; i < te->count; i++) {
        struct kt_scope *inner = kt_scope_child(s);
        kt next = kt_keep(s, run_layer(te, &te->layers[i], inner, x, rope));
        kt_scope_free(inner);
        kt_drop(s, x);
        x = next;
    }
    return x;
}
