/* classify.h - an image classifier out of libdiffusionz.so.
 *
 * That library has LibTorch in it and is opened at run time, so that the program of the gallery
 * links no LibTorch.
 */
#ifndef KILN_EMBED_CLASSIFY_H
#define KILN_EMBED_CLASSIFY_H

#include <stdint.h>

#include "schemas/error.h"

#define KILN_CLASSIFY_LABELS_MAX 64

struct kiln_classifier;

struct kiln_classifier_info {
    const char *hash; /* 16 hex digits of the checkpoint; borrowed */
    const char *label[KILN_CLASSIFY_LABELS_MAX];
    int labels;
};

/* library: a path, or NULL for libdiffusionz.so where the loader finds it.  dir: a checkpoint in
 * Hugging Face's layout of ViTForImageClassification.  KILN_UNAVAILABLE without the library; what
 * does not suit in a checkpoint is named. */
int kiln_classifier_open(const char *library, const char *dir, struct kiln_classifier **ret,
                         struct kiln_error *err) KILN_MUST_CHECK;
void kiln_classifier_close(struct kiln_classifier *c); /* accepts NULL */

const struct kiln_classifier_info *kiln_classifier_info(const struct kiln_classifier *c);

/* rgb [height][width][3].  share: [labels], which sum to 1: the softmax of what the classifier
 * says.  KILN_CORRUPT if that is not finite. */
int kiln_classifier_run(struct kiln_classifier *c, const uint8_t *rgb, uint32_t width,
                        uint32_t height, double *share, struct kiln_error *err) KILN_MUST_CHECK;

#endif
