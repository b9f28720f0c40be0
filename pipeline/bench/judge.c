/* judge.c - the judge's network over LibTorch; see judge.h.
 *
 * Always in fp32, so that it finds the same on every device.
 */
#include "pipeline/bench/judge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "pipeline/bench/peaks.h"
#include "pipeline/torch/tensor.h"
#include "pipeline/weights/weights.h"

#define PICTURE_CHANNELS 3
#define KERNEL 3
#define CELL 8 /* pixels of a side of the network's grid */
#define SIDE_MIN 16
#define SIDE_MAX 4096
#define ASPECT_MAX 16

struct layer {
    kt weight, bias;
};
struct residual {
    struct layer a, b;
};

struct kiln_judge {
    struct kiln_judge_labels labels;
    int device;
    struct kt_scope *weights;
    struct layer stem[KILN_JUDGE_LAYERS_MAX];
    struct residual body[KILN_JUDGE_LAYERS_MAX];
    struct layer local, whole[2];
};

/* --- loading ---------------------------------------------------------------------------------- */

/* A convolution; with kernel 0 a linear layer. */
static void load_layer(struct kiln_weights *w, const char *name, int64_t out, int64_t in,
                       int64_t kernel, struct layer *l)
{
    char bias[64];
    snprintf(bias, sizeof bias, "%s.bias", name);
    if (kernel)
        kiln_weights_conv(w, &l->weight, "", name, out, in, kernel);
    else
        kiln_weights_linear(w, &l->weight, "", name, out, in);
    kiln_weights_vector(w, &l->bias, "", bias, out);
}

static int load(struct kiln_judge *judge, const char *dir, struct kiln_error *err)
{
    const struct kiln_judge_labels *labels = &judge->labels;
    struct kiln_weights *w;
    char name[32];
    int64_t width = PICTURE_CHANNELS;
    int code = kiln_weights_open(dir, "stem.0.weight", judge->weights, KT_F32, NULL, &w, err);
    if (code)
        return code;
    for (int i = 0; i < labels->stem_count; i++) {
        snprintf(name, sizeof name, "stem.%d", i);
        load_layer(w, name, labels->stem_channels[i], width, KERNEL, &judge->stem[i]);
        width = labels->stem_channels[i];
    }
    for (int i = 0; i < labels->body_count; i++) {
        snprintf(name, sizeof name, "body.%d.a", i);
        load_layer(w, name, width, width, KERNEL, &judge->body[i].a);
        snprintf(name, sizeof name, "body.%d.b", i);
        load_layer(w, name, width, width, KERNEL, &judge->body[i].b);
    }
    load_layer(w, "local", kiln_judge_local_width(labels), width, 1, &judge->local);
    load_layer(w, "whole.0", labels->hidden, 2 * width, 0, &judge->whole[0]);
    load_layer(w, "whole.1", kiln_judge_whole_width(labels), labels->hidden, 0, &judge->whole[1]);
    return kiln_weights_close(w, err);
}

int kiln_judge_open(const char *dir, int device, struct kiln_judge **ret, struct kiln_error *err)
{
    struct kiln_judge *judge = calloc(1, sizeof *judge);
    if (!judge)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the judge");
    judge->device = device;
    int code = kiln_judge_labels_read(dir, &judge->labels, err);
    code = code ? code : kt_device_open(device, err);
    if (!code && !(judge->weights = kt_scope_new(device)))
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory for the judge");
    code = code ? code : load(judge, dir, err);
    if (code)
        kiln_judge_close(judge);
    else
        *ret = judge;
    return code;
}

void kiln_judge_close(struct kiln_judge *judge)
{
    if (!judge)
        return;
    kt_scope_free(judge->weights);
    free(judge);
}

const struct kiln_judge_labels *kiln_judge_labels(const struct kiln_judge *judge)
{
    return &judge->labels;
}

/* --- detecting -------------------------------------------------------------------------------- */

static kt conv(struct kt_scope *s, kt x, const struct layer *l, int stride, int dilation, int pad,
               kt add)
{
    const struct kt_conv_args args = {.x = x,
                                      .weight = l->weight,
                                      .bias = l->bias,
                                      .stride = stride,
                                      .dilation = dilation,
                                      .pad_before = pad,
                                      .pad_after = pad,
                                      .add = add};
    return kt_conv2d(s, &args);
}

/* Runs both heads and reads their outputs. */
static int read_heads(const struct kiln_judge *judge, struct kt_scope *s, kt x,
                      struct kiln_seen *ret, struct kiln_error *err)
{
    const struct kiln_judge_labels *labels = &judge->labels;
    kt local = conv(s, x, &judge->local, 1, 1, 0, NULL);
    const struct layer *w = judge->whole;
    kt h = kt_relu(s, kt_linear(s, kt_mean_max(s, x), w[0].weight, w[0].bias));
    kt whole = kt_linear(s, h, w[1].weight, w[1].bias);
    int rows = (int)kt_size(local, 2), cols = (int)kt_size(local, 3);
    size_t count = (size_t)kiln_judge_local_width(labels) * (size_t)rows * (size_t)cols;
    size_t more = (size_t)kiln_judge_whole_width(labels);
    float *host = malloc((count + more) * sizeof *host);
    if (!host)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for what the judge sees");
    kt_to_host_f32(s, local, host, count);
    kt_to_host_f32(s, whole, host + count, more);
    int code = kt_scope_check(s, err);
    if (!code) {
        kiln_judge_peaks(labels, host, rows, cols, ret);
        kiln_judge_whole(labels, host + count, ret);
    }
    free(host);
    return code;
}

int kiln_judge_look(struct kiln_judge *judge, const uint8_t *rgb, int width, int height,
                    struct kiln_seen *ret, struct kiln_error *err)
{
    const struct kiln_judge_labels *labels = &judge->labels;
    int small = width < height ? width : height, large = width < height ? height : width;
    if (small < SIDE_MIN || large > SIDE_MAX || large > small * ASPECT_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "the judge does not take pictures of %dx%d pixels",
                         width, height);
    struct kt_scope *s = kt_scope_new(judge->device);
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the judge");
    const int64_t shape[4] = {1, height, width, PICTURE_CHANNELS};
    const int planes[4] = {0, 3, 1, 2};
    kt x = kt_permute(s, kt_from_host(s, rgb, KT_U8, KT_F32, 4, shape), 4, planes);
    x = kt_affine(s, x, 1.0 / 255, 0);
    /* The shorter side becomes labels.side and both whole cells: down by area averaging, up by
     * interpolation.  nearbyint rounds halves to even, as Python's round does. */
    const double factor = (double)labels->side / small;
    const int64_t rows = (int64_t)nearbyint(height * factor / CELL) * CELL;
    const int64_t cols = (int64_t)nearbyint(width * factor / CELL) * CELL;
    if (rows != height || cols != width)
        x = kt_resize(s, x, rows, cols, factor < 1);
    x = kt_affine(s, x, 2, -1);
    for (int i = 0; i < labels->stem_count; i++)
        x = kt_relu(s, conv(s, x, &judge->stem[i], labels->stem_strides[i], 1, 1, NULL));
    for (int i = 0; i < labels->body_count; i++) {
        int dilation = labels->body_dilations[i];
        kt h = kt_relu(s, conv(s, x, &judge->body[i].a, 1, dilation, dilation, NULL));
        x = kt_relu(s, conv(s, h, &judge->body[i].b, 1, 1, 1, x));
    }
    int code = read_heads(judge, s, x, ret, err);
    kt_scope_free(s);
    return code;
}
