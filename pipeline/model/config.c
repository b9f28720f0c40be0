/* config.c - reads the four config files of a model; see config.h.
 * Defaults are those of the classes in diffusers and transformers, because a config.json may omit
 * values that equal them.
 */
#include "pipeline/model/config.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/model/json.h"

#define WIDTH_MAX 65536

/* Values above these give noise, or pictures that are not finite. */
#define EPS_MAX 1.0
#define THETA_MAX 1e9
#define SCALE_MAX 1e6

/* A real number above 0 and up to `most`. */
static double positive(struct kiln_model_json *c, const char *key, double fallback, double most)
{
    double value = kiln_model_real_or(c, key, fallback);
    if (!(value > 0 && value <= most))
        kiln_model_refuse(c, KILN_BAD_INPUT, "%s is %g, not above 0 and up to %g", key, value,
                          most);
    return value;
}

/* Every entry of the list must be this text, if there is a list. */
static void only_texts(struct kiln_model_json *c, const char *key, const char *type)
{
    size_t i;
    const json_t *entry;
    json_array_foreach(json_object_get(c->root, key), i, entry)
    {
        const char *text = json_string_value(entry);
        if (!text || strcmp(text, type) != 0)
            kiln_model_refuse(c, KILN_UNSUPPORTED, "%s[%zu] is \"%.64s\"; only %s is supported",
                              key, i, text ? text : "(not a string)", type);
    }
}

/* Only the patch size of all published checkpoints is supported: 2x2 pixels of one frame. */
static void only_patch(struct kiln_model_json *c, const char *key, int size)
{
    int given[8] = {size};
    if (json_object_get(c->root, key) &&
        (kiln_model_ints(c, key, 1, 64, given, 8) != 1 || given[0] != size))
        kiln_model_refuse(c, KILN_UNSUPPORTED,
                          "only all_patch_size [2] with all_f_patch_size [1] is supported");
}

/* The rotation base: rope_parameters.rope_theta, or the older rope_scaling's, or the top level's.
 * An object with settings for each kind of layer gives those of full attention, the only kind that
 * is supported.  rope_type (in older files, type) would scale the angles; only the default is
 * supported. */
static double read_rope_theta(struct kiln_model_json *c)
{
    static const char *const keys[] = {"rope_scaling", "rope_parameters"};
    double theta = positive(c, "rope_theta", 10000.0, THETA_MAX);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *given = json_object_get(c->root, keys[i]), *value;
        json_t *full = json_object_get(given, "full_attention");
        const char *name;
        if (json_is_null(given) || !given)
            continue;
        if (!json_is_object(given) || (full && !json_is_object(full)))
            kiln_model_refuse(c, KILN_BAD_INPUT, "%s is not an object", keys[i]);
        json_object_foreach(given, name, value)
        {
            if (json_is_object(value) && !full)
                kiln_model_refuse(c, KILN_UNSUPPORTED, "%s.%.64s is not supported", keys[i], name);
        }
        struct kiln_model_json inner = *c;
        inner.root = full ? full : given;
        kiln_model_only_text(&inner, "rope_type", "default");
        kiln_model_only_text(&inner, "type", "default");
        theta = positive(&inner, "rope_theta", theta, THETA_MAX);
        c->error = inner.error;
    }
    return theta;
}

static int read_text(const char *dir, struct kiln_text_config *t, struct kiln_error *err)
{
    struct kiln_model_json c;
    kiln_model_json_open(&c, dir, "text_encoder/config.json");
    kiln_model_only_text(&c, "model_type", "qwen3");
    kiln_model_only_null(&c, "quantization_config");
    kiln_model_only_text(&c, "hidden_act", "silu");
    kiln_model_only_bool(&c, "use_sliding_window", false);
    only_texts(&c, "layer_types", "full_attention");
    t->vocab = kiln_model_int(&c, "vocab_size", 1, 1 << 24);
    t->width = kiln_model_int(&c, "hidden_size", 1, WIDTH_MAX);
    t->layers = kiln_model_int(&c, "num_hidden_layers", 1, 1024);
    t->heads = kiln_model_int(&c, "num_attention_heads", 1, 1024);
    t->kv_heads = kiln_model_int_or(&c, "num_key_value_heads", 1, 1024, t->heads);
    t->head_dim = kiln_model_int_or(&c, "head_dim", 2, 4096, 128);
    t->ffn = kiln_model_int(&c, "intermediate_size", 1, 4 * WIDTH_MAX);
    t->norm_eps = positive(&c, "rms_norm_eps", 1e-6, EPS_MAX);
    t->rope_theta = read_rope_theta(&c);
    t->bias = kiln_model_bool_or(&c, "attention_bias", false);
    if (t->heads % t->kv_heads)
        kiln_model_refuse(&c, KILN_BAD_INPUT,
                          "num_attention_heads %d is not a multiple of num_key_value_heads %d",
                          t->heads, t->kv_heads);
    if (t->head_dim % 2)
        kiln_model_refuse(&c, KILN_BAD_INPUT, "head_dim %d is odd", t->head_dim);
    return kiln_model_json_close(&c, err);
}

