/* test_sigmas.c - runs through listed sigmas are those of diffusers with the same sigmas: the final
 * latent, on the CPU in fp32 within 1e-4.
 *
 * tests/golden/sigmas; scripts/golden_sigmas.py.
 */
#include <jansson.h>

#include "pipeline/model/sampler.h"
#include "storage/formats/safetensors.h"
#include "tests/pipeline/abi.h"
#include "tests/support/measure.h"

#define LIMIT 1e-4
#define CASES_MIN 5

static const char *text_of(const json_t *spec, const char *key)
{
    return json_string_value(json_object_get(spec, key));
}

static int int_of(const json_t *spec, const char *key)
{
    return (int)json_integer_value(json_object_get(spec, key));
}

static void check_case(struct kiln_st *st, const json_t *spec)
{
    char name[128], path[4096];
    double sigmas[KILN_STEPS_MAX];
    const json_t *list = json_object_get(spec, "sigmas");
    const int steps = (int)json_array_size(list);
    for (int i = 0; i < steps; i++)
        sigmas[i] = json_number_value(json_array_get(list, (size_t)i));
    const DiffusionZItem item = {.prompt = text_of(spec, "prompt"),
                                 .negative_prompt = text_of(spec, "negative_prompt"),
                                 .seed = (uint64_t)int_of(spec, "seed")};
    const DiffusionZBatch batch = {.items = &item,
                                   .item_count = 1,
                                   .width = int_of(spec, "width"),
                                   .height = int_of(spec, "height"),
                                   .num_steps = steps,
                                   .guidance_scale =
                                       (float)json_number_value(json_object_get(spec, "guidance")),
                                   .skip_decode = 1,
                                   .sigmas = sigmas};
    snprintf(path, sizeof path, "%s/../../%s", golden(""), text_of(spec, "model"));
    const DiffusionZOptions options = {
        .model_path = path, .device_id = -1, .dtype = DIFFUSIONZ_FP32};
    DiffusionZContext *ctx;
    DiffusionZOutput out;
    if (diffusionz_open(&options, &ctx) || diffusionz_run_batch(ctx, &batch, &out, NULL))
        fail_msg("%s", diffusionz_last_error());
    snprintf(name, sizeof name, "%s/final", text_of(spec, "name"));
    const struct kiln_st_tensor *t = kiln_st_find(st, name);
    assert_non_null(t);
    const float *want = t->data;
    double error = 0, scale = 0;
    for (size_t i = 0; i < t->size / sizeof *want; i++) {
        error = test_worse(error, fabs((double)out.latent[i] - (double)want[i]));
        scale = fmax(scale, fabs((double)want[i]));
    }
    printf("%-10s max %.2e of %.3g\n", text_of(spec, "name"), error / scale, scale);
    if (!(error <= LIMIT * scale))
        fail_msg("%s: error %g of %g", text_of(spec, "name"), error, scale);
    diffusionz_release_outputs(&out, 1);
    diffusionz_free(ctx);
}

static void runs_are_those_of_diffusers(void **state)
{
    (void)state;
    json_t *cases = json_load_file(golden("sigmas/cases.json"), 0, NULL);
    struct kiln_st *st;
    struct kiln_error err;
    if (kiln_st_open(golden("sigmas/vectors.safetensors"), &st, &err))
        fail_msg("%s", err.text);
    const json_t *list = json_object_get(cases, "cases");
    assert_true(json_array_size(list) >= CASES_MIN);
    for (size_t i = 0; i < json_array_size(list); i++)
        check_case(st, json_array_get(list, i));
    kiln_st_close(st);
    json_decref(cases);
}

/* --- around it -------------------------------------------------------------------------------- */

static DiffusionZOutput run(DiffusionZContext *ctx, const DiffusionZBatch *batch)
{
    DiffusionZOutput out;
    if (diffusionz_run_batch(ctx, batch, &out, NULL) || out.error_code)
        fail_msg("%s", diffusionz_last_error());
    return out;
}

static bool same(const DiffusionZOutput *a, const DiffusionZOutput *b)
{
    const size_t count =
        (size_t)(a->latent_channels * a->latent_height * a->latent_width) * sizeof(float);
    return memcmp(a->latent, b->latent, count) == 0;
}

/* Listed, the scheduler's own sigmas give the bits of an ordinary run, in every mode. */
static void the_usual_sigmas_listed_change_nothing(void **state)
{
    (void)state;
    DiffusionZContext *ctx = open_plain();
    const struct kiln_sampler_config *config = &ctx->engine->config.sampler;
    struct kiln_schedule usual;
    double sigmas[4];
    static float start[16 * 8 * 8];
    kiln_schedule_fill(&usual, config, 4);
    for (int i = 0; i < 4; i++)
        sigmas[i] = (double)usual.sigmas[i];
    for (int kind = 0; kind < 4; kind++) {
        DiffusionZItem item = {.prompt = "a star", .seed = 1};
        DiffusionZBatch b = {
            .items = &item, .item_count = 1, .width = 64, .height = 64, .num_steps = 4};
        if (kind == 1 || kind == 2) {
            item.start_latent = start;
            b.start = kind == 1 ? DIFFUSIONZ_FROM_STEP : DIFFUSIONZ_FROM_SIGMA;
            b.start_step = kind == 1 ? 2 : 0;
            b.start_sigma = kind == 1 ? 0 : 0.8;
        }
        if (kind == 3) {
            b.width = b.height = 128;
            b.coarse_steps = 2;
            b.coarse_width = b.coarse_height = 64;
            b.start = DIFFUSIONZ_FROM_SIGMA;
            b.start_sigma = 0.75;
            b.rest_steps = 2;
        }
        DiffusionZOutput plain = run(ctx, &b);
        const int forwards = diffusionz_forwards(ctx, &b);
        b.sigmas = sigmas;
        DiffusionZOutput listed = run(ctx, &b);
        assert_true(same(&plain, &listed));
        assert_int_equal(diffusionz_forwards(ctx, &b), forwards);
        diffusionz_release_outputs(&plain, 1);
        diffusionz_release_outputs(&listed, 1);
    }
    diffusionz_free(ctx);
}

static void other_lists_are_refused(void **state)
{
    (void)state;
    DiffusionZContext *ctx = open_plain();
    static const double bad[][3] = {{0.89, 0.5, 0.1}, {1.001, 0.5, 0.1}, {NAN, 0.5, 0.1},
                                    {1, 0.5, 0.5},    {1, 0.5, 0},       {1, 0.5, -0.1},
                                    {1, NAN, 0.1},    {1, 1.5, 0.5}};
    const DiffusionZItem item = {.prompt = "a star"};
    DiffusionZBatch b = {
        .items = &item, .item_count = 1, .width = 64, .height = 64, .num_steps = 3};
    DiffusionZOutput out;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        b.sigmas = bad[i];
        assert_int_equal(diffusionz_run_batch(ctx, &b, &out, NULL), KILN_BAD_INPUT);
        assert_non_null(strstr(diffusionz_last_error(), "sigma"));
        assert_int_equal(diffusionz_forwards(ctx, &b), 0);
    }
    diffusionz_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_those_of_diffusers),
        cmocka_unit_test(the_usual_sigmas_listed_change_nothing),
        cmocka_unit_test(other_lists_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
