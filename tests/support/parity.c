/* parity.c - the golden cases through the pipeline on a device, stage by stage; see parity.h. */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/engine/engine.h"
#include "pipeline/model/transformer_parts.h"
#include "storage/formats/safetensors.h"
#include "tests/support/measure.h"
#include "tests/support/parity.h"

/* Of what is computed in host memory alone, whatever the device: noise and the schedule. */
#define HOST_LIMIT 1e-6

static const struct parity *limits;
static char golden[2048]; /* the folder tests/golden */

struct bench {
    const json_t *spec;
    struct kiln_st *st;
    struct kiln_engine *engine;
    struct kt_scope *scope;
    kt features, caption, noise; /* of the positive prompt */
};

static const char *text_of(const struct bench *b, const char *key)
{
    return json_string_value(json_object_get(b->spec, key));
}

static int int_of(const struct bench *b, const char *key)
{
    return (int)json_integer_value(json_object_get(b->spec, key));
}

static void check_scope(const struct bench *b)
{
    struct kiln_error err;
    if (kt_scope_check(b->scope, &err))
        fail_msg("%s", err.text);
}

/* --- comparing -------------------------------------------------------------------------------- */

static const struct kiln_st_tensor *reference(const struct bench *b, const char *name)
{
    const struct kiln_st_tensor *t = kiln_st_find(b->st, name);
    if (!t)
        fail_msg("the case has no tensor %s", name);
    return t;
}

/* Prints and checks the largest error of `count` values, and their error as a whole. */
static void compare_to(const struct bench *b, const char *stage, const float *got,
                       const float *want, size_t count, double limit)
{
    double error = 0, scale = 0, error2 = 0, want2 = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)got[i] - (double)want[i];
        error = test_worse(error, fabs(d));
        scale = fmax(scale, fabs((double)want[i]));
        error2 += d * d;
        want2 += (double)want[i] * (double)want[i];
    }
    double norm = want2 > 0 ? sqrt(error2 / want2) : 0;
    printf("%-24s %-22s max %.2e of %.3g  relative %.2e\n", text_of(b, "name"), stage,
           scale > 0 ? error / scale : error, scale, norm);
    if (!(error <= limit * scale))
        fail_msg("%s: max error %g, limit %g", stage, error, limit * scale);
    if (!(norm <= limit))
        fail_msg("%s: relative error %g, limit %g", stage, norm, limit);
}

static void compare(const struct bench *b, const char *stage, const float *got, const float *want,
                    size_t count)
{
    compare_to(b, stage, got, want, count, limits->stage);
}

static void compare_tensor_to(const struct bench *b, const char *stage, kt got, double limit)
{
    const struct kiln_st_tensor *want = reference(b, stage);
    assert_int_equal(want->dtype, KILN_ST_F32);
    size_t count = want->size / sizeof(float);
    float *host = malloc(count * sizeof *host);
    kt_to_host_f32(b->scope, got, host, count);
    check_scope(b);
    compare_to(b, stage, host, want->data, count, limit);
    free(host);
}

static void compare_tensor(const struct bench *b, const char *stage, kt got)
{
    compare_tensor_to(b, stage, got, limits->stage);
}

static void compare_picture(const struct bench *b, const uint8_t *got)
{
    const struct kiln_st_tensor *want = reference(b, "image");
    const uint8_t *bytes = want->data;
    size_t off = 0;
    int worst = 0;
    for (size_t i = 0; i < want->size; i++) {
        int d = abs(got[i] - bytes[i]);
        worst = d > worst ? d : worst;
        off += d > limits->levels;
    }
    printf("%-24s %-22s %zu of %zu off by more than %d, worst %d\n", text_of(b, "name"), "image",
           off, want->size, limits->levels, worst);
    assert_true((double)off <= (1 - PARITY_PIXEL_SHARE) * (double)want->size);
}

/* --- stages ----------------------------------------------------------------------------------- */

static kt check_text(const struct bench *b, const char *prompt, const char *ids_name,
                     const char *features_name)
{
    const struct kiln_st_tensor *want = reference(b, ids_name);
    struct kiln_error err;
    int32_t *ids;
    size_t count;
    if (kiln_tokenizer_encode(b->engine->tokenizer, prompt, strlen(prompt), false, &ids, &count,
                              &err))
        fail_msg("%s", err.text);
    assert_int_equal(count, want->size / sizeof *ids);
    assert_memory_equal(ids, want->data, want->size);
    kt features = kiln_text_encoder_run(b->engine->text_encoder, b->scope, ids, count);
    compare_tensor(b, features_name, features);
    free(ids);
    return features;
}

/* Rows on their way from block to block, without their tails. */
static void compare_stream(const struct bench *b, const char *name, kt x)
{
    compare_tensor(b, name, kt_narrow(b->scope, x, 1, 0, b->engine->config.transformer.width));
}

