/* transformer.c - the arithmetic of the transformer; see transformer.h.
 *
 * A block is a sandwich: a norm before and after each sublayer, time scaling what goes in and
 * gating what comes out.
 *
 *     x += gate_a * RMS( attention( RMS(x) * scale_a ) )
 *     x += gate_f * RMS( down( silu(gate u) * up u ) ),  u = RMS(x) * scale_f
 *
 * Padding rows are learned tokens, not zeros: they pass through all layers and are attended to.
 */
#include "pipeline/transformer.h"

#include <math.h>
#include <stdlib.h>

#include "pipeline/transformer_parts.h"

#define FINAL_NORM_EPS 1e-6
#define TIME_HALF 128 /* frequencies of the time's sinusoid */
#define TIME_PERIOD 10000.0

int64_t kiln_pad_rows(int64_t rows)
{
    return (KILN_ROWS_MULTIPLE - rows % KILN_ROWS_MULTIPLE) % KILN_ROWS_MULTIPLE;
}

/* --- time ------------------------------------------------------------------------------------- */

/* [steps, 256]: cosines, then sines, of the scaled time at falling frequencies. */
static kt sinusoid(const struct kiln_transformer *t, struct kt_scope *s, const float *times,
                   int steps)
{
    float *host = malloc((size_t)steps * 2 * TIME_HALF * sizeof *host);
    if (!host) {
        struct kiln_error err;
        kiln_fail(&err, KILN_NO_MEMORY, "no memory for the time table of %d steps", steps);
        kt_scope_fail(s, &err);
        return NULL;
    }
    for (int step = 0; step < steps; step++)
        for (int i = 0; i < TIME_HALF; i++) {
            float frequency = expf((float)(-log(TIME_PERIOD)) * (float)i / TIME_HALF);
            float angle = times[step] * (float)t->config.time_scale * frequency;
            host[step * 2 * TIME_HALF + i] = cosf(angle);
            host[step * 2 * TIME_HALF + TIME_HALF + i] = sinf(angle);
        }
    kt table = kt_from_host(s, host, KT_F32, t->dtype, 2, (int64_t[]){steps, 2 * TIME_HALF});
    free(host);
    return table;
}

static struct kiln_modulation modulation(const struct kiln_transformer *t, struct kt_scope *s,
                                         const struct kiln_block *b, kt time)
{
    int64_t n = t->config.width;
    kt m = kt_linear(s, time, b->modulation, b->modulation_bias);
    return (struct kiln_modulation){.attention_scale = kt_affine(s, kt_narrow(s, m, 1, 0, n), 1, 1),
                                    .attention_gate = kt_tanh(s, kt_narrow(s, m, 1, n, n)),
                                    .ffn_scale = kt_affine(s, kt_narrow(s, m, 1, 2 * n, n), 1, 1),
                                    .ffn_gate = kt_tanh(s, kt_narrow(s, m, 1, 3 * n, n))};
}

struct kiln_time_table *kiln_time_table_new(const struct kiln_transformer *t, struct kt_scope *s,
                                            const float *times, int steps)
{
    int refiner = t->config.refiner_layers, joint = t->config.layers;
    struct kiln_time_table *table =
        calloc(1, sizeof *table + (size_t)(refiner + joint) * sizeof table->blocks[0]);
    if (!table) {
        struct kiln_error err;
        kiln_fail(&err, KILN_NO_MEMORY, "no memory for the time table of %d steps", steps);
        kt_scope_fail(s, &err);
        return NULL;
    }
    table->steps = steps;
    kt time = kt_linear(s, sinusoid(t, s, times, steps), t->time_in, t->time_in_bias);
    time = kt_linear(s, kt_silu(s, time), t->time_out, t->time_out_bias);
    for (int i = 0; i < refiner; i++)
        table->blocks[i] = modulation(t, s, kiln_noise_block(t, i), time);
    for (int i = 0; i < joint; i++)
        table->blocks[refiner + i] = modulation(t, s, kiln_joint_block(t, i), time);
    kt final = kt_linear(s, kt_silu(s, time), t->final_modulation, t->final_modulation_bias);
    table->final_scale = kt_affine(s, final, 1, 1);
    return table;
}

