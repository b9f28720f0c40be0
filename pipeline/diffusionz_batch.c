/* diffusionz_batch.c - checks arguments of diffusionz_batch.h and calls the engine. */
#include "pipeline/diffusionz_batch.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/context.h"
#include "pipeline/torch/async.h"
#include "pipeline/torch/load.h"
#include "pipeline/weights/loading.h"

const char *diffusionz_last_error(void)
{
    return kiln_context_last_error();
}

void diffusionz_describe(char *text, size_t size)
{
    kt_describe(text, size);
}

int32_t diffusionz_patience(int32_t seconds)
{
    return kt_wait_limit(seconds);
}

void diffusionz_watch(DiffusionZWatch *watch, void *arg)
{
    kiln_loading_watch(watch, arg);
}

int32_t diffusionz_open(const DiffusionZOptions *options, DiffusionZContext **ret)
{
    struct kiln_error err = {0};
    return kiln_context_open(options, false, ret, &err) ? kiln_context_note(&err) : 0;
}

int32_t diffusionz_open_random(const DiffusionZOptions *options, DiffusionZContext **ret)
{
    struct kiln_error err = {0};
    return kiln_context_open(options, true, ret, &err) ? kiln_context_note(&err) : 0;
}

void diffusionz_memory(const DiffusionZContext *ctx, uint64_t *ret_tensors, uint64_t *ret_device)
{
    struct kt_memory m = {0};
    if (ctx)
        (void)kt_memory_of(ctx->engine->device, &m);
    *ret_tensors = m.used;
    *ret_device = m.taken;
}

static int check_given(const DiffusionZContext *ctx, const DiffusionZBatch *batch,
                       const DiffusionZOutput *outputs, struct kiln_error *err)
{
    const char *missing = !ctx       ? "context is"
                          : !batch   ? "batch is"
                          : !outputs ? "outputs are"
                                     : NULL;
    return missing ? kiln_fail(err, KILN_BAD_INPUT, "the %s NULL", missing) : 0;
}

int32_t diffusionz_begin_batch(DiffusionZContext *ctx, const DiffusionZBatch *batch,
                               DiffusionZOutput *outputs, DiffusionZRun **ret)
{
    struct kiln_error err = {0};
    int code = check_given(ctx, batch, outputs, &err);
    if (!code && !ret)
        code = kiln_fail(&err, KILN_BAD_INPUT, "the place for the run is NULL");
    code = code ? code : kiln_context_begin(ctx, batch, outputs, ret, &err);
    return code ? kiln_context_note(&err) : 0;
}

int32_t diffusionz_finish_batch(DiffusionZRun *run, DiffusionZTimes *ret_times)
{
    struct kiln_error err = {0};
    int code = run ? kiln_engine_finish(run, ret_times, &err)
                   : kiln_fail(&err, KILN_BAD_INPUT, "the run is NULL");
    return code ? kiln_context_note(&err) : 0;
}

int32_t diffusionz_run_batch(DiffusionZContext *ctx, const DiffusionZBatch *batch,
                             DiffusionZOutput *outputs, DiffusionZTimes *ret_times)
{
    struct kiln_error err = {0};
    int code = check_given(ctx, batch, outputs, &err);
    code = code ? code : kiln_context_run(ctx, batch, outputs, ret_times, &err);
    return code ? kiln_context_note(&err) : 0;
}

int32_t diffusionz_forwards(const DiffusionZContext *ctx, const DiffusionZBatch *batch)
{
    return ctx && batch ? kiln_engine_forwards(ctx->engine, batch) : 0;
}

double diffusionz_start_sigma(const DiffusionZContext *ctx, const DiffusionZBatch *batch)
{
    return ctx && batch ? kiln_engine_start_sigma(ctx->engine, batch) : 0;
}

