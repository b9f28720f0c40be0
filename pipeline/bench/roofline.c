/* roofline.c - counting operations; see roofline.h.
 *
 * The ceilings were measured on one H200 (CUDA 13.0, cuDNN 9.19, LibTorch 2.11) with random data,
 * for the widths of the full-size model at 1152, 4224 and 16896 rows.  Between these rows the
 * rate is interpolated, beyond them it stays.
 */
#include "pipeline/bench/roofline.h"

#include "pipeline/model/transformer.h" /* kiln_pad_rows */

#define POINTS 3
#define TERA 1e12

static const double point_rows[POINTS] = {1152, 4224, 16896};

enum product { QKV, OUT, GATE_UP, DOWN, PRODUCTS };
static const double bf16_rates[PRODUCTS][POINTS] = {
    [QKV] = {664, 788, 685},
    [OUT] = {546, 717, 665},
    [GATE_UP] = {746, 782, 686},
    [DOWN] = {686, 769, 699},
};
static const double e4m3_rates[PRODUCTS][POINTS] = {
    [QKV] = {1091, 1433, 1371},
    [OUT] = {574, 1099, 1310},
    [GATE_UP] = {1255, 1475, 1410},
    [DOWN] = {832, 1328, 1373},
};
/* cuDNN's, bf16; the last point was four sequences of 4224. */
static const double attention_rates[POINTS] = {313, 621, 677};

/* A stack of equal layers over the same rows. */
struct stack {
    int layers;
    int64_t rows;
    bool e4m3;
};

static double rate_at(const double rates[POINTS], int64_t rows)
{
    double at = (double)rows;
    if (at <= point_rows[0])
        return rates[0];
    for (int i = 1; i < POINTS; i++)
        if (at <= point_rows[i])
            return rates[i - 1] + (rates[i] - rates[i - 1]) * (at - point_rows[i - 1]) /
                                      (point_rows[i] - point_rows[i - 1]);
    return rates[POINTS - 1];
}

static double product_flops(const struct kiln_transformer_config *c, enum product product,
                            const struct stack *s)
{
    const double n = c->width, ffn = c->ffn;
    const double weights[PRODUCTS] = {
        [QKV] = 3 * n * n, [OUT] = n * n, [GATE_UP] = 2 * n * ffn, [DOWN] = n * ffn};
    return 2 * weights[product] * (double)s->rows * s->layers;
}

/* q k^T and the product with v, over all heads. */
static double attention_flops(const struct kiln_transformer_config *c, const struct stack *s)
{
    return 4.0 * c->width * (double)s->rows * (double)s->rows * s->layers;
}

/* The two embedders and the final layer. */
static double end_flops(const struct kiln_transformer_config *c, struct kiln_forward_size size)
{
    double patch = (double)c->patch * c->patch * c->channels, n = c->width;
    return 2 * n *
           (2 * patch * (double)size.image_rows +
            (double)c->caption_width * (double)size.caption_rows);
}

#define STACKS 3
static void stacks_of(const struct kiln_transformer_config *c, struct kiln_forward_size size,
                      bool e4m3, struct stack out[STACKS])
{
    out[0] = (struct stack){c->layers, size.image_rows + size.caption_rows, e4m3};
    out[1] = (struct stack){c->refiner_layers, size.image_rows, e4m3};
    out[2] = (struct stack){c->refiner_layers, size.caption_rows, false};
}

struct kiln_forward_size kiln_forward_size(const struct kiln_model_config *c, int width, int height,
                                           int64_t tokens)
{
    int64_t side = (int64_t)c->vae.factor * c->transformer.patch;
    int64_t rows = width / side * (height / side);
    return (struct kiln_forward_size){rows + kiln_pad_rows(rows), tokens + kiln_pad_rows(tokens)};
}

double kiln_forward_flops(const struct kiln_transformer_config *c, struct kiln_forward_size size)
{
    struct stack stacks[STACKS];
    stacks_of(c, size, false, stacks);
    double flops = end_flops(c, size);
    for (int i = 0; i < STACKS; i++) {
        flops += attention_flops(c, &stacks[i]);
        for (enum product p = 0; p < PRODUCTS; p++)
            flops += product_flops(c, p, &stacks[i]);
    }
    return flops;
}

double kiln_forward_ceiling_ms(const struct kiln_transformer_config *c,
                               struct kiln_forward_size size, bool e4m3)
{
    struct stack stacks[STACKS];
    stacks_of(c, size, e4m3, stacks);
    double seconds = end_flops(c, size) / TERA / rate_at(bf16_rates[OUT], size.image_rows);
    for (int i = 0; i < STACKS; i++) {
        const struct stack *s = &stacks[i];
        seconds += attention_flops(c, s) / TERA / rate_at(attention_rates, s->rows);
        for (enum product p = 0; p < PRODUCTS; p++)
            seconds += product_flops(c, p, s) / TERA /
                       rate_at(s->e4m3 ? e4m3_rates[p] : bf16_rates[p], s->rows);
    }
    return seconds * 1e3;
}
