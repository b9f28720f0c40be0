/* config.c - see config.h. */
#include "pipeline/vision/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/model/json.h"

#define WIDTH_MAX 4096
#define LAYERS_MAX 64
#define HEADS_MAX 64
#define INNER_MAX 16384
#define SIDE_MAX 1024
#define PATCHES_MAX 16384 /* of a picture */

/* --- config.json ------------------------------------------------------------------------------ */

static void read_labels(struct kiln_model_json *c, struct kiln_vision_config *ret)
{
    const json_t *labels = c->error.code ? NULL : json_object_get(c->root, "id2label");
    const size_t count = json_object_size(labels);
    if (count < 2 || count > KILN_VISION_LABELS_MAX) {
        kiln_model_refuse(c, KILN_UNSUPPORTED, "id2label has %zu labels; 2 to %d are supported",
                          count, KILN_VISION_LABELS_MAX);
        return;
    }
    ret->labels = (int)count;
    for (int i = 0; i < ret->labels; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        const char *label = json_string_value(json_object_get(labels, key));
        if (!label || !*label || strlen(label) > KILN_VISION_LABEL_MAX)
            kiln_model_refuse(c, KILN_BAD_INPUT, "id2label has no label \"%s\" of 1 to %d bytes",
                              key, KILN_VISION_LABEL_MAX);
        else
            snprintf(ret->label[i], sizeof ret->label[i], "%s", label);
    }
}

static void check_class(struct kiln_model_json *c)
{
    static const char wanted[] = "ViTForImageClassification";
    const json_t *classes = c->error.code ? NULL : json_object_get(c->root, "architectures");
    const char *name = json_string_value(json_array_get(classes, 0));
    if (name && (json_array_size(classes) != 1 || strcmp(name, wanted) != 0))
        kiln_model_refuse(c, KILN_UNSUPPORTED, "architectures is \"%.64s\"; it must be \"%s\"",
                          name, wanted);
    kiln_model_only_text(c, "model_type", "vit");
    kiln_model_only_text(c, "hidden_act", "gelu");
}

static int read_model(const char *dir, struct kiln_vision_config *ret, struct kiln_error *err)
{
    struct kiln_model_json c;
    kiln_model_json_open(&c, dir, "config.json");
    check_class(&c);
    ret->width = kiln_model_int(&c, "hidden_size", 1, WIDTH_MAX);
    ret->layers = kiln_model_int(&c, "num_hidden_layers", 1, LAYERS_MAX);
    ret->heads = kiln_model_int(&c, "num_attention_heads", 1, HEADS_MAX);
    ret->inner = kiln_model_int(&c, "intermediate_size", 1, INNER_MAX);
    ret->side = kiln_model_int(&c, "image_size", 1, SIDE_MAX);
    ret->patch = kiln_model_int(&c, "patch_size", 1, SIDE_MAX);
    ret->norm_eps = kiln_model_real_or(&c, "layer_norm_eps", 1e-12);
    ret->qkv_bias = kiln_model_bool_or(&c, "qkv_bias", true);
    (void)kiln_model_int_or(&c, "num_channels", KILN_VISION_CHANNELS, KILN_VISION_CHANNELS,
                            KILN_VISION_CHANNELS);
    read_labels(&c, ret);
    if (!c.error.code && ret->width % ret->heads != 0)
        kiln_model_refuse(&c, KILN_BAD_INPUT, "hidden_size %d is not a multiple of %d heads",
                          ret->width, ret->heads);
    if (!c.error.code && ret->side % ret->patch != 0)
        kiln_model_refuse(&c, KILN_BAD_INPUT, "image_size %d is not a multiple of patch_size %d",
                          ret->side, ret->patch);
    if (!c.error.code && (ret->side / ret->patch) * (ret->side / ret->patch) > PATCHES_MAX)
        kiln_model_refuse(&c, KILN_UNSUPPORTED, "image_size and patch_size give over %d patches",
                          PATCHES_MAX);
    if (!c.error.code && !(ret->norm_eps >= 0 && ret->norm_eps < 1))
        kiln_model_refuse(&c, KILN_BAD_INPUT, "layer_norm_eps is not from 0 to 1");
    return kiln_model_json_close(&c, err);
}

/* --- preprocessor_config.json ----------------------------------------------------------------- */

