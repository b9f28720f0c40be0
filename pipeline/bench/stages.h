/* stages.h - times the stages of a loaded engine one by one, for `kiln bench engine`.
 *
 * A time is the median of several runs after some that do not count, from the call until the
 * device has finished.
 */
#ifndef KILN_BENCH_STAGES_H
#define KILN_BENCH_STAGES_H

#include <stddef.h>
#include <stdint.h>

#include "pipeline/diffusionz_batch.h"
#include "schemas/error.h"

enum kiln_stage {
    KILN_STAGE_FORWARD = 1,
    KILN_STAGE_TEXT = 2,
    KILN_STAGE_DECODE = 4,
    KILN_STAGE_IMAGE = 8,
    KILN_STAGES_ALL = 15
};

#define KILN_STAGE_RUNS_MAX 64
#define KILN_STAGE_TOKENS_MIN 9 /* of a prompt of one word, with its template */

struct kiln_stage_case {
    int32_t width, height, item_count;
    int32_t tokens;           /* of each prompt, with its template */
    int32_t num_steps;        /* of whole images */
    int32_t warmups, repeats; /* of a stage; whole images: 1 and image_repeats */
    int32_t image_repeats;
    int32_t stages; /* a sum of enum kiln_stage; the times of the others are 0 */
    /* Of whole images: coarse first as in DiffusionZBatch, handed over at coarse_sigma; or 0. */
    int32_t coarse_steps, coarse_width, coarse_height, rest_steps;
    int32_t middle_steps, middle_width, middle_height;
    double coarse_sigma;
    int32_t skip_steps; /* of whole images: from a latent, noised to the sigma of this step; or 0 */
    /* Of whole images, as in DiffusionZBatch: sigmas and weights of the model's own; or 0. */
    const double *sigmas;
    const DiffusionZStepLora *step_loras;
    int32_t step_lora_count;
    const DiffusionZStepTransformer *step_transformers;
    int32_t step_transformer_count;
};

/* Milliseconds, of one item. */
struct kiln_stage_times {
    double forward_ms; /* one step of the transformer, without any other work in the batch */
    double forward_best_ms, forward_worst_ms;
    double step_ms;   /* the same within whole images; coarse first, the mean over all sizes */
    double text_ms;   /* the text encoder on one prompt */
    double decode_ms; /* one latent to a picture on the device */
    double image_ms;  /* from the prompt to pixels in host memory, no features cached */
    /* Coarse first, of the batch: from the end of the last smaller step to the start of the first
     * full one, by the device's clock: enlarging, noise, and the set-up of the step; else 0. */
    double hand_over_ms;
    double flops;      /* of a forward */
    double ceiling_ms; /* of a forward: see roofline.h */
    /* The most bytes on the device: in tensors, and in total by this process and all others. */
    uint64_t peak_tensors, peak_device;
};

/* Sets the fields of a batch for the case's whole images: size, steps and what they go through,
 * coarse first. */
void kiln_stage_batch(const struct kiln_stage_case *args, DiffusionZBatch *batch);

/* ret_output: NULL, or receives the model's output in the first step of the first item, malloc'd,
 * *ret_count values: two dtypes can be compared by it.  KILN_NO_MEMORY if the device is too small
 * for the case. */
int kiln_stages_time(DiffusionZContext *ctx, const struct kiln_stage_case *args,
                     struct kiln_stage_times *ret, float **ret_output, size_t *ret_count,
                     struct kiln_error *err) KILN_MUST_CHECK;

#endif
