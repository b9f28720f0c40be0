/* test_starts_cuda.c - runs that do not begin from noise, on cuda:0: from a latent or a picture at
 * a sigma, with a mask, with variety, coarse first, by difference, with steps that replace noise,
 * and with a second transformer.
 *
 * Recorded steps beside computed ones and an item among four beside the same alone are compared bit
 * by bit, in each number format; the device beside the CPU in fp32.
 */
#include <math.h>

#include "storage/formats/file_hash.h"
#include "tests/gpu/loop_rig.h"
#include "tests/support/files.h"
#include "tests/support/lora_rig.h"

#define SIDE 256
#define CELLS (SIDE / 8)
#define VALUES (16 * CELLS * CELLS)
#define ITEMS 4

/* What the items start from: latents of the model's own pictures, and one of these. */
static float latents[ITEMS][VALUES], mask[CELLS * CELLS];
static uint8_t picture[SIDE * SIDE * 3];

static const char *const prompts[ITEMS] = {"a red star", LONG_PROMPT, "a blue ring at night",
                                           "a red star"};

static double renewed; /* of the runs that follow, as kiln.json of a model says */

static void run_batch(DiffusionZContext *ctx, const DiffusionZBatch *b, DiffusionZOutput *out)
{
    ctx->engine->renewed = renewed;
    if (diffusionz_run_batch(ctx, b, out, NULL))
        fail_msg("%s", diffusionz_last_error());
    for (int i = 0; i < b->item_count; i++)
        if (out[i].error_code)
            fail_msg("item %d: %s", i, out[i].error_msg);
}

static int make_starts(void **state)
{
    (void)state;
    DiffusionZContext *ctx = open_model(sketch(), 0, DIFFUSIONZ_FP32);
    for (int i = 0; i < ITEMS; i++) {
        DiffusionZOutput out = draw(ctx, "a yellow circle", SIDE, STEPS, (uint64_t)i + 20);
        memcpy(latents[i], out.latent, sizeof latents[i]);
        memcpy(picture, out.rgb, sizeof picture);
        diffusionz_release_outputs(&out, 1);
    }
    diffusionz_free(ctx);
    for (int i = 0; i < CELLS * CELLS; i++) /* the right half anew, a soft edge between */
        mask[i] = i % CELLS < CELLS / 2 ? 0 : i % CELLS == CELLS / 2 ? 0.5f : 1;
    return 0;
}

/* --- the ways to begin ------------------------------------------------------------------------ */

struct way {
    const char *name;
    int start, start_step, rest_steps;
    double sigma;
    int coarse_skip; /* small steps that the latents stand for */
    bool from_picture, masked, varied, coarse, middle, edited;
    float guidance;
    double renewed; /* the share of its noise that each step replaces */
};

static const struct way ways[] = {
    {.name = "sigma", .start = DIFFUSIONZ_FROM_SIGMA, .sigma = 0.7},
    {.name = "sigma, 3 steps", .start = DIFFUSIONZ_FROM_SIGMA, .sigma = 0.75, .rest_steps = 3},
    {.name = "step", .start = DIFFUSIONZ_FROM_STEP, .start_step = 3},
    {.name = "step, guidance", .start = DIFFUSIONZ_FROM_STEP, .start_step = 5, .guidance = 2},
    {.name = "picture", .start = DIFFUSIONZ_FROM_STEP, .start_step = 4, .from_picture = true},
    {.name = "mask", .start = DIFFUSIONZ_FROM_STEP, .start_step = 2, .masked = true},
    {.name = "variety", .varied = true},
    {.name = "variety, step", .start = DIFFUSIONZ_FROM_STEP, .start_step = 1, .varied = true},
    {.name = "coarse 4+3",
     .start = DIFFUSIONZ_FROM_SIGMA,
     .sigma = 0.75,
     .rest_steps = 3,
     .coarse = true},
    {.name = "coarse 4+2 without its first 2 steps",
     .start = DIFFUSIONZ_FROM_SIGMA,
     .sigma = 0.75,
     .rest_steps = 2,
     .coarse = true,
     .coarse_skip = 2},
    {.name = "coarse 4+2, variety",
     .start = DIFFUSIONZ_FROM_SIGMA,
     .sigma = 0.75,
     .rest_steps = 2,
     .coarse = true,
     .varied = true},
    {.name = "coarse 3+1+2, variety",
     .start = DIFFUSIONZ_FROM_SIGMA,
     .sigma = 0.75,
     .rest_steps = 2,
     .coarse = true,
     .middle = true,
     .varied = true},
    {.name = "by difference", .start = DIFFUSIONZ_FROM_STEP, .start_step = 4, .edited = true},
    {.name = "new noise", .renewed = 1},
    {.name = "new noise, mask",
     .start = DIFFUSIONZ_FROM_STEP,
     .start_step = 2,
     .masked = true,
     .renewed = 0.8},
    {.name = "new noise, coarse 4+3",
     .start = DIFFUSIONZ_FROM_SIGMA,
     .sigma = 0.75,
     .rest_steps = 3,
     .coarse = true,
     .renewed = 1},
};
#define WAYS (sizeof ways / sizeof ways[0])

