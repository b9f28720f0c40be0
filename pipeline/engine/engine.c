/* engine.c - loads a model directory; see engine.h. */
#include "pipeline/engine/engine.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/weights/fp8_cache.h"
#include "pipeline/weights/loading.h"

#define THREADS_MAX 1024 /* of the CPU; the first large product would start them all */

/* The device is open.  Without products of quantised rows, fp8 would be slower than bf16. */
static int choose_dtype(struct kiln_engine *e, const DiffusionZOptions *o, struct kiln_error *err)
{
    if (o->dtype < DIFFUSIONZ_AUTO || o->dtype > DIFFUSIONZ_FP8)
        return kiln_fail(err, KILN_BAD_INPUT, "dtype %d: there is no such dtype", o->dtype);
    e->e4m3 = o->dtype == DIFFUSIONZ_FP8;
    if (e->e4m3 && e->device == KT_CPU)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "dtype fp8 is not available on the CPU; use fp32 or bf16");
    if (e->e4m3 && !kt_device_likes_e4m3(e->device))
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "dtype fp8 needs a GPU of compute capability 8.9 or later, which cuda:%d "
                         "is not; use bf16",
                         e->device);
    const bool slow_bf16 = e->device == KT_CPU && !kt_cpu_likes_bf16();
    e->dtype = o->dtype == DIFFUSIONZ_FP32 || (o->dtype == DIFFUSIONZ_AUTO && slow_bf16) ? KT_F32
                                                                                         : KT_BF16;
    return 0;
}

/* DIR/name, written to path; NULL for random weights. */
static const char *weights_in(char path[PATH_MAX], const char *dir, const char *name, bool random)
{
    snprintf(path, PATH_MAX, "%s/%s", dir, name);
    return random ? NULL : path;
}

/* Of the quantised matrices of all transformers and the text encoder. */
static struct kiln_fp8_cache *open_cache(const struct kiln_engine *e, const char *dir)
{
    const char *folders[KILN_WEIGHT_SETS_MAX + 1] = {"transformer", "text_encoder"};
    for (int i = 1; i < e->set_count; i++)
        folders[i + 1] = e->sets[i].folder;
    return kiln_fp8_cache_open(dir, folders, (size_t)e->set_count + 1, e->device,
                               KILN_FP8_CACHE_WORTH);
}

static int load_parts(struct kiln_engine *e, const char *dir, bool random, struct kiln_error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/tokenizer", dir);
    kiln_loading_note(path, 0, 0);
    int code = kiln_tokenizer_open(path, &e->tokenizer, err);
    if (!code && !kiln_tokenizer_wraps(e->tokenizer))
        code =
            kiln_fail(err, KILN_UNSUPPORTED,
                      "%s: the tokenizer lacks the tokens of the chat template, <|im_start|> and "
                      "<|im_end|>",
                      path);
    if (!code && kiln_tokenizer_max_id(e->tokenizer) >= e->config.text.vocab)
        code = kiln_fail(err, KILN_BAD_INPUT,
                         "%s: the tokenizer has ids up to %d, but "
                         "text_encoder/config.json has vocab_size %d",
                         dir, kiln_tokenizer_max_id(e->tokenizer), e->config.text.vocab);
    if (code)
        return code;
    const enum kt_dtype matrices = e->e4m3 ? KT_E4M3 : e->dtype;
    struct kiln_fp8_cache *cache = e->e4m3 && !random ? open_cache(e, dir) : NULL;
    code = kiln_text_encoder_load(weights_in(path, dir, "text_encoder", random), &e->config.text,
                                  e->weights, matrices, cache, &e->text_encoder, err);
    if (!code)
        code = kiln_engine_sets_load(e, dir, random, matrices, cache, err);
    kiln_fp8_cache_close(cache, code == 0, e->note, sizeof e->note);
    if (!code)
        code = kiln_vae_load(weights_in(path, dir, "vae", random), &e->config.vae, e->weights,
                             e->dtype, &e->vae, err);
    kt_device_trim(e->device); /* what tensors were packed or converted from */
    return code;
}

