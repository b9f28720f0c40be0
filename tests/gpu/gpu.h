/* gpu.h - what the tests of this folder share: contexts, pictures, and the way out without a GPU.
 */
#ifndef KILN_TEST_GPU_H
#define KILN_TEST_GPU_H

#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "pipeline/torch/tensor.h"
#include "tests/pipeline/abi.h"

/* Ends the program with 69 (EX_UNAVAILABLE) where cuda:0 cannot be opened: these tests prove
 * nothing there.  Asked in another process, so that this one is still free to open the CPU first.
 */
static inline void need_gpu(void)
{
    struct kiln_error err;
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int code = kt_device_open(0, &err);
        if (code)
            fprintf(stderr, "these tests need a GPU: %s\n", err.text);
        _exit(code ? EX_UNAVAILABLE : 0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
        fprintf(stderr, "the process that looked for a GPU died (status %d)\n", status);
        exit(1);
    }
    if (WEXITSTATUS(status))
        exit(WEXITSTATUS(status));
}

static inline DiffusionZContext *open_model(const char *dir, int device, int dtype)
{
    const DiffusionZOptions options = {.model_path = dir, .device_id = device, .dtype = dtype};
    DiffusionZContext *ctx = NULL;
    if (diffusionz_open(&options, &ctx))
        fail_msg("%s", diffusionz_last_error());
    return ctx;
}

/* A model below the root of the sources. */
static inline const char *sketch(void)
{
    static char path[4096];
    const char *source = getenv("KILN_SOURCE");
    snprintf(path, sizeof path, "%s/pipeline/models/sketch", source ? source : ".");
    return path;
}

struct picture_case {
    const char *prompt;
    int width, height, steps;
    float guidance;
};

/* One picture; the caller releases it. */
static inline DiffusionZOutput draw_case(DiffusionZContext *ctx, const struct picture_case *c,
                                         uint64_t seed)
{
    const DiffusionZItem item = {.prompt = c->prompt, .seed = seed};
    const DiffusionZBatch batch = {.items = &item,
                                   .item_count = 1,
                                   .width = c->width,
                                   .height = c->height,
                                   .num_steps = c->steps,
                                   .guidance_scale = c->guidance};
    DiffusionZOutput out;
    if (diffusionz_run_batch(ctx, &batch, &out, NULL))
        fail_msg("%s", diffusionz_last_error());
    if (out.error_code)
        fail_msg("%s", out.error_msg);
    return out;
}

static inline DiffusionZOutput draw(DiffusionZContext *ctx, const char *prompt, int side, int steps,
                                    uint64_t seed)
{
    const struct picture_case square = {prompt, side, side, steps, 0};
    return draw_case(ctx, &square, seed);
}

/* The share of the values of two pictures that differ by more than `levels`. */
static inline double share_beyond(const uint8_t *a, const uint8_t *b, size_t count, int levels)
{
    size_t beyond = 0;
    for (size_t i = 0; i < count; i++)
        beyond += abs(a[i] - b[i]) > levels;
    return (double)beyond / (double)count;
}

#endif
