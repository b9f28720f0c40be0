/* test_variety.c - noise on the features of prompts: its rule against plain C, and that it changes
 * only the pictures that ask for it. */
#include <math.h>

#include "pipeline/engine/parts.h"
#include "pipeline/text/variety.h"
#include "tests/pipeline/one_context.h"

#define SIDE 64
#define STEPS 4 /* at sigmas 1, 0.9, 0.75, 0.5 */
#define VALUES (16 * (SIDE / 8) * (SIDE / 8))
#define TOKENS_MAX 64
#define WIDTH_MAX 64

static const DiffusionZItem items[4] = {
    {.prompt = "a star", .seed = 1},
    {.prompt = "a star", .seed = 2, .variety = 0.4},
    {.prompt = "a much longer prompt with many words, so that its tokens need more than one "
               "multiple of thirty-two rows in the joint sequence of the transformer",
     .seed = 3,
     .variety = 1},
    {.prompt = "a star", .seed = 4},
};

static DiffusionZBatch batch_of(const DiffusionZItem *some, int count)
{
    return (DiffusionZBatch){
        .items = some, .item_count = count, .width = SIDE, .height = SIDE, .num_steps = STEPS};
}

/* Of one item; the caller releases it. */
static DiffusionZOutput run_one(const DiffusionZItem *item, DiffusionZBatch batch)
{
    DiffusionZOutput out;
    batch.items = item;
    batch.item_count = 1;
    if (diffusionz_run_batch(ctx, &batch, &out, NULL) || out.error_code)
        fail_msg("%s", out.error_code ? out.error_msg : diffusionz_last_error());
    return out;
}

static bool same_latents(const DiffusionZOutput *a, const DiffusionZOutput *b)
{
    return memcmp(a->latent, b->latent, VALUES * sizeof(float)) == 0;
}

/* --- the rule --------------------------------------------------------------------------------- */

/* The noise of variety.h, in plain C. */
static void reference(const float *features, const float *normal, int rows, int width, int before,
                      int after, double *out)
{
    for (int c = 0; c < width; c++) {
        double sum = 0, squares = 0;
        for (int t = 1; t < rows; t++)
            sum += (double)features[t * width + c];
        const double mean = sum / (rows - 1);
        for (int t = 1; t < rows; t++)
            squares += pow((double)features[t * width + c] - mean, 2);
        const double deviation = sqrt(squares / (rows - 1));
        for (int t = 0; t < rows; t++) {
            const bool own = t >= before && t < rows - after;
            out[t * width + c] = own ? (double)normal[t * width + c] * deviation : 0;
        }
    }
}

static void check_noise(int rows, int width, int before, int after)
{
    static float features[TOKENS_MAX * WIDTH_MAX], normal[TOKENS_MAX * WIDTH_MAX],
        noise[TOKENS_MAX * WIDTH_MAX];
    static double expected[TOKENS_MAX * WIDTH_MAX];
    struct kt_scope *s = kt_scope_new(KT_CPU);
    struct kiln_error err;
    const int64_t shape[2] = {rows, width};
    const size_t count = (size_t)rows * (size_t)width;
    kt x = kt_affine(s, kt_randn(s, 7, 2, shape), 3, 0.5);
    kt_to_host_f32(s, x, features, count);
    kt_to_host_f32(s, kt_randn(s, kiln_variety_seed(11), 2, shape), normal, count);
    kt_to_host_f32(s, kiln_variety_noise(s, x, 11, (size_t)before, (size_t)after), noise, count);
    assert_int_equal(kt_scope_check(s, &err), 0);
    reference(features, normal, rows, width, before, after, expected);
    for (size_t i = 0; i < count; i++)
        assert_float_equal((double)noise[i], expected[i], 1e-4);
    kt_scope_free(s);
}

static void noise_is_that_of_plain_c(void **state)
{
    (void)state;
    check_noise(20, 48, 3, 5);
    check_noise(9, 64, 3, 5); /* one token of its own */
    check_noise(8, 16, 3, 5); /* an empty prompt */
    check_noise(6, 16, 3, 5); /* cut */
    check_noise(64, 64, 3, 5);
}

static void seeds_and_weights_are_as_documented(void **state)
{
    (void)state;
    /* printf 'kiln variety\0%s' 42 | sha256sum | head -c 16 */
    assert_true(kiln_variety_seed(42) == UINT64_C(0x3894f8706819bdbc));
    assert_true(kiln_variety_seed(1) != kiln_variety_seed(2));
    const double most = KILN_VARIETY_DEVIATIONS, last = KILN_VARIETY_SIGMA;
    assert_float_equal(kiln_variety_weight(1, 1), most, 1e-12);
    assert_float_equal(kiln_variety_weight(0.5, 1), most / 2, 1e-12);
    assert_float_equal(kiln_variety_weight(1, (1 + last) / 2), most / 2, 1e-12);
    assert_true(kiln_variety_weight(1, last) == 0 && kiln_variety_weight(1, 0.1) == 0);
    assert_true(kiln_variety_weight(0, 1) == 0);
}

