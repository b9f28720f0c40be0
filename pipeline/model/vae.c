/* vae.c - the autoencoder's arithmetic; see vae.h.
 * Activations are most of the memory of a decode: a 1024 px picture at 128 channels is 512 MB in
 * fp32. So every residual runs in a scope of its own and frees its operands early, and norms run in
 * place if their operand is not read again.  In bf16, with Z-Image's 256 and 128 channels at full
 * size, the peak at 1024 px is 839 MB, in the residual that halves the width (vae_strips.c).  The
 * last upsampling before it needs 805 MB (134 twice, and 537), a residual after it 805 for three
 * pictures.
 */
#include "pipeline/model/vae.h"

#include "pipeline/model/vae_parts.h"
#include "pipeline/torch/load.h"

static kt norm(const struct kiln_vae *vae, struct kt_scope *s, kt x, const struct kiln_vae_layer *l,
               bool silu)
{
    const struct kt_norm n = kiln_vae_norm(vae, l, silu);
    return kt_group_norm(s, x, &n);
}

/* Norm, SiLU and convolution. */
static kt norm_conv(const struct kiln_vae *vae, struct kt_scope *s, kt x,
                    const struct kiln_vae_layer *n, const struct kiln_vae_layer *c, kt add)
{
    kt h = norm(vae, s, x, n, true);
    kt y = kiln_vae_conv(s, h, c, 1, add);
    kt_drop(s, h);
    return y;
}

static size_t bytes_of(const struct kiln_vae *vae, int64_t values)
{
    return (size_t)values * (vae->dtype == KT_F32 ? 4 : 2);
}

/* Norm, SiLU and convolution, twice, plus the shortcut; frees x.  If the shortcut is a convolution,
 * x is not read again and its norm runs in place; the norm of h always does. */
static kt residual(const struct kiln_vae *vae, struct kt_scope *s,
                   const struct kiln_vae_residual *r, kt x)
{
    if (r->shortcut.weight)
        x = kt_unshare(s, x);
    const int64_t values = kt_size(x, 1) * kt_size(x, 2) * kt_size(x, 3);
    if (kiln_vae_halves(r, kt_size(x, 1)) && kt_device_of(s) != KT_CPU &&
        bytes_of(vae, values) >= KILN_VAE_WIDE_BYTES) /* a second picture would be the peak */
        return kiln_vae_halving_residual(vae, s, r, x, KILN_VAE_WIDE_ROWS);
    struct kt_scope *inner = kt_scope_child(s);
    kt skip, h;
    if (r->shortcut.weight) {
        skip = kiln_vae_conv(inner, x, &r->shortcut, 0, NULL);
        kiln_vae_norm_over(vae, inner, x, &r->norm1);
        h = kiln_vae_conv(inner, x, &r->conv1, 1, NULL);
    } else {
        skip = kt_keep(inner, x);
        h = norm_conv(vae, inner, x, &r->norm1, &r->conv1, NULL);
    }
    kt_drop(s, x);
    kiln_vae_norm_over(vae, inner, h, &r->norm2);
    kt y = kt_keep(s, kiln_vae_conv(inner, h, &r->conv2, 1, skip));
    kt_scope_free(inner);
    return y;
}

/* Attention with one head over all pixels; frees x. */
static kt attend(const struct kiln_vae *vae, struct kt_scope *s, const struct kiln_vae_attention *a,
                 kt x)
{
    struct kt_scope *inner = kt_scope_child(s);
    kt rows = kt_image_rows(inner, norm(vae, inner, x, &a->norm, false));
    const struct kt_attention_args args = {.qkv =
                                               kt_linear(inner, rows, a->qkv.weight, a->qkv.bias),
                                           .heads = 1,
                                           .kv_heads = 1,
                                           .head_dim = (int)kt_size(x, 1)};
    kt h = kt_linear(inner, kt_attention(inner, &args), a->out.weight, a->out.bias);
    h = kt_rows_image(inner, h, kt_size(x, 2), kt_size(x, 3));
    kt y = kt_keep(s, kt_add(inner, x, h));
    kt_scope_free(inner);
    kt_drop(s, x);
    return y;
}

static kt middle(const struct kiln_vae *vae, struct kt_scope *s, const struct kiln_vae_half *h,
                 kt x)
{
    x = residual(vae, s, &h->mid[0], x);
    if (h->attention.qkv.weight)
        x = attend(vae, s, &h->attention, x);
    return residual(vae, s, &h->mid[1], x);
}

kt kiln_vae_decode_middle(const struct kiln_vae *vae, struct kt_scope *s, kt latent)
{
    const struct kiln_vae_config *c = &vae->config;
    const struct kiln_vae_half *h = &vae->decoder;
    const int64_t shape[4] = {1, kt_size(latent, 0), kt_size(latent, 1), kt_size(latent, 2)};
    kt z = kt_affine(s, latent, 1.0 / c->scaling, c->shift);
    z = kt_to(s, kt_reshape(s, z, 4, shape), vae->dtype);
    if (h->quant.weight)
        z = kiln_vae_conv(s, z, &h->quant, 0, NULL);
    return middle(vae, s, h, kiln_vae_conv(s, z, &h->in, 1, NULL));
}

