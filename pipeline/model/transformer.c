/* transformer.c - the arithmetic of the transformer; see transformer.h.
 * A block has a norm before and after each sublayer; time scales the input and gates the output.
 *
 *     x += gate_a * RMS( attention( RMS(x) * scale_a ) )
 *     x += gate_f * RMS( down( silu(gate u) * up u ) ),  u = RMS(x) * scale_f
 * each RMS with a weight of its own.  If the time table and the residual stream x were bf16, their
 * rounding would be most of the error of a forward pass.  So the time table is fp32, multiplied
 * with the weights of the norms, and x has tails in bf16 (kt_with_tails).
 *
 * Padding rows are learned tokens, not zeros: they pass through all layers and are attended to.
 */
#include "pipeline/model/transformer.h"

#include <math.h>
#include <stdlib.h>

#include "pipeline/model/transformer_parts.h"
#include "schemas/limits.h"

#define FINAL_NORM_EPS 1e-6
#define TIME_HALF 128 /* frequencies of the time's sinusoid */
#define TIME_PERIOD 10000.0
/* Rows of a picture from which attention in FP8 is faster.  Caption rows do not count, so that both
 * passes of guidance are rounded alike. */
#define E4M3_ATTENTION_ROWS 1024

int64_t kiln_pad_rows(int64_t rows)
{
    return (KILN_ROWS_MULTIPLE - rows % KILN_ROWS_MULTIPLE) % KILN_ROWS_MULTIPLE;
}

/* --- time ------------------------------------------------------------------------------------- */

/* [steps, 256]: cosines, then sines, of `scale` times each time at falling frequencies. */
static kt sinusoid(struct kt_scope *s, const float *times, int steps, float scale)
{
    float host[2 * KILN_STEPS_MAX * 2 * TIME_HALF];
    for (int step = 0; step < steps; step++)
        for (int i = 0; i < TIME_HALF; i++) {
            float frequency = expf((float)(-log(TIME_PERIOD)) * (float)i / TIME_HALF);
            float angle = times[step] * scale * frequency;
            host[step * 2 * TIME_HALF + i] = cosf(angle);
            host[step * 2 * TIME_HALF + TIME_HALF + i] = sinf(angle);
        }
    return kt_from_host(s, host, KT_F32, KT_F32, 2, (int64_t[]){steps, 2 * TIME_HALF});
}

/* A product with time, in fp32 for any weights. */
static kt linear_of_time(struct kt_scope *s, kt x, kt weight, kt bias)
{
    struct kt_scope *inner = kt_scope_child(s);
    kt y = kt_linear(inner, x, kt_to(inner, weight, KT_F32), kt_to(inner, bias, KT_F32));
    y = kt_keep(s, y);
    kt_scope_free(inner);
    return y;
}

static kt embed(struct kt_scope *s, const struct kiln_time_embedder *e, const float *times,
                int steps, float scale)
{
    kt hidden = linear_of_time(s, sinusoid(s, times, steps, scale), e->in, e->in_bias);
    return linear_of_time(s, kt_silu(s, hidden), e->out, e->out_bias);
}

/* [steps, time_width].  A model with two embedders is told the time t of a step and a target time
 * (TwinFlow, arXiv 2512.05150): E1(t) + |target - t| E2(target - t).  The target is 0 in every
 * step, as in the published sampler for few steps. */
static kt embed_times(const struct kiln_transformer *t, struct kt_scope *s, const float *times,
                      int steps)
{
    const float scale = (float)t->config.time_scale;
    kt time = embed(s, &t->time, times, steps, scale);
    if (!t->target.in)
        return time;
    kt far = kt_from_host(s, times, KT_F32, KT_F32, 2, (int64_t[]){steps, 1});
    return kt_add(s, time, kt_multiply(s, embed(s, &t->target, times, steps, -scale), far));
}

/* The gains of a block's norms, in their order in a row of the time table. */
enum { ATTENTION_IN, ATTENTION_OUT, FFN_IN, FFN_OUT, GAINS };