/* ViTImageProcessor, ViTImageProcessorFast, ViTFeatureExtractor: all do the same. */
static void check_processor(struct kiln_model_json *c)
{
    static const char *const keys[] = {"image_processor_type", "feature_extractor_type"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !c->error.code; i++) {
        const char *name = json_string_value(json_object_get(c->root, keys[i]));
        if (name && strncmp(name, "ViTImageProcessor", 17) != 0 &&
            strncmp(name, "ViTFeatureExtractor", 19) != 0)
            kiln_model_refuse(c, KILN_UNSUPPORTED, "%s \"%.64s\" is not supported", keys[i], name);
    }
    kiln_model_only_bool(c, "do_resize", true);
    kiln_model_only_bool(c, "do_center_crop", false);
}

/* size is a number, or height and width; both sides become it. */
static void check_size(struct kiln_model_json *c, int side)
{
    const json_t *size = c->error.code ? NULL : json_object_get(c->root, "size");
    const json_t *height = json_is_object(size) ? json_object_get(size, "height") : size;
    const json_t *width = json_is_object(size) ? json_object_get(size, "width") : size;
    if (!json_is_integer(height) || !json_is_integer(width))
        kiln_model_refuse(c, KILN_UNSUPPORTED, "size has no height and width");
    else if (json_integer_value(height) != side || json_integer_value(width) != side)
        kiln_model_refuse(c, KILN_BAD_INPUT, "size is %lldx%lld; config.json has image_size %d",
                          (long long)json_integer_value(width),
                          (long long)json_integer_value(height), side);
}

static void read_channels(struct kiln_model_json *c, const char *key, bool positive,
                          double ret[KILN_VISION_CHANNELS])
{
    const json_t *list = c->error.code ? NULL : json_object_get(c->root, key);
    if (json_array_size(list) != KILN_VISION_CHANNELS)
        kiln_model_refuse(c, KILN_BAD_INPUT, "%s is not a list of %d numbers", key,
                          KILN_VISION_CHANNELS);
    for (int i = 0; i < KILN_VISION_CHANNELS && !c->error.code; i++) {
        ret[i] = json_number_value(json_array_get(list, (size_t)i));
        if (!json_is_number(json_array_get(list, (size_t)i)) || !isfinite(ret[i]) ||
            (positive && ret[i] <= 0))
            kiln_model_refuse(c, KILN_BAD_INPUT, "%s is not a list of %d numbers%s", key,
                              KILN_VISION_CHANNELS, positive ? " above 0" : "");
    }
}

static int read_preprocessor(const char *dir, struct kiln_vision_config *ret,
                             struct kiln_error *err)
{
    struct kiln_model_json c;
    kiln_model_json_open(&c, dir, "preprocessor_config.json");
    check_processor(&c);
    check_size(&c, ret->side);
    const int resample = kiln_model_int_or(&c, "resample", 0, 5, KILN_RESAMPLE_BILINEAR);
    if (!c.error.code && resample != KILN_RESAMPLE_BILINEAR && resample != KILN_RESAMPLE_BICUBIC)
        kiln_model_refuse(&c, KILN_UNSUPPORTED, "resample %d is not supported; 2 and 3 are",
                          resample);
    ret->resample = (enum kiln_resample)resample;
    ret->rescale = kiln_model_bool_or(&c, "do_rescale", true)
                       ? kiln_model_real_or(&c, "rescale_factor", 1.0 / 255)
                       : 1;
    if (!c.error.code && !(ret->rescale > 0 && isfinite(ret->rescale)))
        kiln_model_refuse(&c, KILN_BAD_INPUT, "rescale_factor is not above 0");
    if (kiln_model_bool_or(&c, "do_normalize", true)) {
        read_channels(&c, "image_mean", false, ret->mean);
        read_channels(&c, "image_std", true, ret->deviation);
    } else {
        for (int i = 0; i < KILN_VISION_CHANNELS; i++)
            ret->deviation[i] = 1;
    }
    return kiln_model_json_close(&c, err);
}

int kiln_vision_config_read(const char *dir, struct kiln_vision_config *ret, struct kiln_error *err)
{
    memset(ret, 0, sizeof *ret);
    int rc = read_model(dir, ret, err);
    return rc ? rc : read_preprocessor(dir, ret, err);
}
