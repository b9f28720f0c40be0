/* context.c - a DiffusionZContext: an engine, the LoRA of diffusionz_load_lora, and locks; and each
 * thread's last error.  Shared by the files of the ABI. */
#include "pipeline/context.h"

#include <stdio.h>
#include <stdlib.h>

static _Thread_local char last_error[KILN_ERROR_TEXT_MAX];

int kiln_context_note(const struct kiln_error *err)
{
    snprintf(last_error, sizeof last_error, "%s", err->text);
    return err->code;
}

const char *kiln_context_last_error(void)
{
    return last_error;
}

void kiln_context_free(DiffusionZContext *ctx)
{
    if (!ctx)
        return;
    kiln_engine_close(ctx->engine);
    pthread_mutex_destroy(&ctx->lock);
    pthread_mutex_destroy(&ctx->under_lock);
    free(ctx->under_path);
    free(ctx);
}

int kiln_context_open(const DiffusionZOptions *options, bool random_weights,
                      DiffusionZContext **ret, struct kiln_error *err)
{
    if (!ret)
        return kiln_fail(err, KILN_BAD_INPUT, "ret is NULL: no place for the context");
    DiffusionZContext *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a context");
    pthread_mutex_init(&ctx->lock, NULL);
    pthread_mutex_init(&ctx->under_lock, NULL);
    int code = kiln_engine_open(options, random_weights, &ctx->engine, err);
    if (code)
        kiln_context_free(ctx);
    else
        *ret = ctx;
    return code;
}

int kiln_context_begin(DiffusionZContext *ctx, const DiffusionZBatch *batch,
                       DiffusionZOutput *outputs, struct kiln_run **ret, struct kiln_error *err)
{
    pthread_mutex_lock(&ctx->lock);
    const struct kiln_lora_use under = {ctx->under_path, ctx->under_weight};
    int code =
        kiln_engine_begin(ctx->engine, batch, ctx->under_path ? &under : NULL, outputs, ret, err);
    pthread_mutex_unlock(&ctx->lock);
    return code;
}

int kiln_context_run(DiffusionZContext *ctx, const DiffusionZBatch *batch,
                     DiffusionZOutput *outputs, DiffusionZTimes *ret_times, struct kiln_error *err)
{
    struct kiln_run *run;
    int code = kiln_context_begin(ctx, batch, outputs, &run, err);
    return code ? code : kiln_engine_finish_whole(run, ret_times, err);
}