void kiln_time_table_free(struct kiln_time_table *table)
{
    free(table);
}

/* One step's row of a table; NULL stays NULL. */
static kt row_of(struct kt_scope *s, kt table, int step)
{
    return table ? kt_narrow(s, table, 0, step, 1) : NULL;
}

/* --- blocks ----------------------------------------------------------------------------------- */

struct block_run {
    const struct kiln_transformer *t;
    const struct kiln_block *block;
    struct kiln_rope rope;
    const struct kiln_modulation *modulation; /* NULL for the context refiner */
    int step;
};

static kt run_block(const struct block_run *r, struct kt_scope *s, kt x)
{
    const struct kiln_transformer_config *c = &r->t->config;
    const struct kiln_block *b = r->block;
    const struct kiln_modulation none = {NULL}, *m = r->modulation ? r->modulation : &none;
    kt h = kt_rms_norm(s, x, b->norm_attention_in, c->norm_eps,
                       row_of(s, m->attention_scale, r->step), KT_E4M3_NO);
    const struct kt_attention_args attention = {.qkv = kiln_linear(s, h, &b->qkv),
                                                .q_norm = b->q_norm,
                                                .k_norm = b->k_norm,
                                                .cos = r->rope.cos,
                                                .sin = r->rope.sin,
                                                .heads = c->heads,
                                                .kv_heads = c->heads,
                                                .head_dim = c->head_dim,
                                                .interleaved = true,
                                                .eps = 1e-5};
    kt_drop(s, h);
    h = kt_attention(s, &attention);
    kt_drop(s, attention.qkv);
    h = kiln_linear(s, h, &b->out);
    struct kt_residual_norm sum = {.x = x,
                                   .y = h,
                                   .weight = b->norm_attention_out,
                                   .gate = row_of(s, m->attention_gate, r->step),
                                   .next_weight = b->norm_ffn_in,
                                   .next_scale = row_of(s, m->ffn_scale, r->step),
                                   .eps = c->norm_eps};
    kt_add_rms_norm(s, &sum, &x, &h);
    h = kt_swiglu(s, kiln_linear(s, h, &b->gate_up), KT_E4M3_NO);
    sum = (struct kt_residual_norm){.x = x,
                                    .y = kiln_linear(s, h, &b->down),
                                    .weight = b->norm_ffn_out,
                                    .gate = row_of(s, m->ffn_gate, r->step),
                                    .eps = c->norm_eps};
    kt_add_rms_norm(s, &sum, &x, &h);
    return x;
}

/* Runs a block in a scope of its own and lets x go: one activation lives from block to block. */
static kt advance(const struct block_run *r, struct kt_scope *s, kt x)
{
    struct kt_scope *inner = kt_scope_child(s);
    kt next = kt_keep(s, run_block(r, inner, x));
    kt_scope_free(inner);
    kt_drop(s, x);
    return next;
}

/* Appends the learned padding token up to a multiple of 32 rows. */
static kt pad(struct kt_scope *s, kt x, kt token)
{
    int64_t missing = kiln_pad_rows(kt_size(x, 0));
    if (missing == 0)
        return x;
    return kt_cat(s, (kt[]){x, kt_repeat_rows(s, token, missing)}, 2, 0);
}

