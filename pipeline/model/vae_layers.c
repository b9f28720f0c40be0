/* vae_layers.c - single layers of the autoencoder, under vae.c and vae_strips.c. */
#include "pipeline/model/vae_parts.h"

kt kiln_vae_conv(struct kt_scope *s, kt x, const struct kiln_vae_layer *l, int pad, kt add)
{
    const struct kt_conv_args args = {.x = x,
                                      .weight = l->weight,
                                      .bias = l->bias,
                                      .stride = 1,
                                      .pad_before = pad,
                                      .pad_after = pad,
                                      .add = add};
    return kt_conv2d(s, &args);
}

struct kt_norm kiln_vae_norm(const struct kiln_vae *vae, const struct kiln_vae_layer *l, bool silu)
{
    return (struct kt_norm){.weight = l->weight,
                            .bias = l->bias,
                            .x_bias = l->x_bias,
                            .groups = vae->config.groups,
                            .eps = KILN_VAE_NORM_EPS,
                            .silu = silu};
}

void kiln_vae_norm_over(const struct kiln_vae *vae, struct kt_scope *s, kt x,
                        const struct kiln_vae_layer *l)
{
    const struct kt_norm n = kiln_vae_norm(vae, l, true);
    kt_group_norm_over(s, x, &n);
}

bool kiln_vae_is_joined(const struct kiln_vae_layer *l)
{
    return kt_size(l->weight, 2) == 4;
}

kt kiln_vae_upsample(struct kt_scope *s, kt x, const struct kiln_vae_layer *l)
{
    const bool joined = kiln_vae_is_joined(l);
    if (!joined) {
        kt large = kt_upsample2(s, x);
        kt_drop(s, x);
        x = large;
    }
    kt y = joined ? kt_upsample_conv2d(s, x, l->weight) : kiln_vae_conv(s, x, l, 1, NULL);
    kt_drop(s, x);
    return y;
}