/* The LoRA set that the batch will load first. */
static void prefetch_loras(DiffusionZContext *ctx, const DiffusionZBatch *next)
{
    struct kiln_lora_use uses[KILN_LORA_STACK_MAX];
    pthread_mutex_lock(&ctx->under_lock);
    const struct kiln_lora_use under = {ctx->under_path, ctx->under_weight};
    const size_t count =
        kiln_engine_first_loras(ctx->engine, next, ctx->under_path ? &under : NULL, uses);
    if (count > 0)
        kiln_loras_prefetch(ctx->engine->sets[0].loras, uses, count);
    pthread_mutex_unlock(&ctx->under_lock);
}

int32_t diffusionz_prefetch(DiffusionZContext *ctx, const DiffusionZBatch *next)
{
    struct kiln_error err = {0};
    if (!ctx || !next)
        kiln_fail(&err, KILN_BAD_INPUT, "the %s NULL", ctx ? "batch is" : "context is");
    if (err.code || kiln_engine_check(ctx->engine, next, &err))
        return kiln_context_note(&err);
    prefetch_loras(ctx, next);
    kiln_text_prefetch_add(&ctx->engine->prefetch, next);
    return 0;
}

void diffusionz_trim(DiffusionZContext *ctx)
{
    if (ctx && ctx->engine->device == KT_CPU)
        kt_device_trim(KT_CPU);
}

void diffusionz_release_outputs(DiffusionZOutput *outputs, int32_t count)
{
    if (outputs)
        kiln_outputs_release(outputs, count);
}

const char *diffusionz_model_hash(const DiffusionZContext *ctx)
{
    return ctx ? ctx->engine->hash : "";
}

const char *diffusionz_model_name(const DiffusionZContext *ctx)
{
    return ctx ? ctx->engine->name : "";
}

int32_t diffusionz_dtype(const DiffusionZContext *ctx)
{
    if (!ctx)
        return DIFFUSIONZ_AUTO;
    return ctx->engine->e4m3               ? DIFFUSIONZ_FP8
           : ctx->engine->dtype == KT_BF16 ? DIFFUSIONZ_BF16
                                           : DIFFUSIONZ_FP32;
}

void diffusionz_latent_shape(const DiffusionZContext *ctx, int32_t *ret_channels,
                             int32_t *ret_factor)
{
    *ret_channels = ctx ? ctx->engine->config.vae.latent_channels : 0;
    *ret_factor = ctx ? ctx->engine->config.vae.factor : 0;
}

const char *diffusionz_note(const DiffusionZContext *ctx)
{
    return ctx ? ctx->engine->note : "";
}

int32_t diffusionz_open_tokenizer(const char *model_path, DiffusionZTokenizer **ret)
{
    struct kiln_error err = {0};
    char dir[PATH_MAX];
    if (!model_path || !ret)
        kiln_fail(&err, KILN_BAD_INPUT, "an argument is NULL");
    else if (snprintf(dir, sizeof dir, "%s/tokenizer", model_path) >= (int)sizeof dir)
        kiln_fail(&err, KILN_BAD_INPUT, "the model path is longer than %d bytes", PATH_MAX);
    else
        (void)!kiln_tokenizer_open(dir, ret, &err);
    return err.code ? kiln_context_note(&err) : 0;
}

void diffusionz_free_tokenizer(DiffusionZTokenizer *tokenizer)
{
    kiln_tokenizer_free(tokenizer);
}

int32_t diffusionz_tokenize(const DiffusionZTokenizer *tokenizer, const char *text, size_t len,
                            int32_t raw, int32_t **ret_ids, size_t *ret_count)
{
    struct kiln_error err = {0};
    if (!tokenizer || !text || !ret_ids || !ret_count)
        kiln_fail(&err, KILN_BAD_INPUT, "an argument is NULL");
    else
        (void)!kiln_tokenizer_encode(tokenizer, text, len, raw != 0, ret_ids, ret_count, &err);
    return err.code ? kiln_context_note(&err) : 0;
}

void diffusionz_free_ids(int32_t *ids)
{
    free(ids);
}