static void derive_transformer(struct kiln_model_json *c, struct kiln_transformer_config *t)
{
    t->patch = 2;
    t->head_dim = t->width / t->heads;
    t->ffn = (int)(t->width / 3.0 * 8.0);
    t->time_width = t->width < 256 ? t->width : 256;
    if (t->width % t->heads)
        kiln_model_refuse(c, KILN_BAD_INPUT, "dim %d is not a multiple of n_heads %d", t->width,
                          t->heads);
    int sum = 0;
    for (int i = 0; i < KILN_ROPE_AXES; i++) {
        sum += t->axes[i];
        if (t->axes[i] % 2)
            kiln_model_refuse(c, KILN_BAD_INPUT, "axes_dims[%d] is odd", i);
    }
    if (sum != t->head_dim)
        kiln_model_refuse(c, KILN_BAD_INPUT,
                          "axes_dims add up to %d, but dim %d / n_heads %d is %d", sum, t->width,
                          t->heads, t->head_dim);
}

/* n_kv_heads and axes_lens are not asked for: the model has no grouped heads whatever the first
 * says (diffusers does not read it either), and angles are computed for any place, where the second
 * is the length of diffusers' tables of them. */
static int read_transformer(const char *dir, const char *folder, struct kiln_transformer_config *t,
                            struct kiln_error *err)
{
    struct kiln_model_json c;
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/config.json", folder);
    kiln_model_json_open(&c, dir, name);
    kiln_model_only_text(&c, "_class_name", "ZImageTransformer2DModel");
    kiln_model_only_null(&c, "quantization_config");
    kiln_model_only_null(&c, "siglip_feat_dim");
    only_patch(&c, "all_patch_size", 2);
    only_patch(&c, "all_f_patch_size", 1);
    t->channels = kiln_model_int_or(&c, "in_channels", 1, 1024, 16);
    t->width = kiln_model_int_or(&c, "dim", 1, WIDTH_MAX, 3840);
    t->layers = kiln_model_int_or(&c, "n_layers", 1, 1024, 30);
    t->refiner_layers = kiln_model_int_or(&c, "n_refiner_layers", 0, 1024, 2);
    t->heads = kiln_model_int_or(&c, "n_heads", 1, 1024, 30);
    t->caption_width = kiln_model_int_or(&c, "cap_feat_dim", 1, WIDTH_MAX, 2560);
    t->norm_eps = positive(&c, "norm_eps", 1e-5, EPS_MAX);
    t->rope_theta = positive(&c, "rope_theta", 256.0, THETA_MAX);
    t->time_scale = positive(&c, "t_scale", 1000.0, SCALE_MAX);
    t->qk_norm = kiln_model_bool_or(&c, "qk_norm", true);
    t->axes[0] = 32, t->axes[1] = 48, t->axes[2] = 48;
    if (json_object_get(c.root, "axes_dims") &&
        kiln_model_ints(&c, "axes_dims", 2, 4096, t->axes, KILN_ROPE_AXES) != KILN_ROPE_AXES)
        kiln_model_refuse(&c, KILN_BAD_INPUT, "axes_dims does not have 3 entries");
    derive_transformer(&c, t);
    return kiln_model_json_close(&c, err);
}

/* Every level must be of the plain kind: attention inside levels is another network. */
static void check_block_types(struct kiln_model_json *c, const char *key, const char *type,
                              int levels)
{
    const json_t *types = json_object_get(c->root, key);
    if (types && (int)json_array_size(types) != levels)
        kiln_model_refuse(c, KILN_BAD_INPUT, "%s has %zu entries, block_out_channels has %d", key,
                          json_array_size(types), levels);
    only_texts(c, key, type);
}