static int load(struct kiln_engine *e, const DiffusionZOptions *o, bool random,
                struct kiln_error *err)
{
    if (!o->model_path || !*o->model_path)
        return kiln_fail(err, KILN_BAD_INPUT, "no model path was given");
    if (strlen(o->model_path) > PATH_MAX / 2)
        return kiln_fail(err, KILN_BAD_INPUT, "the model path is longer than %d bytes",
                         PATH_MAX / 2);
    if (o->threads < 0 || o->threads > THREADS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "threads %d: must be 1 to %d, or 0 for all cores",
                         o->threads, THREADS_MAX);
    if (o->lora_way < DIFFUSIONZ_LORA_AUTO || o->lora_way > DIFFUSIONZ_LORA_BESIDE)
        return kiln_fail(err, KILN_BAD_INPUT, "lora_way %d: there is none of that number",
                         o->lora_way);
    e->device = o->device_id;
    kiln_loading_note_device(e->device);
    int code = kt_device_open(e->device, err);
    code = code ? code : choose_dtype(e, o, err);
    kiln_loading_note(o->model_path, 0, 0);
    code = code ? code : kiln_model_config_read(o->model_path, &e->config, err);
    code = code ? code : kiln_engine_sets_list(e, o->model_path, random, err);
    if (!code && !random)
        code = kiln_model_hash(o->model_path, e->hash, err);
    if (code)
        return code;
    e->threads = o->threads;
    e->random_weights = random;
    e->dir = strdup(o->model_path);
    kiln_model_name(o->model_path, e->name, sizeof e->name);
    kt_threads_set(e->threads);
    e->weights = kt_scope_new(e->device);
    e->features = kiln_feature_cache_new();
    e->graphs = kiln_graph_cache_new(e->device);
    e->clock = kt_clock_new(e->device);
    if (!e->dir || !e->weights || !e->features || !e->graphs || !e->clock)
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for the model", o->model_path);
    code = load_parts(e, o->model_path, random, err);
    if (code)
        return code;
    if (e->dtype == KT_BF16 && kt_packs(e->weights, e->config.transformer.head_dim))
        e->group_rows = KILN_GROUP_ROWS;
    code = kiln_engine_loras_open(e, err);
    for (int i = 0; i < e->set_count && !code && o->lora_way != DIFFUSIONZ_LORA_AUTO; i++)
        kiln_loras_mode(e->sets[i].loras, o->lora_way == DIFFUSIONZ_LORA_MERGED ? KILN_LORA_MERGED
                                                                                : KILN_LORA_BESIDE);
    return code;
}

int kiln_engine_open(const DiffusionZOptions *options, bool random_weights,
                     struct kiln_engine **ret, struct kiln_error *err)
{
    if (!options)
        return kiln_fail(err, KILN_BAD_INPUT, "no options were given");
    struct kiln_engine *e = calloc(1, sizeof *e);
    if (!e)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an engine");
    kiln_text_prefetch_init(&e->prefetch);
    int code = load(e, options, random_weights, err);
    if (code)
        kiln_engine_close(e);
    else
        *ret = e;
    return code;
}

void kiln_engine_close(struct kiln_engine *e)
{
    if (!e)
        return;
    kiln_graph_cache_free(e->graphs);
    kt_clock_free(e->clock);
    kiln_engine_sets_release(e);
    kiln_feature_cache_free(e->features);
    kiln_text_prefetch_release(&e->prefetch);
    kiln_vae_free(e->vae);
    kiln_text_encoder_free(e->text_encoder);
    kiln_tokenizer_free(e->tokenizer);
    kt_scope_free(e->weights);
    kt_device_trim(e->device);
    free(e->dir);
    free(e);
}