static kt norm_weight(const struct kiln_block *b, int which)
{
    const kt weights[GAINS] = {b->norm_attention_in, b->norm_attention_out, b->norm_ffn_in,
                               b->norm_ffn_out};
    return weights[which];
}

/* Fills parts with the four gains of a block, [steps, width] each. */
static void modulate(const struct kiln_transformer *t, struct kt_scope *s,
                     const struct kiln_block *b, kt time, kt parts[GAINS])
{
    int64_t n = t->config.width;
    struct kt_scope *inner = kt_scope_child(s);
    kt m = linear_of_time(inner, time, b->modulation, b->modulation_bias);
    for (int i = 0; i < GAINS; i++) {
        kt part = kt_narrow(inner, m, 1, i * n, n);
        bool gate = i == ATTENTION_OUT || i == FFN_OUT;
        part = gate ? kt_tanh(inner, part) : kt_affine(inner, part, 1, 1);
        parts[i] = kt_keep(s, kt_multiply(inner, part, norm_weight(b, i)));
    }
    kt_scope_free(inner);
}

int64_t kiln_residual_columns(const struct kiln_transformer *t)
{
    return t->residual_columns;
}

int64_t kiln_time_width(const struct kiln_transformer *t)
{
    int64_t blocks = t->config.refiner_layers + t->config.layers;
    return (blocks * GAINS + 1) * t->config.width;
}

kt kiln_time_table(const struct kiln_transformer *t, struct kt_scope *s, const float *times,
                   int steps)
{
    int refiner = t->config.refiner_layers, joint = t->config.layers;
    size_t count = (size_t)(refiner + joint) * GAINS + 1;
    kt *parts = calloc(count, sizeof(kt));
    if (!parts) {
        struct kiln_error err;
        kiln_fail(&err, KILN_NO_MEMORY, "no memory for the time table of %d steps", steps);
        kt_scope_fail(s, &err);
        return NULL;
    }
    struct kt_scope *inner = kt_scope_child(s);
    kt time = embed_times(t, inner, times, steps);
    for (int i = 0; i < refiner; i++)
        modulate(t, inner, kiln_noise_block(t, i), time, &parts[i * GAINS]);
    for (int i = 0; i < joint; i++)
        modulate(t, inner, kiln_joint_block(t, i), time, &parts[(refiner + i) * GAINS]);
    kt final =
        linear_of_time(inner, kt_silu(inner, time), t->final_modulation, t->final_modulation_bias);
    parts[count - 1] = kt_affine(inner, final, 1, 1);
    kt table = kt_keep(s, kt_cat(inner, parts, count, 1));
    kt_scope_free(inner);
    free(parts);
    return table;
}

/* --- blocks ----------------------------------------------------------------------------------- */

/* Consecutive blocks. */
struct block_run {
    const struct kiln_transformer *t;
    const struct kiln_block *blocks;
    int count, items; /* items: pictures of equal rows */
    struct kiln_rope rope;
    kt modulation; /* a row of the time table; NULL for the context refiner */
    int64_t at;    /* column of the first block's gains in it */
    bool narrow;   /* attention in FP8, if the weights behind it are quantised */
};

/* The state between blocks: the residual stream, and its norm for the next attention, which the
 * pass that adds to the stream computes as well. */
struct flow {
    kt x, normed;
};

static kt gain_of(const struct block_run *r, struct kt_scope *s, int block, int which)
{
    int64_t n = r->t->config.width, i = (int64_t)block * GAINS + which;
    return r->modulation ? kt_narrow(s, r->modulation, 1, r->at + i * n, n)
                         : norm_weight(&r->blocks[block], which);
}

static kt attend(const struct block_run *r, struct kt_scope *s, const struct kiln_block *b, kt qkv)
{
    const struct kiln_transformer_config *c = &r->t->config;
    const struct kt_attention_args args = {.qkv = qkv,
                                           .q_norm = b->q_norm,
                                           .k_norm = b->k_norm,
                                           .cos = r->rope.cos,
                                           .sin = r->rope.sin,
                                           .heads = c->heads,
                                           .kv_heads = c->heads,
                                           .head_dim = c->head_dim,
                                           .interleaved = true,
                                           .narrow = r->narrow,
                                           .form = kiln_linear_form(&b->out),
                                           .eps = 1e-5,
                                           .items = r->items};
    kt h = kt_attention(s, &args);
    kt_drop(s, qkv);
    kt y = kiln_linear(s, h, &b->out, r->items);
    kt_drop(s, h);
    return y;
}