/* One item in two is what its way says; of masks and variety the others have none, so that groups
 * are mixed. */
static DiffusionZBatch batch_of(const struct way *way, DiffusionZItem items[ITEMS])
{
    renewed = way->renewed;
    const int small = way->middle ? SIDE / 4 : way->coarse ? SIDE / 2 : 0;
    for (int i = 0; i < ITEMS; i++) {
        const bool own =
            way->coarse_skip > 0 || (way->start != DIFFUSIONZ_FROM_NOISE && !way->coarse);
        items[i] = (DiffusionZItem){.prompt = prompts[i], .seed = (uint64_t)i + 1};
        if (own && way->from_picture && i % 2 == 0)
            items[i].start_rgb = picture;
        else if (own)
            items[i].start_latent = latents[i];
        if (way->masked && i % 2 == 0)
            items[i].start_mask = mask;
        if (way->varied && i % 2 == 0)
            items[i].variety = 0.5;
        if (way->edited)
            items[i].start_prompt = "a yellow circle";
    }
    return (DiffusionZBatch){.items = items,
                             .item_count = ITEMS,
                             .width = SIDE,
                             .height = SIDE,
                             .num_steps = STEPS,
                             .guidance_scale = way->guidance,
                             .start = way->start,
                             .start_step = way->start_step,
                             .start_sigma = way->sigma,
                             .rest_steps = way->rest_steps,
                             .coarse_steps = way->middle   ? 3
                                             : way->coarse ? 4
                                                           : 0,
                             .coarse_skip = way->coarse_skip,
                             .coarse_width = small,
                             .coarse_height = small,
                             .middle_steps = way->middle,
                             .middle_width = way->middle ? SIDE / 2 : 0,
                             .middle_height = way->middle ? SIDE / 2 : 0,
                             .by_difference = way->edited};
}

/* --- bit by bit ------------------------------------------------------------------------------- */

static DiffusionZContext *open_eager(int dtype)
{
    DiffusionZContext *ctx = open_model(sketch(), 0, dtype);
    const struct kiln_shape all = {.items = 1, .height = 1, .width = 1},
                            texts = {.text_blocks = {1}};
    kiln_graph_cache_refuse(ctx->engine->graphs, &all);
    kiln_graph_cache_refuse(ctx->engine->graphs, &texts);
    return ctx;
}

/* Twice with graphs, recorded and replayed, without graphs, and each item alone. */
static void each_way_has_the_same_bits(void **state)
{
    const int dtype = *(const int *)*state;
    DiffusionZContext *with = open_model(sketch(), 0, dtype), *without = open_eager(dtype);
    for (size_t w = 0; w < WAYS; w++) {
        DiffusionZItem items[ITEMS];
        DiffusionZBatch b = batch_of(&ways[w], items);
        for (int round = 0; round < 2; round++) {
            DiffusionZOutput got[ITEMS], want[ITEMS];
            b.items = items;
            b.item_count = ITEMS;
            run_batch(with, &b, got);
            run_batch(without, &b, want);
            for (int i = 0; i < ITEMS; i++)
                expect_same(ways[w].name, &got[i], &want[i], SIDE, SIDE);
            run_batch(with, &b, got);
            for (int i = 0; i < ITEMS; i++) {
                DiffusionZOutput alone;
                b.items = &items[i];
                b.item_count = 1;
                run_batch(round ? with : without, &b, &alone);
                expect_same(ways[w].name, &got[i], &alone, SIDE, SIDE);
            }
        }
        printf("%s: the same bits in %d groups, alone, and without graphs\n", ways[w].name, 2);
    }
    expect_recorded(with);
    assert_int_equal(graphs_of(without), 0);
    diffusionz_free(with);
    diffusionz_free(without);
}

/* --- beside the CPU --------------------------------------------------------------------------- */

static void each_way_is_that_of_the_cpu(void **state)
{
    (void)state;
    DiffusionZContext *cpu = open_model(sketch(), -1, DIFFUSIONZ_FP32);
    DiffusionZContext *gpu = open_model(sketch(), 0, DIFFUSIONZ_FP32);
    for (size_t w = 0; w < WAYS; w++) {
        DiffusionZItem items[ITEMS];
        DiffusionZBatch b = batch_of(&ways[w], items);
        DiffusionZOutput got[2], want[2];
        b.item_count = 2;
        run_batch(cpu, &b, want);
        run_batch(gpu, &b, got);
        for (int i = 0; i < 2; i++) {
            const struct lora_gap gap = lora_rig_gap(got[i].latent, want[i].latent, VALUES);
            const double share = share_beyond(got[i].rgb, want[i].rgb, sizeof picture, 1);
            printf("%s, item %d: latent off by %.2e, %.5f of the picture by more than 1\n",
                   ways[w].name, i, gap.relative, share);
            assert_true(gap.relative <= 1e-3);
            assert_true(share <= 0.001);
        }
        diffusionz_release_outputs(got, 2);
        diffusionz_release_outputs(want, 2);
    }
    diffusionz_free(cpu);
    diffusionz_free(gpu);
}

