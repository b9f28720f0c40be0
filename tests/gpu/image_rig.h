/* image_rig.h - what the checks and the timings of pictures and text on a GPU share: random
 * operands that are the same numbers on two devices, full-size models with random weights.
 */
#ifndef KILN_TEST_IMAGE_RIG_H
#define KILN_TEST_IMAGE_RIG_H

#include "pipeline/model/vae.h"
#include "pipeline/text/encoder.h"

/* Sizes of Z-Image-Turbo. */
struct kiln_vae_config rig_vae_config(void);
struct kiln_text_config rig_text_config(void);

/* Models with random weights in scope; they fail the test where they cannot be made. */
struct kiln_vae *rig_vae(struct kt_scope *scope, const struct kiln_vae_config *config);
struct kiln_text_encoder *rig_text_encoder(struct kt_scope *scope,
                                           const struct kiln_text_config *config,
                                           enum kt_dtype dtype);
/* The same weights in fp32, in scope. */
struct kiln_vae *rig_vae_wide(struct kt_scope *scope, const struct kiln_vae *vae);

/* Token ids of a prompt, others for every seed. */
void rig_ids(int32_t *ids, size_t count, int vocab, uint32_t seed);
/* Normally distributed values times `size`, rounded to bf16, in that dtype on the scope's device:
 * the same numbers everywhere. */
kt rig_values(struct kt_scope *s, enum kt_dtype dtype, uint64_t seed, double size, int ndim,
              const int64_t *shape);

/* All values as float; owned by the caller.  Fails the test if x's scope has failed. */
float *rig_floats(struct kt_scope *s, kt x, size_t *ret_count);
/* Fails the test unless two tensors have the same bits. */
void rig_expect_same(struct kt_scope *s, kt got, kt want);
/* The error of got as a share of want, both as vectors; the peak signal-to-noise ratio in dB of
 * pictures in -1..1. */
double rig_relative(const float *got, const float *want, size_t count);
double rig_psnr(const float *got, const float *want, size_t count);
/* The latter between two pictures as they are stored. */
double rig_psnr_of_bytes(struct kt_scope *s, kt a, kt b);

/* Fails the test if the scope has failed. */
void rig_check(const struct kt_scope *s);

#endif