/* Runs block i in scope s.  The handles of `in` are in outer and are freed once read: what is alive
 * beside the widest rows sets the peak of memory, which a graph keeps for good. */
static struct flow run_block(const struct block_run *r, struct kt_scope *s, struct kt_scope *outer,
                             int i, struct flow in)
{
    const struct kiln_block *b = &r->blocks[i], *next = i + 1 < r->count ? b + 1 : NULL;
    double eps = r->t->config.norm_eps;
    kt qkv = kiln_linear(s, in.normed, &b->qkv, r->items);
    kt_drop(outer, in.normed);
    struct flow mid, out;
    const struct kt_residual_norm attended = {.x = in.x,
                                              .y = attend(r, s, b, qkv),
                                              .gain = gain_of(r, s, i, ATTENTION_OUT),
                                              .next_gain = gain_of(r, s, i, FFN_IN),
                                              .eps = eps,
                                              .next_form = kiln_linear_form(&b->gate_up)};
    kt_add_rms_norm(s, &attended, &mid.x, &mid.normed);
    kt_drop(s, attended.y);
    kt_drop(outer, in.x);
    kt h = kiln_linear_gated(s, mid.normed, &b->gate_up, r->items, kiln_linear_form(&b->down));
    const struct kt_residual_norm fed = {
        .x = mid.x,
        .y = kiln_linear(s, h, &b->down, r->items),
        .gain = gain_of(r, s, i, FFN_OUT),
        .next_gain = next ? gain_of(r, s, i + 1, ATTENTION_IN) : NULL,
        .eps = eps,
        .next_form = next ? kiln_linear_form(&next->qkv) : KT_PLAIN};
    kt_add_rms_norm(s, &fed, &out.x, &out.normed);
    return out;
}

/* Runs each block in a scope of its own, so that one activation lives from block to block. */
static kt run_blocks(const struct block_run *r, struct kt_scope *s, kt x)
{
    if (r->count == 0)
        return x;
    struct flow flow = {x, kt_rms_norm(s, x, gain_of(r, s, 0, ATTENTION_IN), r->t->config.norm_eps,
                                       kiln_linear_form(&r->blocks->qkv))};
    for (int i = 0; i < r->count; i++) {
        struct kt_scope *inner = kt_scope_child(s);
        struct flow next = run_block(r, inner, s, i, flow);
        next = (struct flow){kt_keep(s, next.x), kt_keep(s, next.normed)};
        kt_scope_free(inner);
        flow = next;
    }
    return flow.x;
}

/* For each item its rows of x, then its rows of y. */
static kt cat_items(struct kt_scope *s, kt x, kt y, int items)
{
    if (items == 1)
        return kt_cat(s, (kt[]){x, y}, 2, 0);
    const int64_t n = kt_size(x, 1), rows = kt_size(x, 0) + kt_size(y, 0);
    struct kt_scope *inner = kt_scope_child(s);
    kt parts[2] = {x, y};
    for (int i = 0; i < 2; i++)
        parts[i] =
            kt_reshape(inner, parts[i], 3, (int64_t[]){items, kt_size(parts[i], 0) / items, n});
    kt all = kt_reshape(inner, kt_cat(inner, parts, 2, 1), 2, (int64_t[]){rows, n});
    all = kt_keep(s, all);
    kt_scope_free(inner);
    return all;
}

/* Appends the learned padding token to each item's rows, up to a multiple of 32; frees x. */
static kt pad(struct kt_scope *s, kt x, kt token, int items)
{
    int64_t missing = kiln_pad_rows(kt_size(x, 0) / items);
    if (missing == 0)
        return x;
    kt padded = cat_items(s, x, kt_repeat_rows(s, token, items * missing), items);
    kt_drop(s, x);
    return padded;
}

