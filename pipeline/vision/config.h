/* config.h - what a checkpoint of an image classifier says of itself: config.json and
 * preprocessor_config.json in the layout of Hugging Face's ViTForImageClassification.
 *
 * Whatever would need other code is refused by name: another class of model, a preprocessor that
 * crops, an activation that is not the exact GELU.
 */
#ifndef KILN_VISION_CONFIG_H
#define KILN_VISION_CONFIG_H

#include <stdbool.h>

#include "schemas/error.h"

#define KILN_VISION_LABELS_MAX 64
#define KILN_VISION_LABEL_MAX 63 /* bytes */
#define KILN_VISION_CHANNELS 3

enum kiln_resample { KILN_RESAMPLE_BILINEAR = 2, KILN_RESAMPLE_BICUBIC = 3 }; /* PIL's numbers */

struct kiln_vision_config {
    int width, layers, heads, inner; /* of the encoder */
    int side, patch;                 /* pixels; side is a multiple of patch */
    double norm_eps;
    bool qkv_bias;
    int labels;
    char label[KILN_VISION_LABELS_MAX][KILN_VISION_LABEL_MAX + 1]; /* id2label */
    /* Stored values to what the encoder reads: (value * rescale - mean) / deviation. */
    enum kiln_resample resample;
    double rescale, mean[KILN_VISION_CHANNELS], deviation[KILN_VISION_CHANNELS];
};

/* The error names the file and the key. */
int kiln_vision_config_read(const char *dir, struct kiln_vision_config *ret,
                            struct kiln_error *err) KILN_MUST_CHECK;

#endif
