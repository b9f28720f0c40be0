/* stages.c - see stages.h.
 *
 * Forwards and whole images go through kiln_engine_run, like the pictures of a queue, so that the
 * figures include all that makes it fast.  The text encoder and the decoder are called alone,
 * because within a batch they overlap with other work.
 */
#include "pipeline/bench/stages.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/bench/roofline.h"
#include "pipeline/context.h"
#include "pipeline/torch/async.h"
#include "pipeline/torch/load.h"
#include "schemas/clock.h"

#define SEED 1

/* A case that is being timed. */
struct bench {
    struct kiln_engine *e;
    const struct kiln_stage_case *args;
    struct kiln_stage_times *times;
    char prompts[KILN_ASSIGN_MAX][KILN_PROMPT_MAX + 1];
    DiffusionZItem items[KILN_ASSIGN_MAX];
    DiffusionZOutput outputs[KILN_ASSIGN_MAX];
    DiffusionZBatch batch;
    float *latent; /* from which whole images begin; NULL: from noise */
    float *output;
    size_t output_count;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values. */
static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* --- prompts ---------------------------------------------------------------------------------- */

#define LETTERS 26

/* Words of one letter each.  Some tokenizers make one token of a word, others two.  The last word's
 * letter is `further` places on in the alphabet. */
static void write_words(char *prompt, int words, int item, int further)
{
    int n = words < 1 ? 1 : words;
    n = n < KILN_PROMPT_MAX / 2 ? n : KILN_PROMPT_MAX / 2;
    for (int i = 0; i < n; i++) {
        prompt[2 * i] = (char)('a' + item % LETTERS);
        prompt[2 * i + 1] = i + 1 < n ? ' ' : '\0';
    }
    prompt[2 * (n - 1)] = (char)('a' + (item + further) % LETTERS);
}

/* Writes a prompt of such words with the number of tokens that the case needs.  Bisects the number
 * of words: more words have more tokens.  If a letter is two tokens, a last word of one token makes
 * an odd number. */
static int write_prompt(struct bench *b, int item, struct kiln_error *err)
{
    const int tokens = b->args->tokens;
    char *prompt = b->prompts[item];
    for (int further = 0; further < LETTERS; further++)
        for (int least = 1, most = tokens; least <= most;) {
            const int words = least + (most - least) / 2;
            int32_t *ids;
            size_t count;
            write_words(prompt, words, item, further);
            int code = kiln_tokenizer_encode(b->e->tokenizer, prompt, strlen(prompt), false, &ids,
                                             &count, err);
            if (code)
                return code;
            free(ids);
            if ((int)count == tokens)
                return 0;
            if ((int)count < tokens)
                least = words + 1;
            else
                most = words - 1;
        }
    return kiln_fail(err, KILN_BAD_INPUT,
                     "tokens %d: this tokenizer makes no prompt of that length", tokens);
}

/* --- through the engine ----------------------------------------------------------------------- */

/* Runs the batch; the failure of an item is the failure of the batch. */
static int run_batch(struct bench *b, DiffusionZTimes *times, struct kiln_error *err)
{
    int code = kiln_engine_run(b->e, &b->batch, NULL, b->outputs, times, err);
    for (int i = 0; !code && i < b->batch.item_count; i++)
        if (b->outputs[i].error_code)
            code = kiln_fail(err, b->outputs[i].error_code, "%s",
                             b->outputs[i].error_msg ? b->outputs[i].error_msg : "an item failed");
    return code;
}

/* With one step the latent is the noise plus the model's output, so the difference is the output.
 */
static int keep_output(struct bench *b, struct kiln_error *err)
{
    const DiffusionZOutput *out = &b->outputs[0];
    const int64_t shape[3] = {out->latent_channels, out->latent_height, out->latent_width};
    b->output_count = (size_t)(shape[0] * shape[1] * shape[2]);
    b->output = malloc(b->output_count * sizeof *b->output);
    if (!b->output)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the model's output");
    struct kt_scope *s = kt_scope_new(KT_CPU);
    kt_to_host_f32(s, kt_randn(s, b->items[0].seed, 3, shape), b->output, b->output_count);
    int code = kt_scope_check(s, err);
    kt_scope_free(s);
    for (size_t i = 0; i < b->output_count; i++)
        b->output[i] = out->latent[i] - b->output[i];
    return code;
}

static int time_forward(struct bench *b, struct kiln_error *err)
{
    double values[KILN_STAGE_RUNS_MAX];
    DiffusionZTimes times = {0};
    b->batch.num_steps = 1;
    b->batch.skip_decode = 1;
    for (int i = -b->args->warmups; i < b->args->repeats; i++) {
        int code = run_batch(b, &times, err);
        if (!code && i == b->args->repeats - 1)
            code = keep_output(b, err);
        diffusionz_release_outputs(b->outputs, b->batch.item_count);
        if (code)
            return code;
        if (i >= 0)
            values[i] = times.denoise_ms / b->batch.item_count;
    }
    b->times->forward_ms = median(values, b->args->repeats);
    b->times->forward_best_ms = values[0];
    b->times->forward_worst_ms = values[b->args->repeats - 1];
    return 0;
}

void kiln_stage_batch(const struct kiln_stage_case *args, DiffusionZBatch *batch)
{
    batch->width = args->width;
    batch->height = args->height;
    batch->num_steps = args->num_steps;
    batch->sigmas = args->sigmas;
    batch->step_loras = args->step_loras;
    batch->step_lora_count = args->step_lora_count;
    batch->step_transformers = args->step_transformers;
    batch->step_transformer_count = args->step_transformer_count;
    if (args->coarse_steps == 0)
        return;
    batch->start = DIFFUSIONZ_FROM_SIGMA;
    batch->start_sigma = args->coarse_sigma;
    batch->rest_steps = args->rest_steps;
    batch->coarse_steps = args->coarse_steps;
    batch->coarse_width = args->coarse_width;
    batch->coarse_height = args->coarse_height;
    batch->middle_steps = args->middle_steps;
    batch->middle_width = args->middle_width;
    batch->middle_height = args->middle_height;
}

/* All begin from one latent of random values: what they cost does not depend on what is in it. */
static int start_from_latent(struct bench *b, struct kiln_error *err)
{
    const struct kiln_vae_config *c = &b->e->config.vae;
    const int64_t shape[3] = {c->latent_channels, b->args->height / c->factor,
                              b->args->width / c->factor};
    const size_t count = (size_t)(shape[0] * shape[1] * shape[2]);
    b->latent = malloc(count * sizeof *b->latent);
    if (!b->latent)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a latent");
    struct kt_scope *s = kt_scope_new(KT_CPU);
    kt_to_host_f32(s, kt_randn(s, SEED, 3, shape), b->latent, count);
    int code = kt_scope_check(s, err);
    kt_scope_free(s);
    for (int i = 0; i < b->batch.item_count; i++)
        b->items[i].start_latent = b->latent;
    b->batch.start = DIFFUSIONZ_FROM_STEP;
    b->batch.start_step = b->args->skip_steps;
    return code;
}

static int time_images(struct bench *b, struct kiln_error *err)
{
    double values[KILN_STAGE_RUNS_MAX], steps[KILN_STAGE_RUNS_MAX], overs[KILN_STAGE_RUNS_MAX];
    kiln_stage_batch(b->args, &b->batch);
    b->batch.skip_decode = 0;
    if (b->args->skip_steps) {
        int code = start_from_latent(b, err);
        if (code)
            return code;
    }
    const int forwards = kiln_engine_forwards(b->e, &b->batch);
    for (int i = -1; i < b->args->image_repeats; i++) {
        DiffusionZTimes times = {0};
        kiln_feature_cache_clear(b->e->features);
        double start = kiln_monotonic_ms();
        int code = run_batch(b, &times, err);
        double end = kiln_monotonic_ms();
        const double over = kt_span_take(b->e->hand_over);
        diffusionz_release_outputs(b->outputs, b->batch.item_count);
        if (code)
            return code;
        if (i < 0)
            continue;
        values[i] = (end - start) / b->batch.item_count;
        overs[i] = over > 0 ? over : 0;
        steps[i] = times.denoise_ms / b->batch.item_count / forwards;
    }
    b->times->image_ms = median(values, b->args->image_repeats);
    b->times->step_ms = median(steps, b->args->image_repeats);
    b->times->hand_over_ms = median(overs, b->args->image_repeats);
    return 0;
}

static int time_image(struct bench *b, struct kiln_error *err)
{
    b->e->hand_over = kt_span_new(b->e->device);
    int code = time_images(b, err);
    kt_span_free(b->e->hand_over);
    b->e->hand_over = NULL;
    return code;
}

/* --- single stages -------------------------------------------------------------------------- */

/* Runs one stage in a scope; the result is not used. */
typedef kt stage_fn(const struct bench *b, struct kt_scope *s);

static kt run_text(const struct bench *b, struct kt_scope *s)
{
    int32_t ids[KILN_TOKENS_MAX];
    for (int i = 0; i < b->args->tokens; i++)
        ids[i] = (int32_t)((int64_t)i * 7919 % b->e->config.text.vocab);
    const struct kiln_prompt_ids prompt = {ids, (size_t)b->args->tokens};
    kt features;
    kiln_text_encoder_run_many(b->e->text_encoder, s, &prompt, 1, b->e->graphs, &features, NULL);
    return features;
}

static kt run_decode(const struct bench *b, struct kt_scope *s)
{
    const struct kiln_vae_config *c = &b->e->config.vae;
    const int64_t shape[3] = {c->latent_channels, b->args->height / c->factor,
                              b->args->width / c->factor};
    kt latent = kt_normal(s, SEED, 0, 1, KT_F32, 3, shape);
    return kiln_vae_decode(b->e->vae, s, latent);
}

static int run_stage(const struct bench *b, stage_fn *stage, bool side, double *ret_ms,
                     struct kiln_error *err)
{
    struct kt_scope *base = kt_scope_new(b->e->device);
    struct kt_scope *s = side ? kt_scope_side(base) : kt_scope_child(base);
    double start = kiln_monotonic_ms();
    (void)stage(b, s);
    kt_wait(s);
    *ret_ms = kiln_monotonic_ms() - start;
    int code = kt_scope_check(s, err);
    kt_scope_free(s);
    kt_scope_free(base);
    return code;
}

/* side: in the stream and the memory in which the engine runs the stage.  If memory is short the
 * engine drops its graphs, and so does this. */
static int time_stage(const struct bench *b, stage_fn *stage, bool side, double *ret_ms,
                      struct kiln_error *err)
{
    double values[KILN_STAGE_RUNS_MAX], ms = 0;
    for (int i = -b->args->warmups; i < b->args->repeats; i++) {
        int code = run_stage(b, stage, side, &ms, err);
        if (code == KILN_NO_MEMORY) {
            kiln_graph_cache_drop_graphs(b->e->graphs);
            kt_device_trim(b->e->device);
            code = run_stage(b, stage, side, &ms, err);
        }
        if (code)
            return code;
        if (i >= 0)
            values[i] = ms;
    }
    *ret_ms = median(values, b->args->repeats);
    return 0;
}

/* --- the case --------------------------------------------------------------------------------- */

static int check_case(const struct kiln_stage_case *a, struct kiln_error *err)
{
    if (a->item_count < 1 || a->item_count > KILN_ASSIGN_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "a batch has 1 to %d items, this one %d",
                         KILN_ASSIGN_MAX, a->item_count);
    if (a->repeats < 1 || a->repeats > KILN_STAGE_RUNS_MAX || a->image_repeats < 1 ||
        a->image_repeats > KILN_STAGE_RUNS_MAX || a->warmups < 0 ||
        a->warmups > KILN_STAGE_RUNS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "a stage is run 1 to %d times", KILN_STAGE_RUNS_MAX);
    if (a->tokens < KILN_STAGE_TOKENS_MIN || a->tokens > KILN_TOKENS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "tokens %d: a prompt has %d to %d", a->tokens,
                         KILN_STAGE_TOKENS_MIN, KILN_TOKENS_MAX);
    return 0;
}

static int run_case(struct bench *b, struct kiln_error *err)
{
    const struct kiln_stage_case *a = b->args;
    const struct kiln_model_config *c = &b->e->config;
    int code = check_case(a, err);
    for (int i = 0; i < a->item_count && !code; i++) {
        b->items[i] = (DiffusionZItem){.prompt = b->prompts[i], .seed = SEED + (uint64_t)i};
        code = write_prompt(b, i, err);
    }
    if (code)
        return code;
    b->batch = (DiffusionZBatch){
        .items = b->items, .item_count = a->item_count, .width = a->width, .height = a->height};
    kt_threads_set(b->e->threads);
    /* Memory that only the case before needed is not this one's. */
    kiln_graph_cache_clear(b->e->graphs);
    kt_device_trim(b->e->device);
    kt_memory_reset_peak(b->e->device);
    const struct kiln_forward_size size = kiln_forward_size(c, a->width, a->height, a->tokens);
    b->times->flops = kiln_forward_flops(&c->transformer, size);
    b->times->ceiling_ms = kiln_forward_ceiling_ms(&c->transformer, size, b->e->e4m3);
    if (a->stages & KILN_STAGE_FORWARD)
        code = time_forward(b, err);
    if (!code && a->stages & KILN_STAGE_TEXT)
        code = time_stage(b, run_text, false, &b->times->text_ms, err);
    if (!code && a->stages & KILN_STAGE_DECODE)
        code = time_stage(b, run_decode, true, &b->times->decode_ms, err);
    if (!code && a->stages & KILN_STAGE_IMAGE)
        code = time_image(b, err);
    struct kt_memory m;
    if (kt_memory_of(b->e->device, &m)) {
        b->times->peak_tensors = m.peak_used;
        /* What is taken now, with the peak of our own memory in place of its present size. */
        b->times->peak_device = m.taken - m.held + m.peak_held;
    }
    return code;
}

int kiln_stages_time(DiffusionZContext *ctx, const struct kiln_stage_case *args,
                     struct kiln_stage_times *ret, float **ret_output, size_t *ret_count,
                     struct kiln_error *err)
{
    struct bench *b = calloc(1, sizeof *b);
    if (!b)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a benchmark");
    *ret = (struct kiln_stage_times){0};
    b->e = ctx->engine, b->args = args, b->times = ret;
    pthread_mutex_lock(&ctx->lock);
    int code = run_case(b, err);
    pthread_mutex_unlock(&ctx->lock);
    if (!code && ret_output) {
        *ret_output = b->output;
        *ret_count = b->output_count;
        b->output = NULL;
    }
    free(b->output);
    free(b->latent);
    free(b);
    return code;
}