/* x as rows of the residual stream; frees x. */
static kt residual_rows(const struct kiln_transformer *t, struct kt_scope *s, kt x)
{
    if (t->residual_columns == t->config.width)
        return x;
    kt stream = kt_with_tails(s, x);
    kt_drop(s, x);
    return stream;
}

kt kiln_caption(const struct kiln_transformer *t, struct kt_scope *s, kt features)
{
    struct kt_scope *inner = kt_scope_child(s);
    kt x = kt_rms_norm(inner, kt_to(inner, features, t->dtype), t->caption_norm, t->config.norm_eps,
                       KT_PLAIN);
    x = pad(inner, kt_linear(inner, x, t->caption, t->caption_bias), t->caption_pad, 1);
    x = residual_rows(t, inner, x);
    const struct block_run refiner = {
        .t = t,
        .blocks = kiln_context_block(t, 0),
        .count = t->config.refiner_layers,
        .items = 1,
        .rope = kiln_rope_joint(inner, &t->config, 0, 0, 0, kt_size(x, 0))};
    kt caption = kt_keep(s, run_blocks(&refiner, inner, x));
    kt_scope_free(inner);
    return caption;
}

/* --- a forward pass --------------------------------------------------------------------------- */

kt kiln_image_tokens(const struct kiln_transformer *t, struct kt_scope *s,
                     const struct kiln_forward *args)
{
    kt patches = kt_patchify(s, args->latent, t->config.patch, t->dtype);
    kt x = kt_linear_items(s, patches, t->embed, t->embed_bias, args->items);
    x = residual_rows(t, s, pad(s, x, t->image_pad, args->items));
    const int64_t rows = kt_size(x, 0) / args->items;
    const struct block_run refiner = {.t = t,
                                      .blocks = kiln_noise_block(t, 0),
                                      .count = t->config.refiner_layers,
                                      .items = args->items,
                                      .rope = kiln_rope_rows(s, args->rope, 0, rows),
                                      .modulation = args->modulation,
                                      .narrow = rows >= E4M3_ATTENTION_ROWS};
    return run_blocks(&refiner, s, x);
}

/* The first `rows` rows of each item. */
static kt first_rows(struct kt_scope *s, kt x, int64_t rows, int items)
{
    if (items == 1)
        return kt_narrow(s, x, 0, 0, rows);
    const int64_t n = kt_size(x, 1);
    kt all = kt_reshape(s, x, 3, (int64_t[]){items, kt_size(x, 0) / items, n});
    return kt_reshape(s, kt_narrow(s, all, 1, 0, rows), 2, (int64_t[]){items * rows, n});
}

kt kiln_transformer_run(const struct kiln_transformer *t, struct kt_scope *s,
                        const struct kiln_forward *args)
{
    int64_t patch = t->config.patch, n = t->config.width, last = kiln_time_width(t) - n;
    int64_t tokens = kt_size(args->latent, -2) / patch * (kt_size(args->latent, -1) / patch);
    struct kt_scope *inner = kt_scope_child(s);
    kt image = kiln_image_tokens(t, inner, args);
    const struct block_run joint = {.t = t,
                                    .blocks = kiln_joint_block(t, 0),
                                    .count = t->config.layers,
                                    .items = args->items,
                                    .rope = args->rope,
                                    .modulation = args->modulation,
                                    .at = t->config.refiner_layers * GAINS * n,
                                    .narrow =
                                        kt_size(image, 0) / args->items >= E4M3_ATTENTION_ROWS};
    kt x = cat_items(inner, image, args->caption, args->items);
    kt_drop(inner, image);
    x = first_rows(inner, run_blocks(&joint, inner, x), tokens, args->items);
    x = kt_layer_norm_scale(inner, x, FINAL_NORM_EPS,
                            kt_narrow(inner, args->modulation, 1, last, n));
    kt out = kt_keep(s, kt_linear_items(inner, x, t->final, t->final_bias, args->items));
    kt_scope_free(inner);
    return out;
}
