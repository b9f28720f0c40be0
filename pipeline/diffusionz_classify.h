/* diffusionz_classify.h - an image classifier: a picture in, a value for each of its labels out.
 * In libdiffusionz.so, for `kiln gallery classify` (pipeline/embed/classify).
 */
#ifndef DIFFUSIONZ_CLASSIFY_H
#define DIFFUSIONZ_CLASSIFY_H

#include <stddef.h>

#include "pipeline/diffusionz_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct DiffusionZClassifier DiffusionZClassifier;

/* Reads a directory in Hugging Face's layout of ViTForImageClassification: config.json,
 * preprocessor_config.json, model.safetensors.  On the CPU in fp32.  threads: of one picture; 0 =
 * all cores.  0 or a code, text in diffusionz_last_error(). */
DIFFUSIONZ_API int32_t diffusionz_classifier_open(const char *path, int32_t threads,
                                                  DiffusionZClassifier **ret);
DIFFUSIONZ_API void diffusionz_classifier_free(DiffusionZClassifier *c); /* accepts NULL */

/* How many labels, and each one's name of config.json; NULL beyond the last.  Borrowed. */
DIFFUSIONZ_API int32_t diffusionz_classifier_labels(const DiffusionZClassifier *c);
DIFFUSIONZ_API const char *diffusionz_classifier_label(const DiffusionZClassifier *c, int32_t at);
/* 16 hex digits that differ between two checkpoints.  Borrowed. */
DIFFUSIONZ_API const char *diffusionz_classifier_hash(const DiffusionZClassifier *c);

/* rgb: [height][width][3].  logits: [labels], before the softmax.  The picture is resized and
 * normalised as preprocessor_config.json says.  Calls run one after the other. */
DIFFUSIONZ_API int32_t diffusionz_classifier_run(DiffusionZClassifier *c, const uint8_t *rgb,
                                                 uint32_t width, uint32_t height, float *logits);

#ifdef __cplusplus
}
#endif
#endif
