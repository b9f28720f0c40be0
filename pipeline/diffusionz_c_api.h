/* diffusionz_c_api.h - the published C ABI: one prompt in, one WebP picture out.
 *
 *     DiffusionZContext *ctx = diffusionz_init("models/sketch", -1);
 *     DiffusionZParams p = {.prompt = "a red star", .width = 512, .height = 512,
 *                           .num_steps = 8, .seed = 42};
 *     DiffusionZResult *r = diffusionz_generate(ctx, &p);
 *     if (r->error_code == 0) fwrite(r->image_data, 1, r->image_len, file);
 *     else                    fprintf(stderr, "%s\n", r->error_msg);
 *     diffusionz_free_result(r);
 *     diffusionz_free(ctx);
 *
 * Synchronous, no callbacks.  One init, many calls.  A context may be used from any thread,
 * by one at a time (calls on one context queue up); two contexts run side by side.  Memory made
 * here is freed here.  This header never changes; what batches need is in diffusionz_batch.h.
 */
#ifndef DIFFUSIONZ_C_API_H
#define DIFFUSIONZ_C_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DIFFUSIONZ_API __attribute__((visibility("default")))
#else
#define DIFFUSIONZ_API
#endif

typedef struct DiffusionZContext DiffusionZContext;

typedef struct DiffusionZParams {
    const char *prompt;          /* UTF-8, required */
    const char *negative_prompt; /* NULL for none; used when guidance_scale > 0 */
    int32_t width, height;       /* pixels, multiples of 16, 64 .. 2048 */
    int32_t num_steps;           /* 1 .. 50; 8 for Turbo models */
    float guidance_scale;        /* 0 for Turbo models */
    int64_t seed;                /* noise of a CPU torch.Generator with this seed */
    const char *lora_path;       /* a safetensors file for this call alone; NULL for none */
    float lora_weight;           /* its strength */
} DiffusionZParams;

typedef struct DiffusionZResult {
    uint8_t *image_data; /* WebP bytes, NULL on failure */
    size_t image_len;
    int32_t width, height;
    int32_t error_code; /* 0 on success, else enum kiln_code (schemas/error.h) */
    char *error_msg;    /* NULL on success */
} DiffusionZResult;

/* Loads the model directory (diffusers layout).  device_id -1 is the CPU, N is cuda:N.
 * NULL on failure: diffusionz_last_error() of diffusionz_batch.h says why. */
DIFFUSIONZ_API DiffusionZContext *diffusionz_init(const char *model_path, int32_t device_id);
DIFFUSIONZ_API void diffusionz_free(DiffusionZContext *ctx); /* accepts NULL */

/* Never NULL unless memory is gone; failures are in the result.  Free it with
 * diffusionz_free_result, which accepts NULL. */
DIFFUSIONZ_API DiffusionZResult *diffusionz_generate(DiffusionZContext *ctx,
                                                     const DiffusionZParams *params);
DIFFUSIONZ_API void diffusionz_free_result(DiffusionZResult *result);

/* Puts a LoRA under every later call of this context, replacing an earlier one.  0, or a code;
 * the context is then as it was before. */
DIFFUSIONZ_API int32_t diffusionz_load_lora(DiffusionZContext *ctx, const char *path, float weight);
DIFFUSIONZ_API int32_t diffusionz_unload_lora(DiffusionZContext *ctx);

#ifdef __cplusplus
}
#endif
#endif