/* --- two transformers ------------------------------------------------------------------------- */

/* The sketch model with its own transformer as the second one, under another name. */
static void make_twins(char dir[4200])
{
    char command[13000], late[4300], card[4300], text[512], hex[KILN_FILE_HASH_MAX];
    snprintf(dir, 4200, "/tmp/kiln-twins-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(command, sizeof command,
             "cp -rs \"$(realpath '%s')\"/* '%s' && ln -s transformer '%s/late'", sketch(), dir,
             dir);
    assert_int_equal(system(command), 0);
    snprintf(late, sizeof late, "%s/late", dir);
    snprintf(card, sizeof card, "%s/kiln.json", dir);
    assert_true(kiln_folder_hash(late, hex));
    snprintf(text, sizeof text,
             "{\"schedule\": {\"steps\": %d, \"weights\": [{\"steps\": [4, %d], \"transformer\": "
             "\"late\", \"sha256\": \"%s\"}]}}",
             STEPS, STEPS, hex);
    unlink(card);
    kiln_test_write(card, text);
}

/* Steps of two sets of the same weights are those of one, recorded in graphs of their own, with and
 * without LoRAs. */
static void a_second_transformer_of_the_same_weights_changes_no_bit(void **state)
{
    const int dtype = *(const int *)*state;
    const DiffusionZStepTransformer late = {"late", 3, STEPS};
    char dir[4200], path[4300], command[4300];
    make_twins(dir);
    snprintf(path, sizeof path, "%s/loras/neon.safetensors", sketch());
    const DiffusionZLora lora = {path, 0.7f};
    DiffusionZContext *one = open_model(sketch(), 0, dtype), *two = open_model(dir, 0, dtype);
    assert_int_equal(two->engine->set_count, 2);
    static const enum kiln_lora_mode modes[] = {KILN_LORA_AUTO, KILN_LORA_MERGED, KILN_LORA_BESIDE};
    for (int m = 0; m < 4; m++) { /* the first without LoRAs */
        for (size_t w = 0; w < WAYS; w++) {
            DiffusionZItem items[ITEMS];
            DiffusionZOutput got[ITEMS], want[ITEMS];
            DiffusionZBatch b = batch_of(&ways[w], items);
            b.loras = m ? &lora : NULL;
            b.lora_count = m > 0;
            if (m > 0 && w == 0) {
                kiln_loras_mode(one->engine->sets[0].loras, modes[m - 1]);
                kiln_loras_mode(two->engine->sets[0].loras, modes[m - 1]);
                kiln_loras_mode(two->engine->sets[1].loras, modes[m - 1]);
            }
            run_batch(one, &b, want);
            b.step_transformers = &late;
            b.step_transformer_count = 1;
            run_batch(two, &b, got);
            for (int i = 0; i < ITEMS; i++)
                expect_same(ways[w].name, &got[i], &want[i], SIDE, SIDE);
        }
    }
    expect_recorded(two);
    printf("%zu graphs of one set, %zu of two\n", graphs_of(one), graphs_of(two));
    diffusionz_free(one);
    diffusionz_free(two);
    snprintf(command, sizeof command, "rm -r '%s'", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    static int fp32 = DIFFUSIONZ_FP32, bf16 = DIFFUSIONZ_BF16, fp8 = DIFFUSIONZ_FP8;
    const struct CMUnitTest tests[] = {
        {"each_way_has_the_same_bits_bf16", each_way_has_the_same_bits, NULL, NULL, &bf16},
        {"each_way_has_the_same_bits_fp32", each_way_has_the_same_bits, NULL, NULL, &fp32},
        {"each_way_has_the_same_bits_fp8", each_way_has_the_same_bits, NULL, NULL, &fp8},
        cmocka_unit_test(each_way_is_that_of_the_cpu),
        {"a_second_transformer_bf16", a_second_transformer_of_the_same_weights_changes_no_bit, NULL,
         NULL, &bf16},
        {"a_second_transformer_fp8", a_second_transformer_of_the_same_weights_changes_no_bit, NULL,
         NULL, &fp8},
    };
    need_gpu();
    return cmocka_run_group_tests_name("starts_cuda", tests, make_starts, NULL);
}