/* The model's output in the latent's shape: a step of stride -1 from zero. */
static kt output_of(const struct bench *b, const struct kiln_forward *forward)
{
    const struct kiln_transformer *t = b->engine->sets[0].transformer;
    const int64_t shape[3] = {kt_size(b->noise, 0), kt_size(b->noise, 1), kt_size(b->noise, 2)};
    const struct kt_euler_step step = {
        .latent = kt_zeros(b->scope, KT_F32, 3, shape),
        .with = kiln_transformer_run(t, b->scope, forward),
        .stride = kt_from_host(b->scope, (float[]){-1}, KT_F32, KT_F32, 1, (int64_t[]){1}),
        .patch = t->config.patch};
    kt_euler_step(b->scope, &step);
    return step.latent;
}

/* The sigmas that the case lists, in place of the scheduler's. */
static const double *listed_of(const struct bench *b, double sigmas[KILN_STEPS_MAX])
{
    const json_t *list = json_object_get(b->spec, "listed");
    for (size_t i = 0; i < json_array_size(list); i++)
        sigmas[i] = json_number_value(json_array_get(list, i));
    return list ? sigmas : NULL;
}

static void check_first_step(const struct bench *b, const struct kiln_schedule *schedule)
{
    const struct kiln_transformer *t = b->engine->sets[0].transformer;
    int64_t p = t->config.patch, h = kt_size(b->noise, 1) / p, w = kt_size(b->noise, 2) / p;
    kt times = kiln_time_table(t, b->scope, schedule->times, schedule->steps);
    const struct kiln_forward forward = {.items = 1,
                                         .latent = b->noise,
                                         .caption = b->caption,
                                         .modulation = kt_narrow(b->scope, times, 0, 0, 1),
                                         .rope = kiln_rope_joint(b->scope, &t->config, h, w,
                                                                 kiln_pad_rows(h * w),
                                                                 kt_size(b->caption, 0))};
    compare_stream(b, "image_tokens", kiln_image_tokens(t, b->scope, &forward));
    compare_tensor(b, "model_output", output_of(b, &forward));
}

static void check_decoded(const struct bench *b, const float *latent)
{
    const struct kiln_vae_config *c = &b->engine->config.vae;
    if (!kiln_st_find(b->st, "decoded"))
        return;
    const int64_t shape[3] = {c->latent_channels, int_of(b, "height") / c->factor,
                              int_of(b, "width") / c->factor};
    kt z = kt_from_host(b->scope, latent, KT_F32, KT_F32, 3, shape);
    compare_tensor(b, "decoded", kiln_vae_decode(b->engine->vae, b->scope, z));
}

/* The whole run through the engine, as a worker calls it: every latent and the picture. */
static void check_run(const struct bench *b, const DiffusionZLora *loras, int lora_count)
{
    int steps = int_of(b, "steps");
    double sigmas[KILN_STEPS_MAX];
    struct kiln_error err;
    const DiffusionZItem item = {
        .prompt = text_of(b, "prompt"),
        .negative_prompt = text_of(b, "negative_prompt"),
        .seed = (uint64_t)json_integer_value(json_object_get(b->spec, "seed"))};
    const DiffusionZBatch batch = {
        .items = &item,
        .item_count = 1,
        .width = int_of(b, "width"),
        .height = int_of(b, "height"),
        .num_steps = steps,
        .guidance_scale = (float)json_number_value(json_object_get(b->spec, "guidance")),
        .loras = loras,
        .lora_count = lora_count,
        .keep_trajectory = 1,
        .sigmas = listed_of(b, sigmas)};
    DiffusionZOutput out;
    b->engine->renewed = json_number_value(json_object_get(b->spec, "noise"));
    if (kiln_engine_run(b->engine, &batch, NULL, &out, NULL, &err))
        fail_msg("%s", err.text);
    if (out.error_code)
        fail_msg("%s", out.error_msg);
    const float *want = reference(b, "latents")->data;
    size_t n = reference(b, "noise")->size / sizeof *want;
    compare_to(b, "noise (trajectory)", out.trajectory, reference(b, "noise")->data, n, HOST_LIMIT);
    if (steps > 1) /* the state entering step i is the latent after step i-1 */
        compare(b, "latents", out.trajectory + n, want, n * (size_t)(steps - 1));
    compare(b, "final latent", out.latent, want + n * (size_t)(steps - 1), n);
    check_decoded(b, want + n * (size_t)(steps - 1));
    compare_picture(b, out.rgb);
    diffusionz_release_outputs(&out, 1);
}

static void check_encoder(const struct bench *b)
{
    const struct kiln_st_tensor *picture = kiln_st_find(b->st, "picture");
    struct kiln_error err;
    if (!picture)
        return;
    if (kiln_vae_need_encoder(b->engine->vae, &err))
        fail_msg("%s", err.text);
    kt rgb = kt_from_host(b->scope, picture->data, KT_U8, KT_U8, 3, picture->shape);
    kt x = kt_of_rgb8(b->scope, rgb, picture->shape[0], picture->shape[1]);
    compare_tensor_to(b, "picture_latent", kiln_vae_encode(b->engine->vae, b->scope, x),
                      limits->encoder);
}

