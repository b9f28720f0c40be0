/* test_img2img.c - image to image and inpainting are those of diffusers: the picture's size, the
 * sample of its latent, the mask on the latent's grid, states and the final latent, on the CPU in
 * fp32 within 1e-4 of ZImageImg2ImgPipeline and ZImageInpaintPipeline.
 *
 * tests/golden/img2img, tests/golden/inpaint; scripts/golden_img2img.py, scripts/golden_inpaint.py.
 */
#include <jansson.h>

#include "schemas/job/mode.h"
#include "storage/formats/pictures/picture_mask.h"
#include "storage/formats/pictures/picture_resize.h"
#include "storage/formats/safetensors.h"
#include "tests/pipeline/abi.h"
#include "tests/support/measure.h"

#define LIMIT 1e-4

static const struct {
    const char *name;
    size_t cases_min;
} folders[] = {{"img2img", 14}, {"inpaint", 18}};

static struct kiln_st *st; /* of the folder whose cases run */
static const json_t *spec; /* of the case that runs */

static const char *text_of(const char *key)
{
    return json_string_value(json_object_get(spec, key));
}

static int int_of(const char *key)
{
    return (int)json_integer_value(json_object_get(spec, key));
}

static const struct kiln_st_tensor *vector(const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s/%s", text_of("name"), name);
    const struct kiln_st_tensor *t = kiln_st_find(st, full);
    if (!t)
        fail_msg("there is no tensor %s", full);
    return t;
}

/* Prints and checks the largest error and the error as a whole. */
static void compare(const char *stage, const float *got)
{
    const struct kiln_st_tensor *t = vector(stage);
    const float *want = t->data;
    double error = 0, scale = 0, error2 = 0, want2 = 0;
    for (size_t i = 0; i < t->size / sizeof *want; i++) {
        double d = (double)got[i] - (double)want[i];
        error = test_worse(error, fabs(d));
        scale = fmax(scale, fabs((double)want[i]));
        error2 += d * d;
        want2 += (double)want[i] * (double)want[i];
    }
    double norm = sqrt(error2 / want2);
    printf("%-16s %-16s max %.2e of %.3g  relative %.2e\n", text_of("name"), stage, error / scale,
           scale, norm);
    if (!(error <= LIMIT * scale && norm <= LIMIT))
        fail_msg("%s: max error %g of %g, relative %g", stage, error, scale, norm);
}

/* The case's picture as the job starts from it: a job without a size takes the picture's. */
static uint8_t *start_picture(void)
{
    const struct kiln_st_tensor *picture = vector("picture");
    const uint32_t width = (uint32_t)picture->shape[1], height = (uint32_t)picture->shape[0];
    uint32_t job_width = (uint32_t)int_of("width"), job_height = (uint32_t)int_of("height");
    struct kiln_error err;
    uint8_t *rgb = NULL;
    if (!json_is_true(json_object_get(spec, "sized"))) {
        kiln_picture_job_size(width, height, &job_width, &job_height);
        assert_int_equal(job_width, int_of("width"));
        assert_int_equal(job_height, int_of("height"));
    }
    if (kiln_picture_resize(picture->data, width, height, job_width, job_height, &rgb, &err))
        fail_msg("%s", err.text);
    return rgb;
}

/* What the encoder makes of the picture, with the first draw of the seed's generator. */
static void check_sample(DiffusionZContext *ctx, const uint8_t *rgb, uint64_t seed)
{
    const struct kiln_st_tensor *want = vector("picture_latent");
    const int64_t width = int_of("width"), height = int_of("height"), bytes = width * height * 3;
    struct kt_scope *s = kt_scope_new(KT_CPU);
    struct kiln_error err;
    float *got = malloc(want->size);
    assert_non_null(got);
    if (kiln_vae_need_encoder(ctx->engine->vae, &err))
        fail_msg("%s", err.text);
    kt picture = kt_of_rgb8(s, kt_from_host(s, rgb, KT_U8, KT_U8, 1, &bytes), height, width);
    kt noise = kt_randn(s, seed, 3, want->shape);
    kt_to_host_f32(s, kiln_vae_encode_sample(ctx->engine->vae, s, picture, noise), got,
                   want->size / sizeof *got);
    if (kt_scope_check(s, &err))
        fail_msg("%s", err.text);
    compare("picture_latent", got);
    free(got);
    kt_scope_free(s);
}

