/* diffusionz_c_api.c - the published C ABI over the engine.
 *
 * A context is an engine, the LoRA that lies under its calls, and a lock: calls on one context
 * queue up (the end of one beside the beginning of the next), two contexts run side by side.
 * Nothing that a caller can pass crashes; every failure leaves a sentence, in the result or in
 * diffusionz_last_error().
 */
#include "pipeline/diffusionz_c_api.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/context.h"
#include "storage/webp.h"

#define WEBP_QUALITY 85.0f
#define WEBP_METHOD 4

DiffusionZContext *diffusionz_init(const char *model_path, int32_t device_id)
{
    DiffusionZOptions options = {.model_path = model_path, .device_id = device_id};
    DiffusionZContext *ctx = NULL;
    return diffusionz_open(&options, &ctx) == 0 ? ctx : NULL;
}

void diffusionz_free(DiffusionZContext *ctx)
{
    if (!ctx)
        return;
    kiln_engine_close(ctx->engine);
    pthread_mutex_destroy(&ctx->lock);
    pthread_mutex_destroy(&ctx->under_lock);
    free(ctx->under_path);
    free(ctx);
}

/* The picture of one item as WebP bytes in result. */
static int draw(DiffusionZContext *ctx, const DiffusionZParams *p, DiffusionZResult *result,
                struct kiln_error *err)
{
    const DiffusionZItem item = {
        .prompt = p->prompt, .negative_prompt = p->negative_prompt, .seed = (uint64_t)p->seed};
    const DiffusionZLora lora = {.path = p->lora_path, .weight = p->lora_weight};
    const DiffusionZBatch batch = {.items = &item,
                                   .item_count = 1,
                                   .width = p->width,
                                   .height = p->height,
                                   .num_steps = p->num_steps,
                                   .guidance_scale = p->guidance_scale,
                                   .loras = &lora,
                                   .lora_count = p->lora_path ? 1 : 0};
    DiffusionZOutput out = {0};
    int code = kiln_context_run(ctx, &batch, &out, NULL, err);
    if (!code && out.error_code)
        code = kiln_fail(err, out.error_code, "%s",
                         out.error_msg ? out.error_msg : "the picture failed");
    const struct kiln_webp_options webp = {.quality = WEBP_QUALITY, .method = WEBP_METHOD};
    if (!code)
        code = kiln_webp_encode(out.rgb, (uint32_t)p->width, (uint32_t)p->height, &webp,
                                &result->image_data, &result->image_len, err);
    diffusionz_release_outputs(&out, 1);
    return code;
}

DiffusionZResult *diffusionz_generate(DiffusionZContext *ctx, const DiffusionZParams *params)
{
    DiffusionZResult *result = calloc(1, sizeof *result);
    struct kiln_error err = {0};
    int code;
    if (!result)
        return NULL;
    if (!ctx)
        code = kiln_fail(&err, KILN_BAD_INPUT, "the context is NULL");
    else if (!params)
        code = kiln_fail(&err, KILN_BAD_INPUT, "the parameters are NULL");
    else
        code = draw(ctx, params, result, &err);
    if (code) {
        kiln_context_note(&err);
        result->error_code = code;
        result->error_msg = strdup(err.text);
    } else {
        result->width = params->width;
        result->height = params->height;
    }
    return result;
}

void diffusionz_free_result(DiffusionZResult *result)
{
    if (!result)
        return;
    free(result->image_data);
    free(result->error_msg);
    free(result);
}

/* Later calls look at the file again, wherever the process is by then.  Links stay links. */
static char *from_root(const char *path)
{
    char here[PATH_MAX], whole[2 * PATH_MAX];
    if (path[0] == '/' || !getcwd(here, sizeof here))
        return strdup(path);
    snprintf(whole, sizeof whole, "%s/%.*s", here, PATH_MAX - 1, path);
    return strdup(whole);
}

/* Takes over path, which may be NULL. */
static void set_under(DiffusionZContext *ctx, char *path, float weight)
{
    pthread_mutex_lock(&ctx->under_lock);
    free(ctx->under_path);
    ctx->under_path = path;
    ctx->under_weight = weight;
    pthread_mutex_unlock(&ctx->under_lock);
}

int32_t diffusionz_load_lora(DiffusionZContext *ctx, const char *path, float weight)
{
    struct kiln_error err = {0};
    if (!ctx || !path) {
        kiln_fail(&err, KILN_BAD_INPUT, "the %s is NULL", ctx ? "path of the LoRA" : "context");
        return kiln_context_note(&err);
    }
    char *copy = from_root(path);
    if (!copy) {
        kiln_fail(&err, KILN_NO_MEMORY, "no memory for the path of a LoRA");
        return kiln_context_note(&err);
    }
    const struct kiln_lora_use use = {.path = copy, .weight = weight};
    pthread_mutex_lock(&ctx->lock);
    int code = kiln_engine_loras(ctx->engine, &use, 1, &err);
    if (!code)
        set_under(ctx, copy, weight);
    pthread_mutex_unlock(&ctx->lock);
    if (code)
        free(copy);
    return code ? kiln_context_note(&err) : 0;
}

int32_t diffusionz_unload_lora(DiffusionZContext *ctx)
{
    struct kiln_error err = {0};
    if (!ctx) {
        kiln_fail(&err, KILN_BAD_INPUT, "the context is NULL");
        return kiln_context_note(&err);
    }
    pthread_mutex_lock(&ctx->lock);
    int code = kiln_engine_loras(ctx->engine, NULL, 0, &err);
    set_under(ctx, NULL, 0);
    pthread_mutex_unlock(&ctx->lock);
    return code ? kiln_context_note(&err) : 0;
}