/* --- cases ------------------------------------------------------------------------------------ */

static struct kiln_engine *engine_of(const char *model)
{
    static char last[256]; /* "": none */
    static struct kiln_engine *engine;
    char dir[4096];
    struct kiln_error err;
    if (engine && model && strcmp(model, last) == 0)
        return engine;
    kiln_engine_close(engine);
    engine = NULL;
    if (!model)
        return NULL;
    snprintf(last, sizeof last, "%s", model);
    snprintf(dir, sizeof dir, "%s/%s", golden, model);
    const DiffusionZOptions options = {
        .model_path = dir, .device_id = limits->device, .dtype = limits->dtype};
    if (kiln_engine_open(&options, false, &engine, &err))
        fail_msg("%s", err.text);
    return engine;
}

static int read_loras(const struct bench *b, DiffusionZLora *loras, char paths[][4096])
{
    const json_t *list = json_object_get(b->spec, "loras");
    int count = (int)json_array_size(list);
    assert_true(count <= KILN_LORAS_MAX);
    for (int i = 0; i < count; i++) {
        const json_t *lora = json_array_get(list, (size_t)i);
        snprintf(paths[i], 4096, "%s/%s", golden, json_string_value(json_object_get(lora, "file")));
        loras[i].path = paths[i];
        loras[i].weight = (float)json_number_value(json_object_get(lora, "scale"));
    }
    return count;
}

static void run_case(void **state)
{
    struct bench b = {.spec = *state};
    struct kiln_error err;
    char path[4096], lora_paths[KILN_LORAS_MAX][4096];
    DiffusionZLora loras[KILN_LORAS_MAX];
    struct kiln_lora_use uses[KILN_LORAS_MAX];
    snprintf(path, sizeof path, "%s/%s", golden, text_of(&b, "vectors"));
    if (kiln_st_open(path, &b.st, &err))
        fail_msg("%s", err.text);
    b.engine = engine_of(text_of(&b, "model"));
    b.scope = kt_scope_new(limits->device);
    int lora_count = read_loras(&b, loras, lora_paths);
    for (int i = 0; i < lora_count; i++)
        uses[i] = (struct kiln_lora_use){loras[i].path, loras[i].weight};
    if (kiln_engine_loras(&b.engine->sets[0], uses, (size_t)lora_count, &err))
        fail_msg("%s", err.text);

    b.features = check_text(&b, text_of(&b, "prompt"), "token_ids", "text_features");
    if (kiln_st_find(b.st, "negative_token_ids"))
        check_text(&b, text_of(&b, "negative_prompt"), "negative_token_ids",
                   "negative_text_features");
    b.caption = kiln_caption(b.engine->sets[0].transformer, b.scope, b.features);
    compare_stream(&b, "refined_caption", b.caption);
    const struct kiln_st_tensor *noise = reference(&b, "noise");
    b.noise = kt_randn(b.scope, (uint64_t)json_integer_value(json_object_get(b.spec, "seed")), 3,
                       noise->shape);
    compare_tensor(&b, "noise", b.noise);
    struct kiln_schedule schedule;
    double sigmas[KILN_STEPS_MAX];
    const double *listed = listed_of(&b, sigmas);
    if (listed)
        kiln_schedule_list(&schedule, &b.engine->config.sampler, listed, int_of(&b, "steps"));
    else
        kiln_schedule_fill(&schedule, &b.engine->config.sampler, int_of(&b, "steps"));
    compare_to(&b, "sigmas", schedule.sigmas, reference(&b, "sigmas")->data,
               (size_t)schedule.steps + 1, HOST_LIMIT);
    check_first_step(&b, &schedule);
    check_run(&b, loras, lora_count);
    check_encoder(&b);
    kt_scope_free(b.scope);
    kiln_st_close(b.st);
}

int parity_run(const char *group, const struct parity *asked)
{
    const char *source = getenv("KILN_SOURCE");
    char path[4096];
    limits = asked;
    snprintf(golden, sizeof golden, "%s/tests/golden", source ? source : ".");
    snprintf(path, sizeof path, "%s/cases.json", golden);
    json_t *root = json_load_file(path, 0, NULL), *cases = json_object_get(root, "cases");
    size_t count = json_array_size(cases);
    struct CMUnitTest *tests = calloc(count + 1, sizeof *tests);
    if (count == 0 || !tests) {
        fprintf(stderr, "%s: no cases\n", path);
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        json_t *spec = json_array_get(cases, i);
        tests[i] = (struct CMUnitTest){json_string_value(json_object_get(spec, "name")), run_case,
                                       NULL, NULL, spec};
    }
    int failed = _cmocka_run_group_tests(group, tests, count, NULL, NULL);
    engine_of(NULL);
    free(tests);
    json_decref(root);
    return failed;
}