/* The decoder up to its last `left` levels. */
static kt first_levels(const struct kiln_vae *vae, struct kt_scope *inner, kt latent, int left)
{
    const struct kiln_vae_config *c = &vae->config;
    const struct kiln_vae_half *h = &vae->decoder;
    kt x = kiln_vae_decode_middle(vae, inner, latent);
    for (int i = 0; i < c->levels - left; i++) {
        for (int j = 0; j < h->levels[i].count; j++)
            x = residual(vae, inner, &h->levels[i].residuals[j], x);
        const struct kiln_vae_layer *grow = &h->levels[i].resample;
        if (!grow->weight || i + 1 == c->levels - left)
            continue;
        /* A joined one beside memory as large as x that is then freed: together with x's memory it
         * leaves a gap that fits the result of the next residual. */
        kt gap = kiln_vae_is_joined(grow)
                     ? kt_picture(inner, vae->dtype, kt_size(x, 1), kt_size(x, 2), kt_size(x, 3))
                     : NULL;
        x = kiln_vae_upsample(inner, x, grow);
        kt_drop(inner, gap);
    }
    return x;
}

kt kiln_vae_decode_strips(const struct kiln_vae *vae, struct kt_scope *s, kt latent, int rows)
{
    const struct kiln_vae_half *h = &vae->decoder;
    const bool whole = rows == 0 || vae->config.levels < 2;
    const struct kiln_vae_config *c = &vae->config;
    const int64_t narrow = c->channels[0], wide = c->levels > 1 ? c->channels[1] : narrow;
    const int64_t pixels = kt_size(latent, 1) * kt_size(latent, 2) * c->factor * c->factor;
    struct kt_scope *inner = kt_scope_child(s);
    /* Reserves the memory of a decode in one piece.  Otherwise small tensors end up in the places
     * of large ones, and the allocator holds twice what is used.  The size was found by simulating
     * the allocator with Z-Image's channels; too little costs memory, not the picture. */
    kt_reserve(s, bytes_of(vae, (wide + narrow) * pixels) + ((size_t)48 << 20));
    kt x = first_levels(vae, inner, latent, whole ? 0 : 1);
    kt y = whole ? norm_conv(vae, inner, x, &h->norm_out, &h->out, NULL)
                 : kiln_vae_last_level(vae, inner, x, rows);
    y = kt_keep(s, y);
    kt_scope_free(inner);
    return y;
}

/* The rows of a strip for so many pixels: 0 up to KILN_VAE_WHOLE_PIXELS. */
static int rows_for(int64_t pixels)
{
    return pixels > KILN_VAE_WHOLE_PIXELS ? KILN_VAE_STRIP_ROWS : 0;
}

kt kiln_vae_decode(const struct kiln_vae *vae, struct kt_scope *s, kt latent)
{
    const int64_t pixels = kt_size(latent, 1) * kt_size(latent, 2);
    const int64_t factor = vae->config.factor;
    return kiln_vae_decode_strips(vae, s, latent, rows_for(pixels * factor * factor));
}

kt kiln_vae_encode_strips(const struct kiln_vae *vae, struct kt_scope *s, kt picture, kt noise,
                          int rows)
{
    const struct kiln_vae_config *c = &vae->config;
    const struct kiln_vae_half *h = &vae->encoder;
    struct kt_scope *inner = kt_scope_child(s);
    kt x = kt_to(inner, picture, vae->dtype);
    x = rows ? kiln_vae_first_level(vae, inner, x, rows) : kiln_vae_conv(inner, x, &h->in, 1, NULL);
    for (int i = rows ? 1 : 0; i < c->levels; i++) {
        for (int j = 0; j < h->levels[i].count; j++)
            x = residual(vae, inner, &h->levels[i].residuals[j], x);
        const struct kiln_vae_layer *halve = &h->levels[i].resample;
        if (halve->weight) { /* zeros only on the right and at the bottom */
            const struct kt_conv_args args = {
                .x = x, .weight = halve->weight, .bias = halve->bias, .stride = 2, .pad_after = 1};
            x = kt_conv2d(inner, &args);
            kt_drop(inner, args.x);
        }
    }
    x = norm_conv(vae, inner, middle(vae, inner, h, x), &h->norm_out, &h->out, NULL);
    if (h->quant.weight)
        x = kiln_vae_conv(inner, x, &h->quant, 0, NULL);
    kt latent = kt_affine(inner, kt_gaussian(inner, x, noise), 1, -c->shift);
    latent = kt_keep(s, kt_affine(inner, latent, c->scaling, 0));
    kt_scope_free(inner);
    return latent;
}

kt kiln_vae_encode(const struct kiln_vae *vae, struct kt_scope *s, kt picture)
{
    const int rows = rows_for(kt_size(picture, 2) * kt_size(picture, 3));
    return kiln_vae_encode_strips(vae, s, picture, NULL, rows);
}

kt kiln_vae_encode_sample(const struct kiln_vae *vae, struct kt_scope *s, kt picture, kt noise)
{
    const int rows = rows_for(kt_size(picture, 2) * kt_size(picture, 3));
    return noise ? kiln_vae_encode_strips(vae, s, picture, noise, rows) : NULL; /* s has failed */
}
