/* diffusionz_bench.h - the engine's stages, timed one by one: for `kiln bench engine`.
 *
 * Same library, context and rules as diffusionz_batch.h.  A time is the median of several runs
 * after some that are not counted, from the call until the device has done all of it.
 */
#ifndef DIFFUSIONZ_BENCH_H
#define DIFFUSIONZ_BENCH_H

#include "pipeline/diffusionz_batch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As diffusionz_open, with weights drawn at random on the device: the directory of options needs
 * its configs and a tokenizer alone. */
DIFFUSIONZ_API int32_t diffusionz_bench_open(const DiffusionZOptions *options,
                                             DiffusionZContext **ret);

enum diffusionz_bench_stage {
    DIFFUSIONZ_BENCH_FORWARD = 1,
    DIFFUSIONZ_BENCH_TEXT = 2,
    DIFFUSIONZ_BENCH_DECODE = 4,
    DIFFUSIONZ_BENCH_IMAGE = 8,
    DIFFUSIONZ_BENCH_ALL = 15
};

#define DIFFUSIONZ_BENCH_RUNS_MAX 64
#define DIFFUSIONZ_BENCH_TOKENS_MIN 9 /* what a prompt of one word has, wrapped */

typedef struct DiffusionZBenchCase {
    int32_t width, height, item_count;
    int32_t tokens;           /* of every prompt, with what it is wrapped in */
    int32_t num_steps;        /* of whole images */
    int32_t warmups, repeats; /* of a stage; whole images: 1 and image_repeats */
    int32_t image_repeats;
    int32_t stages; /* a sum of enum diffusionz_bench_stage; times of the others are 0 */
} DiffusionZBenchCase;

typedef struct DiffusionZBenchTimes {
    double forward_ms; /* one step of the transformer, an item, nothing else in the batch's way */
    double forward_best_ms, forward_worst_ms;
    double step_ms;    /* the same within whole images */
    double text_ms;    /* the text encoder over one prompt */
    double decode_ms;  /* one latent to a picture on the device */
    double image_ms;   /* an item from prompt to pixels in host memory, no features cached */
    double flops;      /* of a forward */
    double ceiling_ms; /* of a forward: see roofline.h */
    /* Bytes on the device at worst: in tensors, and in all, by this process and any other. */
    uint64_t peak_tensors, peak_device;
} DiffusionZBenchTimes;

/* ret_output: NULL, or receives the model's output in the first step of the first item, malloc'd,
 * by which two dtypes can be compared; *ret_count values. */
DIFFUSIONZ_API int32_t diffusionz_bench_run(DiffusionZContext *ctx, const DiffusionZBenchCase *args,
                                            DiffusionZBenchTimes *ret, float **ret_output,
                                            size_t *ret_count);
DIFFUSIONZ_API void diffusionz_bench_free_output(float *output);

/* Bytes on the device now, as above; 0 on the CPU. */
DIFFUSIONZ_API void diffusionz_bench_memory(const DiffusionZContext *ctx, uint64_t *ret_tensors,
                                            uint64_t *ret_device);

#ifdef __cplusplus
}
#endif
#endif
