/* diffusionz_c_api.h - the published C ABI: one prompt in, one WebP picture out.
 *
 *     DiffusionZContext *ctx = diffusionz_init("models/sketch", -1);
 *     DiffusionZParams p = {.prompt = "a red star", .width = 512, .height = 512,
 *                           .num_steps = 8, .seed = 42};
 *     DiffusionZResult r = diffusionz_generate(ctx, &p);
 *     if (r.error_code == 0) fwrite(r.image_data, 1, (size_t)r.image_len, file);
 *     else                   fprintf(stderr, "%s\n", r.error_msg);
 *     diffusionz_free_result(&r);
 *     diffusionz_free(ctx);
 *
 * Synchronous, no callbacks.  One init, many calls.  Any thread may use a context, several at once
 * too: calls on one context wait for each other, two contexts run side by side.  Only
 * diffusionz_free must be the last call, with no other one running.  The library frees the memory
 * that it returns.  Programs in other languages are written against this header, so it never
 * changes (tests/pipeline/test_abi_layout.c); what batches need is in diffusionz_batch.h.
 */
#ifndef DIFFUSIONZ_C_API_H
#define DIFFUSIONZ_C_API_H

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

typedef struct {
    uint8_t *image_data;   /* WebP bytes, NULL on failure */
    int32_t image_len;     /* how many */
    int32_t width, height; /* of the picture, 0 on failure */
    int32_t error_code;    /* 0 on success, else enum kiln_code (schemas/error.h) */
    const char *error_msg; /* NULL on success, never NULL on failure */
} DiffusionZResult;

/* Loads the model directory (diffusers layout).  device_id -1 is the CPU, N is cuda:N.
 * NULL on failure: diffusionz_last_error() of diffusionz_batch.h says why. */
DIFFUSIONZ_API DiffusionZContext *diffusionz_init(const char *model_path, int device_id);
DIFFUSIONZ_API void diffusionz_free(DiffusionZContext *ctx); /* accepts NULL */

/* Renders one picture.  Every failure, a NULL argument too, is in the result.  Hand the result to
 * diffusionz_free_result whether or not it failed. */
DIFFUSIONZ_API DiffusionZResult diffusionz_generate(DiffusionZContext *ctx,
                                                    const DiffusionZParams *params);
/* Frees what the result points to and sets the whole result to zero, so a second call is harmless.
 * Accepts NULL. */
DIFFUSIONZ_API void diffusionz_free_result(DiffusionZResult *result);

/* Puts a LoRA under every later call of this context, replacing an earlier one.  0, or a code;
 * the context is then as it was before. */
DIFFUSIONZ_API int32_t diffusionz_load_lora(DiffusionZContext *ctx, const char *lora_path,
                                            float weight);
DIFFUSIONZ_API int32_t diffusionz_unload_lora(DiffusionZContext *ctx);

#ifdef __cplusplus
}
#endif
#endif
