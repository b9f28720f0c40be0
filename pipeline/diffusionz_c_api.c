/* diffusionz_c_api.c - the published C ABI over the engine.
 * Calls on one context wait for each other, except that the end of one overlaps the begin of the
 * next; two contexts run side by side.  No argument crashes the library.  Every failure leaves a
 * message, in the result or in diffusionz_last_error().
 */
#include "pipeline/diffusionz_c_api.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/context.h"
#include "storage/formats/pictures/webp.h"

#define WEBP_QUALITY 85.0f
#define WEBP_METHOD 4

/* error_msg if there is no memory for a copy of the text; never freed. */
static const char no_text[] = "out of memory while reporting a failure";

DiffusionZContext *diffusionz_init(const char *model_path, int device_id)
{
    DiffusionZOptions options = {.model_path = model_path, .device_id = device_id};
    DiffusionZContext *ctx = NULL;
    return diffusionz_open(&options, &ctx) == 0 ? ctx : NULL;
}

void diffusionz_free(DiffusionZContext *ctx)
{
    kiln_context_free(ctx);
}

int kiln_context_picture(DiffusionZResult *result, uint8_t *data, size_t size,
                         struct kiln_error *err)
{
    if (size > INT32_MAX) {
        free(data);
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "the picture has %zu bytes as WebP, more than the %d of a result", size,
                         INT32_MAX);
    }
    result->image_data = data;
    result->image_len = (int32_t)size;
    return 0;
}

/* Renders one picture; its WebP bytes go into result. */
static int render(DiffusionZContext *ctx, const DiffusionZParams *p, DiffusionZResult *result,
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
    uint8_t *data = NULL;
    size_t size = 0;
    int code = kiln_context_run(ctx, &batch, &out, NULL, err);
    if (!code && out.error_code)
        code = kiln_fail(err, out.error_code, "%s",
                         out.error_msg ? out.error_msg : "the picture failed");
    const struct kiln_webp_options webp = {.quality = WEBP_QUALITY, .method = WEBP_METHOD};
    if (!code)
        code = kiln_webp_encode(out.rgb, (uint32_t)p->width, (uint32_t)p->height, &webp, &data,
                                &size, err);
    diffusionz_release_outputs(&out, 1);
    return code ? code : kiln_context_picture(result, data, size, err);
}

DiffusionZResult diffusionz_generate(DiffusionZContext *ctx, const DiffusionZParams *params)
{
    DiffusionZResult result = {0};
    struct kiln_error err = {0};
    int code;
    if (!ctx)
        code = kiln_fail(&err, KILN_BAD_INPUT, "the context is NULL");
    else if (!params)
        code = kiln_fail(&err, KILN_BAD_INPUT, "the parameters are NULL");
    else
        code = render(ctx, params, &result, &err);
    if (code) {
        kiln_context_note(&err);
        const char *text = strdup(err.text);
        result.error_code = code;
        result.error_msg = text ? text : no_text;
    } else {
        result.width = params->width;
        result.height = params->height;
    }
    return result;
}

void diffusionz_free_result(DiffusionZResult *result)
{
    if (!result)
        return;
    free(result->image_data);
    if (result->error_msg != no_text)
        free((char *)result->error_msg); /* const for the callers; made above */
    *result = (DiffusionZResult){0};
}

/* An absolute path: later calls read the file again, maybe from another working directory. */
static int absolute_path(const char *path, char **ret, struct kiln_error *err)
{
    char here[PATH_MAX];
    const bool whole = path[0] == '/' || !getcwd(here, sizeof here);
    /* a truncated path could name another file */
    if (strlen(path) >= PATH_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "the path of the LoRA is too long: %zu bytes",
                         strlen(path));
    if (asprintf(ret, "%s%s%s", whole ? "" : here, whole ? "" : "/", path) >= 0)
        return 0;
    return kiln_fail(err, KILN_NO_MEMORY, "no memory for the path of a LoRA");
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

int32_t diffusionz_load_lora(DiffusionZContext *ctx, const char *lora_path, float weight)
{
    struct kiln_error err = {0};
    char *copy;
    if (!ctx || !lora_path)
        kiln_fail(&err, KILN_BAD_INPUT, "the %s is NULL", ctx ? "path of the LoRA" : "context");
    if (err.code || absolute_path(lora_path, &copy, &err))
        return kiln_context_note(&err);
    const struct kiln_lora_use use = {.path = copy, .weight = weight};
    pthread_mutex_lock(&ctx->lock);
    int code = kiln_engine_loras(&ctx->engine->sets[0], &use, 1, &err);
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
    int code = 0;
    for (int i = 0; i < ctx->engine->set_count && !code; i++)
        code = kiln_engine_loras(&ctx->engine->sets[i], NULL, 0, &err);
    set_under(ctx, NULL, 0);
    pthread_mutex_unlock(&ctx->lock);
    return code ? kiln_context_note(&err) : 0;
}