static void the_template_around_a_prompt_is_counted(void **state)
{
    (void)state;
    size_t before, after, count;
    int32_t *ids;
    struct kiln_error err;
    const struct kiln_tokenizer *t = ctx->engine->tokenizer;
    assert_int_equal(kiln_tokenizer_turn(t, &before, &after, &err), 0);
    assert_int_equal(kiln_tokenizer_encode(t, "", 0, false, &ids, &count, &err), 0);
    assert_int_equal(before + after, count);
    free(ids);
}

/* --- pictures --------------------------------------------------------------------------------- */

static void each_item_is_as_it_would_be_alone(void **state)
{
    (void)state;
    for (int guided = 0; guided < 2; guided++) {
        DiffusionZOutput together[4];
        DiffusionZBatch b = batch_of(items, 4);
        b.guidance_scale = guided ? 3 : 0;
        for (int pass = 0; pass < 2; pass++) { /* with features from the cache, too */
            assert_int_equal(diffusionz_run_batch(ctx, &b, together, NULL), 0);
            for (int i = 0; i < 4; i++) {
                DiffusionZOutput alone = run_one(&items[i], b);
                assert_true(same_latents(&alone, &together[i]));
                diffusionz_release_outputs(&alone, 1);
            }
            diffusionz_release_outputs(together, 4);
        }
    }
}

static void it_changes_the_picture_and_nothing_at_zero(void **state)
{
    (void)state;
    static const double amounts[] = {0, 0.2, 0.2, 1};
    DiffusionZOutput out[4];
    for (int i = 0; i < 4; i++) {
        const DiffusionZItem item = {.prompt = "a star", .seed = 1, .variety = amounts[i]};
        out[i] = run_one(&item, batch_of(&item, 1));
    }
    DiffusionZOutput plain = run_one(&items[0], batch_of(items, 1));
    assert_true(same_latents(&plain, &out[0]));
    assert_false(same_latents(&out[0], &out[1]));
    assert_true(same_latents(&out[1], &out[2]));
    assert_false(same_latents(&out[1], &out[3]));
    diffusionz_release_outputs(out, 4);
    diffusionz_release_outputs(&plain, 1);
}

/* The steps from KILN_VARIETY_SIGMA down read the prompt as it is. */
static void a_run_that_begins_below_reads_the_prompt_as_it_is(void **state)
{
    (void)state;
    static float latent[VALUES];
    for (int i = 0; i < VALUES; i++)
        latent[i] = sinf((float)i);
    for (int high = 0; high < 2; high++) {
        DiffusionZItem item = {.prompt = "a star", .seed = 5, .start_latent = latent};
        DiffusionZBatch b = batch_of(&item, 1);
        b.start = DIFFUSIONZ_FROM_SIGMA;
        b.start_sigma = high ? 1 : KILN_VARIETY_SIGMA;
        DiffusionZOutput plain = run_one(&item, b);
        item.variety = 1;
        DiffusionZOutput varied = run_one(&item, b);
        assert_int_equal(same_latents(&plain, &varied), !high);
        diffusionz_release_outputs(&plain, 1);
        diffusionz_release_outputs(&varied, 1);
    }
}

/* In groups the captions of some items change and those of others stay. */
static void groups_mix_items_with_and_without(void **state)
{
    (void)state;
    const DiffusionZItem some[4] = {items[0], items[1], items[3], items[1]};
    const DiffusionZBatch b = batch_of(some, 4);
    DiffusionZOutput alone[4], together[4];
    assert_int_equal(diffusionz_run_batch(ctx, &b, alone, NULL), 0);
    ctx->engine->group_rows = 4 * 64;
    assert_int_equal(diffusionz_run_batch(ctx, &b, together, NULL), 0);
    ctx->engine->group_rows = 0;
    for (int i = 0; i < 4; i++) /* products of more rows may sum in another order on the CPU */
        for (int k = 0; k < VALUES; k++)
            assert_float_equal(together[i].latent[k], alone[i].latent[k], 1e-4);
    diffusionz_release_outputs(alone, 4);
    diffusionz_release_outputs(together, 4);
}

static void amounts_out_of_range_are_refused(void **state)
{
    (void)state;
    static const double bad[] = {-0.1, 1.1, NAN, INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const DiffusionZItem two[2] = {items[0], {.prompt = "a", .variety = bad[i]}};
        const DiffusionZBatch b = batch_of(two, 2);
        DiffusionZOutput out[2];
        assert_int_equal(diffusionz_run_batch(ctx, &b, out, NULL), KILN_BAD_INPUT);
        assert_non_null(strstr(diffusionz_last_error(), "item 1: variety"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_is_that_of_plain_c),
        cmocka_unit_test(seeds_and_weights_are_as_documented),
        cmocka_unit_test(the_template_around_a_prompt_is_counted),
        cmocka_unit_test(each_item_is_as_it_would_be_alone),
        cmocka_unit_test(it_changes_the_picture_and_nothing_at_zero),
        cmocka_unit_test(a_run_that_begins_below_reads_the_prompt_as_it_is),
        cmocka_unit_test(groups_mix_items_with_and_without),
        cmocka_unit_test(amounts_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
