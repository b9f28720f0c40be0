/* diffusionz_captions.c - see diffusionz_captions.h. */
#include "pipeline/diffusionz_captions.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/context.h"
#include "pipeline/model/config.h"
#include "pipeline/model/hash.h"
#include "pipeline/text/encoder.h"
#include "pipeline/text/tokenizer.h"

struct DiffusionZCaptions {
    pthread_mutex_t lock;
    struct kiln_tokenizer *tokenizer;
    struct kt_scope *weights;
    struct kiln_text_encoder *encoder;
    struct kiln_model_config config;
    size_t before, behind; /* tokens of the chat template around a text */
    int threads;
    char model[KILN_MODEL_HASH_LEN + 1];
};

/* How many tokens the template has on either side of a text: found with a text of one token, since
 * neither side depends on it. */
static int measure_template(DiffusionZCaptions *c, struct kiln_error *err)
{
    static const char probe[] = "a";
    int32_t *own = NULL, *whole = NULL;
    size_t own_count = 0, count = 0, at = 0;
    int rc = kiln_tokenizer_encode(c->tokenizer, probe, 1, true, &own, &own_count, err);
    rc = rc ? rc : kiln_tokenizer_encode(c->tokenizer, probe, 1, false, &whole, &count, err);
    while (!rc && at + own_count <= count && memcmp(whole + at, own, own_count * sizeof *own) != 0)
        at++;
    if (!rc && at + own_count > count)
        rc = kiln_fail(err, KILN_UNSUPPORTED,
                       "the chat template joins its tokens with those of the text");
    c->before = at;
    c->behind = rc ? 0 : count - at - own_count;
    free(own);
    free(whole);
    return rc;
}

static int load(DiffusionZCaptions *c, const char *dir, struct kiln_error *err)
{
    char path[PATH_MAX];
    if (strlen(dir) > PATH_MAX / 2)
        return kiln_fail(err, KILN_BAD_INPUT, "the model path is longer than %d bytes",
                         PATH_MAX / 2);
    int rc = kt_device_open(KT_CPU, err);
    rc = rc ? rc : kiln_model_config_read(dir, &c->config, err);
    rc = rc ? rc : kiln_model_hash(dir, c->model, err);
    snprintf(path, sizeof path, "%s/tokenizer", dir);
    rc = rc ? rc : kiln_tokenizer_open(path, &c->tokenizer, err);
    if (!rc && (!kiln_tokenizer_wraps(c->tokenizer) ||
                kiln_tokenizer_max_id(c->tokenizer) >= c->config.text.vocab))
        rc = kiln_fail(err, KILN_UNSUPPORTED, "%s does not fit the text encoder", path);
    rc = rc ? rc : measure_template(c, err);
    if (rc)
        return rc;
    kt_threads_set(c->threads);
    c->weights = kt_scope_new(KT_CPU);
    snprintf(path, sizeof path, "%s/text_encoder", dir);
    rc = kiln_text_encoder_load(path, &c->config.text, c->weights, KT_F32, NULL, &c->encoder, err);
    return rc ? rc : kt_scope_check(c->weights, err);
}

int32_t diffusionz_captions_open(const char *model_path, int32_t threads, DiffusionZCaptions **ret)
{
    struct kiln_error err = {0};
    DiffusionZCaptions *c = NULL;
    int rc = 0;
    if (!model_path || !ret || threads < 0)
        rc = kiln_fail(&err, KILN_BAD_INPUT, "an argument is NULL or negative");
    else if (!(c = calloc(1, sizeof *c)))
        rc = kiln_fail(&err, KILN_NO_MEMORY, "no memory for a text encoder");
    if (c) {
        pthread_mutex_init(&c->lock, NULL);
        c->threads = threads;
        rc = load(c, model_path, &err);
    }
    if (!rc) {
        *ret = c;
        return 0;
    }
    diffusionz_captions_free(c);
    return kiln_context_note(&err);
}

void diffusionz_captions_free(DiffusionZCaptions *c)
{
    if (!c)
        return;
    kiln_text_encoder_free(c->encoder);
    kt_scope_free(c->weights);
    kiln_tokenizer_free(c->tokenizer);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

int32_t diffusionz_captions_width(const DiffusionZCaptions *captions)
{
    return captions->config.text.width;
}

const char *diffusionz_captions_model(const DiffusionZCaptions *captions)
{
    return captions->model;
}

/* Features of ids [count], of which those of the text are copied. */
static int encode(DiffusionZCaptions *c, const int32_t *ids, size_t count, float *features,
                  int32_t tokens_max, int32_t *ret_tokens, struct kiln_error *err)
{
    const size_t width = (size_t)c->config.text.width;
    const size_t around = c->before + c->behind;
    size_t own = count > around ? count - around : 0;
    float *all = malloc((count + 1) * width * sizeof *all);
    if (!all)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %zu tokens", count);
    own = own < (size_t)tokens_max ? own : (size_t)tokens_max;
    pthread_mutex_lock(&c->lock);
    kt_threads_set(c->threads);
    struct kt_scope *s = kt_scope_new(KT_CPU);
    kt x = kiln_text_encoder_run(c->encoder, s, ids, count);
    kt_to_host_f32(s, x, all, count * width);
    int rc = kt_scope_check(s, err);
    kt_scope_free(s);
    pthread_mutex_unlock(&c->lock);
    if (!rc) {
        memcpy(features, all + c->before * width, own * width * sizeof *features);
        *ret_tokens = (int32_t)own;
    }
    free(all);
    return rc;
}

int32_t diffusionz_captions_encode(DiffusionZCaptions *captions, const char *text, size_t len,
                                   float *features, int32_t tokens_max, int32_t *ret_tokens)
{
    struct kiln_error err = {0};
    int32_t *ids = NULL;
    size_t count;
    int rc = 0;
    if (!captions || !text || !features || !ret_tokens || tokens_max < 0)
        rc = kiln_fail(&err, KILN_BAD_INPUT, "an argument is NULL or negative");
    else if (!(rc = kiln_tokenizer_encode(captions->tokenizer, text, len, false, &ids, &count,
                                          &err)))
        rc = encode(captions, ids, count, features, tokens_max, ret_tokens, &err);
    free(ids);
    return rc ? kiln_context_note(&err) : 0;
}