/* The mask of the case on the latent's grid, which must be that of diffusers; NULL: it has none. */
static float *start_mask(void)
{
    char full[128];
    snprintf(full, sizeof full, "%s/mask", text_of("name"));
    const struct kiln_st_tensor *mask = kiln_st_find(st, full);
    if (!mask)
        return NULL;
    const struct kiln_st_tensor *grid = vector("grid");
    const uint32_t height = (uint32_t)mask->shape[0], width = (uint32_t)mask->shape[1];
    const uint8_t *values = mask->data, *want = grid->data;
    const bool grey = mask->ndim == 2;
    struct kiln_error err;
    uint8_t *rgb = malloc((size_t)width * height * 3);
    float *got;
    assert_non_null(rgb);
    for (size_t i = 0; i < (size_t)width * height * 3; i++)
        rgb[i] = values[grey ? i / 3 : i];
    const struct kiln_picture_size job = {(uint32_t)int_of("width"), (uint32_t)int_of("height")};
    if (kiln_picture_mask(rgb, width, height, job, 8, &got, &err))
        fail_msg("%s", err.text);
    assert_int_equal(grid->size, int_of("width") / 8 * (int_of("height") / 8));
    for (size_t i = 0; i < grid->size; i++)
        if (got[i] != (float)want[i])
            fail_msg("%s: value %zu of the mask is %g", text_of("name"), i, (double)got[i]);
    free(rgb);
    return got;
}

static DiffusionZContext *context_of(const char *model)
{
    static char last[256];
    static DiffusionZContext *ctx;
    char path[4096];
    const char *source = getenv("KILN_SOURCE");
    if (ctx && model && strcmp(model, last) == 0)
        return ctx;
    diffusionz_free(ctx);
    ctx = NULL;
    if (!model)
        return NULL;
    snprintf(last, sizeof last, "%s", model);
    snprintf(path, sizeof path, "%s/%s", source ? source : ".", model);
    const DiffusionZOptions options = {
        .model_path = path, .device_id = -1, .dtype = DIFFUSIONZ_FP32};
    if (diffusionz_open(&options, &ctx))
        fail_msg("%s", diffusionz_last_error());
    return ctx;
}

static void run_case(void **state)
{
    spec = *state;
    DiffusionZContext *ctx = context_of(text_of("model"));
    const double strength = json_number_value(json_object_get(spec, "strength"));
    struct kiln_mode mode;
    assert_true(kiln_mode_of_strength(strength, (uint32_t)int_of("steps"), &mode));
    assert_int_equal(mode.step, int_of("start_step"));
    uint8_t *rgb = start_picture();
    float *mask = start_mask();
    const DiffusionZItem item = {.prompt = text_of("prompt"),
                                 .negative_prompt = text_of("negative_prompt"),
                                 .seed =
                                     (uint64_t)json_integer_value(json_object_get(spec, "seed")),
                                 .start_rgb = rgb,
                                 .start_mask = mask};
    const DiffusionZBatch batch = {.items = &item,
                                   .item_count = 1,
                                   .width = int_of("width"),
                                   .height = int_of("height"),
                                   .num_steps = int_of("steps"),
                                   .guidance_scale =
                                       (float)json_number_value(json_object_get(spec, "guidance")),
                                   .keep_trajectory = 1,
                                   .skip_decode = 1,
                                   .start = DIFFUSIONZ_FROM_STEP,
                                   .start_step = (int32_t)mode.step};
    DiffusionZOutput out = {0};
    DiffusionZTimes times;
    if (!mask)
        check_sample(ctx, rgb, item.seed);
    if (diffusionz_run_batch(ctx, &batch, &out, &times))
        fail_msg("%s", diffusionz_last_error());
    if (out.error_code)
        fail_msg("%s", out.error_msg);
    compare("first_state", out.trajectory);
    const int32_t values = out.latent_channels * out.latent_height * out.latent_width;
    if (mask && diffusionz_forwards(ctx, &batch) > 1)
        compare("second_state", out.trajectory + values);
    compare("final", out.latent);
    diffusionz_release_outputs(&out, 1);
    free(rgb);
    free(mask);
}

static int run_folder(const char *name, size_t cases_min)
{
    char path[128];
    struct kiln_error err;
    snprintf(path, sizeof path, "%s/cases.json", name);
    json_t *root = json_load_file(golden(path), 0, NULL);
    json_t *cases = json_object_get(root, "cases");
    const size_t count = json_array_size(cases);
    struct CMUnitTest *tests = calloc(count + 1, sizeof *tests);
    if (count < cases_min || !tests) {
        fprintf(stderr, "%s: %zu cases\n", golden(path), count);
        return 1;
    }
    snprintf(path, sizeof path, "%s/vectors.safetensors", name);
    if (kiln_st_open(golden(path), &st, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        json_t *one = json_array_get(cases, i);
        tests[i] = (struct CMUnitTest){json_string_value(json_object_get(one, "name")), run_case,
                                       NULL, NULL, one};
    }
    int failed = _cmocka_run_group_tests(name, tests, count, NULL, NULL);
    kiln_st_close(st);
    free(tests);
    json_decref(root);
    return failed;
}

int main(void)
{
    int failed = 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        failed += run_folder(folders[i].name, folders[i].cases_min);
    context_of(NULL);
    return failed;
}
