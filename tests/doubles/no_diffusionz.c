/* no_diffusionz.c - libdiffusionz where LibTorch is not: every call is refused.
 *
 * Sanitizer builds cannot link LibTorch; the worker then draws test cards alone, and asking it
 * for the model is an answer, not a link error.
 */
#include <stdio.h>

#include "pipeline/diffusionz_batch.h"

#include "schemas/error.h"

static const char reason[] = "built without LibTorch";

const char *diffusionz_last_error(void)
{
    return reason;
}

DiffusionZContext *diffusionz_init(const char *model_path, int device_id)
{
    (void)model_path;
    (void)device_id;
    return NULL;
}

void diffusionz_free(DiffusionZContext *ctx)
{
    (void)ctx;
}

DiffusionZResult diffusionz_generate(DiffusionZContext *ctx, const DiffusionZParams *params)
{
    (void)ctx;
    (void)params;
    return (DiffusionZResult){.error_code = KILN_UNSUPPORTED, .error_msg = reason};
}

void diffusionz_free_result(DiffusionZResult *result)
{
    if (result)
        *result = (DiffusionZResult){0};
}

int32_t diffusionz_load_lora(DiffusionZContext *ctx, const char *lora_path, float weight)
{
    (void)ctx;
    (void)lora_path;
    (void)weight;
    return KILN_UNSUPPORTED;
}

int32_t diffusionz_unload_lora(DiffusionZContext *ctx)
{
    (void)ctx;
    return KILN_UNSUPPORTED;
}

int32_t diffusionz_open(const DiffusionZOptions *options, DiffusionZContext **ret)
{
    (void)options;
    (void)ret;
    return KILN_UNSUPPORTED;
}

int32_t diffusionz_run_batch(DiffusionZContext *ctx, const DiffusionZBatch *batch,
                             DiffusionZOutput *outputs, DiffusionZTimes *ret_times)
{
    (void)ctx;
    (void)batch;
    (void)outputs;
    (void)ret_times;
    return KILN_UNSUPPORTED;
}

int32_t diffusionz_begin_batch(DiffusionZContext *ctx, const DiffusionZBatch *batch,
                               DiffusionZOutput *outputs, DiffusionZRun **ret)
{
    (void)ctx;
    (void)batch;
    (void)outputs;
    (void)ret;
    return KILN_UNSUPPORTED;
}

int32_t diffusionz_finish_batch(DiffusionZRun *run, DiffusionZTimes *ret_times)
{
    (void)run;
    (void)ret_times;
    return KILN_UNSUPPORTED;
}

int32_t diffusionz_forwards(const DiffusionZContext *ctx, const DiffusionZBatch *batch)
{
    (void)ctx;
    (void)batch;
    return 0;
}

double diffusionz_start_sigma(const DiffusionZContext *ctx, const DiffusionZBatch *batch)
{
    (void)ctx;
    (void)batch;
    return 0;
}

int32_t diffusionz_patience(int32_t seconds)
{
    static int32_t now = 600;
    const int32_t before = now;
    now = seconds;
    return before;
}

void diffusionz_watch(DiffusionZWatch *watch, void *arg)
{
    (void)watch;
    (void)arg;
}

const char *diffusionz_note(const DiffusionZContext *ctx)
{
    (void)ctx;
    return "";
}

int32_t diffusionz_prefetch(DiffusionZContext *ctx, const DiffusionZBatch *next)
{
    (void)ctx;
    (void)next;
    return KILN_UNSUPPORTED;
}

void diffusionz_trim(DiffusionZContext *ctx)
{
    (void)ctx;
}

void diffusionz_release_outputs(DiffusionZOutput *outputs, int32_t count)
{
    (void)outputs;
    (void)count;
}

const char *diffusionz_model_hash(const DiffusionZContext *ctx)
{
    (void)ctx;
    return "";
}

int32_t diffusionz_dtype(const DiffusionZContext *ctx)
{
    (void)ctx;
    return DIFFUSIONZ_FP32;
}

const char *diffusionz_model_name(const DiffusionZContext *ctx)
{
    (void)ctx;
    return "";
}

void diffusionz_latent_shape(const DiffusionZContext *ctx, int32_t *ret_channels,
                             int32_t *ret_factor)
{
    (void)ctx;
    *ret_channels = *ret_factor = 0;
}

int32_t diffusionz_open_tokenizer(const char *model_path, DiffusionZTokenizer **ret)
{
    (void)model_path;
    (void)ret;
    return KILN_UNSUPPORTED;
}

void diffusionz_free_tokenizer(DiffusionZTokenizer *tokenizer)
{
    (void)tokenizer;
}

int32_t diffusionz_tokenize(const DiffusionZTokenizer *tokenizer, const char *text, size_t len,
                            int32_t raw, int32_t **ret_ids, size_t *ret_count)
{
    (void)tokenizer;
    (void)text;
    (void)len;
    (void)raw;
    (void)ret_ids;
    (void)ret_count;
    return KILN_UNSUPPORTED;
}

void diffusionz_free_ids(int32_t *ids)
{
    (void)ids;
}

int32_t diffusionz_open_random(const DiffusionZOptions *options, DiffusionZContext **ret)
{
    (void)options;
    (void)ret;
    return KILN_UNSUPPORTED;
}

void diffusionz_memory(const DiffusionZContext *ctx, uint64_t *ret_tensors, uint64_t *ret_device)
{
    (void)ctx;
    *ret_tensors = *ret_device = 0;
}

void diffusionz_describe(char *text, size_t size)
{
    snprintf(text, size, "no engine");
}