kt kiln_caption(const struct kiln_transformer *t, struct kt_scope *s, kt features)
{
    struct kt_scope *inner = kt_scope_child(s);
    kt x = kt_rms_norm(inner, kt_to(inner, features, t->dtype), t->caption_norm, t->config.norm_eps,
                       NULL, KT_E4M3_NO);
    x = pad(inner, kt_linear(inner, x, t->caption, t->caption_bias), t->caption_pad);
    struct block_run run = {.t = t, .rope = kiln_rope_caption(inner, &t->config, kt_size(x, 0))};
    for (int i = 0; i < t->config.refiner_layers; i++) {
        run.block = kiln_context_block(t, i);
        x = advance(&run, inner, x);
    }
    kt caption = kt_keep(s, x);
    kt_scope_free(inner);
    return caption;
}

/* --- patches ---------------------------------------------------------------------------------- */

/* [C,H,W] to [H/2*W/2, 2*2*C]: within a row by line, column, channel. */
static kt patchify(const struct kiln_transformer *t, struct kt_scope *s, kt latent)
{
    int64_t c = t->config.channels, p = t->config.patch;
    int64_t h = kt_size(latent, 1) / p, w = kt_size(latent, 2) / p;
    kt x = kt_reshape(s, latent, 5, (int64_t[]){c, h, p, w, p});
    x = kt_permute(s, x, 5, (int[]){1, 3, 2, 4, 0});
    return kt_to(s, kt_reshape(s, x, 2, (int64_t[]){h * w, p * p * c}), t->dtype);
}

static kt unpatchify(const struct kiln_transformer *t, struct kt_scope *s, kt x, int64_t height,
                     int64_t width)
{
    int64_t c = t->config.channels, p = t->config.patch;
    x = kt_reshape(s, x, 5, (int64_t[]){height / p, width / p, p, p, c});
    x = kt_permute(s, x, 5, (int[]){4, 0, 2, 1, 3});
    return kt_to(s, kt_reshape(s, x, 3, (int64_t[]){c, height, width}), KT_F32);
}

kt kiln_image_tokens(const struct kiln_transformer *t, struct kt_scope *s,
                     const struct kiln_forward *args)
{
    kt x = kt_linear(s, patchify(t, s, args->latent), t->embed, t->embed_bias);
    x = pad(s, x, t->image_pad);
    struct block_run run = {.t = t, .step = args->step};
    run.rope = kiln_rope_rows(s, args->rope, 0, kt_size(x, 0));
    for (int i = 0; i < t->config.refiner_layers; i++) {
        run.block = kiln_noise_block(t, i);
        run.modulation = &args->times->blocks[i];
        x = advance(&run, s, x);
    }
    return x;
}

static kt run_layers(const struct kiln_transformer *t, struct kt_scope *s,
                     const struct kiln_forward *args)
{
    const struct kiln_time_table *times = args->times;
    int64_t patch = t->config.patch;
    int64_t tokens = kt_size(args->latent, 1) / patch * (kt_size(args->latent, 2) / patch);
    kt x = kt_cat(s, (kt[]){kiln_image_tokens(t, s, args), args->caption}, 2, 0);
    struct block_run run = {.t = t, .rope = args->rope, .step = args->step};
    for (int i = 0; i < t->config.layers; i++) {
        run.block = kiln_joint_block(t, i);
        run.modulation = &times->blocks[t->config.refiner_layers + i];
        x = advance(&run, s, x);
    }
    x = kt_layer_norm_scale(s, kt_narrow(s, x, 0, 0, tokens), FINAL_NORM_EPS,
                            row_of(s, times->final_scale, args->step));
    return kt_linear(s, x, t->final, t->final_bias);
}

kt kiln_transformer_run(const struct kiln_transformer *t, struct kt_scope *s,
                        const struct kiln_forward *args)
{
    if (!args->times)
        return NULL; /* its allocation failed and said so */
    struct kt_scope *inner = kt_scope_child(s);
    kt patches = run_layers(t, inner, args);
    kt out = kt_keep(
        s, unpatchify(t, inner, patches, kt_size(args->latent, 1), kt_size(args->latent, 2)));
    kt_scope_free(inner);
    return out;
}
