/* abi.h - what the tests of the C ABI share: the golden model, and one small picture. */
#ifndef KILN_TEST_ABI_H
#define KILN_TEST_ABI_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "pipeline/context.h"
#include "pipeline/diffusionz_batch.h"
#include "schemas/error.h"

/* A path below tests/golden; eight results are kept apart. */
static inline const char *golden(const char *name)
{
    static char paths[8][4096];
    static unsigned next;
    const char *source = getenv("KILN_SOURCE");
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/tests/golden/%s", source ? source : ".", name);
    return path;
}

/* A model on the CPU in fp32, so that bits can be compared. */
static inline DiffusionZContext *open_dir(const char *dir)
{
    const DiffusionZOptions options = {
        .model_path = dir, .device_id = -1, .dtype = DIFFUSIONZ_FP32};
    DiffusionZContext *ctx = NULL;
    if (diffusionz_open(&options, &ctx))
        fail_msg("%s", diffusionz_last_error());
    return ctx;
}

static inline DiffusionZContext *open_plain(void)
{
    return open_dir(golden("models/plain"));
}

/* Runs a batch; none of its items may fail. */
static inline void run_whole(DiffusionZContext *ctx, const DiffusionZBatch *batch,
                             DiffusionZOutput *out)
{
    if (diffusionz_run_batch(ctx, batch, out, NULL))
        fail_msg("%s", diffusionz_last_error());
    for (int i = 0; i < batch->item_count; i++)
        if (out[i].error_code)
            fail_msg("item %d: %s", i, out[i].error_msg);
}

static inline DiffusionZParams small_picture(int64_t seed)
{
    return (DiffusionZParams){
        .prompt = "a red circle", .width = 64, .height = 64, .num_steps = 1, .seed = seed};
}

/* Puts features that are no numbers under one prompt, as a broken text encoder would. */
static inline void poison(DiffusionZContext *ctx, const char *prompt)
{
    struct kiln_engine *e = ctx->engine;
    const int64_t shape[2] = {8, e->config.transformer.caption_width};
    struct kt_scope *s = kt_scope_new(e->device);
    float *values = malloc((size_t)(shape[0] * shape[1]) * sizeof *values);
    for (int64_t i = 0; i < shape[0] * shape[1]; i++)
        values[i] = NAN;
    kiln_feature_cache_put(e->features, prompt, strlen(prompt), e->device,
                           kt_from_host(s, values, KT_F32, e->dtype, 2, shape));
    kt_scope_free(s);
    free(values);
}

/* Gives one step of the context's last schedule (0 the first) another length, for as long as
 * batches have that schedule. */
static inline void stretch_step(DiffusionZContext *ctx, int step, float length)
{
    struct kiln_engine *e = ctx->engine;
    struct kiln_error err;
    struct kt_scope *s = kt_scope_new(e->device);
    kt_copy_into(s, kt_narrow(s, e->sets[0].strides, 0, step, 1),
                 kt_from_host(s, &length, KT_F32, KT_F32, 1, (int64_t[]){1}));
    kt_wait(s);
    if (kt_scope_check(s, &err))
        fail_msg("%s", err.text);
    kt_scope_free(s);
}

/* One that is no number. */
static inline void poison_step(DiffusionZContext *ctx, int step)
{
    stretch_step(ctx, step, NAN);
}

static inline void forget_schedule(DiffusionZContext *ctx)
{
    ctx->engine->sets[0].times_key.steps = 0;
}

#endif