static int read_vae(const char *dir, struct kiln_vae_config *v, struct kiln_error *err)
{
    struct kiln_model_json c;
    kiln_model_json_open(&c, dir, "vae/config.json");
    kiln_model_only_text(&c, "_class_name", "AutoencoderKL");
    kiln_model_only_null(&c, "quantization_config");
    kiln_model_only_text(&c, "act_fn", "silu");
    v->image_channels = kiln_model_int_or(&c, "out_channels", 3, 3, 3);
    v->latent_channels = kiln_model_int_or(&c, "latent_channels", 1, 1024, 4);
    v->layers_per_block = kiln_model_int_or(&c, "layers_per_block", 1, 64, 1);
    v->groups = kiln_model_int_or(&c, "norm_num_groups", 1, WIDTH_MAX, 32);
    v->scaling = positive(&c, "scaling_factor", 0.18215, SCALE_MAX);
    v->shift = kiln_model_real_or(&c, "shift_factor", 0.0);
    if (!(v->shift >= -SCALE_MAX && v->shift <= SCALE_MAX))
        kiln_model_refuse(&c, KILN_BAD_INPUT, "shift_factor is %g, not within %g of 0", v->shift,
                          SCALE_MAX);
    v->mid_attention = kiln_model_bool_or(&c, "mid_block_add_attention", true);
    v->quant_conv = kiln_model_bool_or(&c, "use_quant_conv", true);
    v->post_quant_conv = kiln_model_bool_or(&c, "use_post_quant_conv", true);
    v->levels =
        kiln_model_ints(&c, "block_out_channels", 1, WIDTH_MAX, v->channels, KILN_VAE_LEVELS_MAX);
    if (v->levels < 1)
        kiln_model_refuse(&c, KILN_BAD_INPUT, "block_out_channels is empty");
    check_block_types(&c, "down_block_types", "DownEncoderBlock2D", v->levels);
    check_block_types(&c, "up_block_types", "UpDecoderBlock2D", v->levels);
    for (int i = 0; i < v->levels; i++)
        if (v->channels[i] % v->groups)
            kiln_model_refuse(&c, KILN_BAD_INPUT,
                              "block_out_channels[%d] %d is not a multiple of norm_num_groups %d",
                              i, v->channels[i], v->groups);
    v->factor = 1 << (v->levels > 0 ? v->levels - 1 : 0);
    return kiln_model_json_close(&c, err);
}

static int read_sampler(const char *dir, struct kiln_sampler_config *s, struct kiln_error *err)
{
    struct kiln_model_json c;
    kiln_model_json_open(&c, dir, "scheduler/scheduler_config.json");
    kiln_model_only_text(&c, "_class_name", "FlowMatchEulerDiscreteScheduler");
    kiln_model_only_bool(&c, "use_dynamic_shifting", false);
    kiln_model_only_bool(&c, "use_karras_sigmas", false);
    kiln_model_only_bool(&c, "use_exponential_sigmas", false);
    kiln_model_only_bool(&c, "use_beta_sigmas", false);
    kiln_model_only_bool(&c, "invert_sigmas", false);
    kiln_model_only_bool(&c, "stochastic_sampling", false);
    kiln_model_only_null(&c, "shift_terminal");
    s->train_steps = kiln_model_int_or(&c, "num_train_timesteps", 1, 1000000, 1000);
    s->shift = positive(&c, "shift", 1.0, SCALE_MAX);
    return kiln_model_json_close(&c, err);
}

int kiln_model_config_read(const char *dir, struct kiln_model_config *ret, struct kiln_error *err)
{
    struct kiln_model_config m = {0};
    int code = read_text(dir, &m.text, err);
    code = code ? code : read_transformer(dir, "transformer", &m.transformer, err);
    code = code ? code : read_vae(dir, &m.vae, err);
    code = code ? code : read_sampler(dir, &m.sampler, err);
    if (code)
        return code;
    if (m.transformer.caption_width != m.text.width)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s: transformer/config.json has cap_feat_dim %d, but "
                         "text_encoder/config.json has hidden_size %d",
                         dir, m.transformer.caption_width, m.text.width);
    if (m.transformer.channels != m.vae.latent_channels)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s: transformer/config.json has in_channels %d, but "
                         "vae/config.json has latent_channels %d",
                         dir, m.transformer.channels, m.vae.latent_channels);
    *ret = m;
    return 0;
}

int kiln_model_config_same(const char *dir, const char *folder,
                           const struct kiln_transformer_config *first, struct kiln_error *err)
{
    struct kiln_transformer_config t = {0};
    int code = read_transformer(dir, folder, &t, err);
    if (code)
        return code;
    const struct {
        const char *key;
        double here, there;
    } values[] = {
        {"in_channels", t.channels, first->channels},
        {"dim", t.width, first->width},
        {"n_layers", t.layers, first->layers},
        {"n_refiner_layers", t.refiner_layers, first->refiner_layers},
        {"n_heads", t.heads, first->heads},
        {"cap_feat_dim", t.caption_width, first->caption_width},
        {"norm_eps", t.norm_eps, first->norm_eps},
        {"rope_theta", t.rope_theta, first->rope_theta},
        {"t_scale", t.time_scale, first->time_scale},
        {"qk_norm", t.qk_norm, first->qk_norm},
        {"axes_dims[0]", t.axes[0], first->axes[0]},
        {"axes_dims[1]", t.axes[1], first->axes[1]},
        {"axes_dims[2]", t.axes[2], first->axes[2]},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (values[i].here != values[i].there)
            return kiln_fail(err, KILN_BAD_INPUT,
                             "%s/%s/config.json has %s %g, but transformer/config.json has %g: the "
                             "transformers of a model have one shape",
                             dir, folder, values[i].key, values[i].here, values[i].there);
    return 0;
}
