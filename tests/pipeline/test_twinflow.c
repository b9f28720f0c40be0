/* test_twinflow.c - a model distilled for few steps: a second time embedder, sigmas that begin
 * below 1, and steps that replace a share of their noise.
 *
 * What it computes is held to a reference in Python by test_parity (the cases twin_*).  Here: the
 * step in plain C, the same bits in every batch, what kiln.json says, and files that are refused.
 */
#include <math.h>

#include "pipeline/model/hash.h"
#include "pipeline/model/sampler.h"
#include "schemas/digest.h"
#include "storage/formats/file_hash.h"
#include "storage/formats/safetensors.h"
#include "tests/pipeline/four_items.h"
#include "tests/pipeline/ways.h"
#include "tests/support/files.h"
#include "tests/support/measure.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const double sigmas[STEPS] = {0.999, 0.8, 0.6, 0.3};
static DiffusionZLora lora;
static DiffusionZContext *ctx;

static int open_all(void **state)
{
    (void)state;
    lora = (DiffusionZLora){strdup(golden("loras/default.safetensors")), 1};
    make_start();
    ctx = open_dir(golden("models/twinflow"));
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    free((char *)lora.path);
    diffusionz_free(ctx);
    return 0;
}

static DiffusionZBatch batch_of(const DiffusionZItem *some, int count)
{
    return (DiffusionZBatch){.items = some,
                             .item_count = count,
                             .width = WIDE,
                             .height = HIGH,
                             .num_steps = STEPS,
                             .sigmas = sigmas,
                             .skip_decode = 1};
}

/* Runs a batch whose steps replace this share of their noise. */
static void run(double share, const DiffusionZBatch *batch, DiffusionZOutput *out)
{
    ctx->engine->renewed = share;
    run_whole(ctx, batch, out);
}

/* --- the step --------------------------------------------------------------------------------- */

/* A step is an Euler step to another sigma and a mixture: on numbers alone. */
static void a_renewal_is_the_formula(void **state)
{
    (void)state;
    const double x = 0.7, v = -1.3, e = 0.4;
    for (double share = 0; share <= 1; share += 0.125)
        for (double sigma = 0.1; sigma <= 1; sigma += 0.09)
            for (double next = 0; next < sigma; next += 0.07) {
                const struct kiln_renewal by = kiln_renewal_of(share, next);
                const double clean = x - sigma * v, noisy = x + (1 - sigma) * v;
                const double want =
                    (1 - next) * clean + next * (sqrt(1 - share) * noisy + sqrt(share) * e);
                const double got = by.keep * (x + (by.to - sigma) * v) + by.add * e;
                assert_float_equal(got, want, 1e-12);
            }
    const struct kiln_renewal none = kiln_renewal_of(0, 0.3), last = kiln_renewal_of(1, 0);
    assert_true(none.to == 0.3 && none.keep == 1 && none.add == 0);
    assert_true(last.to == 0 && last.keep == 1 && last.add == 0);
}

static void noise_of(uint64_t seed, float *out)
{
    struct kt_scope *s = kt_scope_new(KT_CPU);
    kt_to_host_f32(s, kt_randn(s, seed, 3, (int64_t[]){16, HIGH / 8, WIDE / 8}), out, VALUES);
    kt_scope_free(s);
}

/* The model's velocity at a state of a run: an Euler step goes along it.  It begins at the clean
 * latent that the seed's own noise turns into this state. */
static void velocity_at(const float *x, int step, double *out)
{
    static float clean[VALUES];
    const double s = sigmas[step];
    DiffusionZItem item = items[0];
    DiffusionZOutput euler;
    noise_of(item.seed, clean);
    for (int i = 0; i < VALUES; i++)
        clean[i] = (float)(((double)x[i] - s * (double)clean[i]) / (1 - s));
    item.start_latent = clean;
    DiffusionZBatch b = batch_of(&item, 1);
    b.keep_trajectory = 1;
    b.start = DIFFUSIONZ_FROM_STEP;
    b.start_step = step;
    run(0, &b, &euler);
    for (int i = 0; i < VALUES; i++)
        out[i] = ((double)euler.trajectory[VALUES + i] - (double)euler.trajectory[i]) /
                 (sigmas[step + 1] - s);
    diffusionz_release_outputs(&euler, 1);
}

/* Every state of a run, in plain C. */
static void each_state_is_the_formula(void **state)
{
    (void)state;
    static float noise[VALUES];
    static double velocity[VALUES];
    for (double share = 0.5; share <= 1; share += 0.5) {
        DiffusionZOutput out;
        DiffusionZBatch b = batch_of(items, 1);
        b.keep_trajectory = 1;
        run(share, &b, &out);
        for (int step = 0; step + 1 < STEPS; step++) {
            const float *x = out.trajectory + step * VALUES;
            const double s = sigmas[step], next = sigmas[step + 1];
            char purpose[KILN_PURPOSE_MAX];
            double error = 0, size = 0;
            assert_true(out.sigmas[step] == (double)(float)s);
            snprintf(purpose, sizeof purpose, "kiln step %d", step + 1);
            noise_of(kiln_seed_for(purpose, items[0].seed), noise);
            velocity_at(x, step, velocity);
            for (int i = 0; i < VALUES; i++) {
                const double clean = (double)x[i] - s * velocity[i],
                             noisy = (double)x[i] + (1 - s) * velocity[i],
                             mixed = sqrt(1 - share) * noisy + sqrt(share) * (double)noise[i],
                             want = (1 - next) * clean + next * mixed;
                error = test_worse(error, fabs(want - (double)x[VALUES + i]));
                size = fmax(size, fabs(want));
            }
            if (!(error <= 1e-4 * size))
                fail_msg("share %g, step %d: error %g of %g", share, step, error, size);
        }
        diffusionz_release_outputs(&out, 1);
    }
}

/* A run coarse first may have twice as many steps as a job: each has its own row of times. */
static void the_time_table_holds_the_longest_run(void **state)
{
    (void)state;
    enum { ALL = 2 * KILN_STEPS_MAX };
    const struct kiln_transformer *t = ctx->engine->sets[0].transformer;
    const int64_t width = kiln_time_width(t);
    const size_t count = (size_t)(ALL * width);
    float times[ALL], *whole = malloc(count * sizeof *whole), *half = malloc(count * sizeof *half);
    struct kt_scope *s = kt_scope_new(KT_CPU);
    struct kiln_error err;
    for (int i = 0; i < ALL; i++)
        times[i] = (float)i / ALL;
    kt_to_host_f32(s, kiln_time_table(t, s, times, ALL), whole, count);
    for (int i = 0; i < ALL; i += KILN_STEPS_MAX)
        kt_to_host_f32(s, kiln_time_table(t, s, times + i, KILN_STEPS_MAX), half + i * width,
                       count / 2);
    assert_int_equal(kt_scope_check(s, &err), 0);
    for (size_t i = 0; i < count; i++)
        assert_float_equal(whole[i], half[i], 1e-4);
    kt_scope_free(s);
    free(whole);
    free(half);
}

/* --- the same bits ---------------------------------------------------------------------------- */

static void assert_same_alone(double share, const DiffusionZBatch *batch,
                              const DiffusionZOutput *all, int way)
{
    for (int i = 0; i < batch->item_count; i++) {
        DiffusionZBatch alone = *batch;
        DiffusionZOutput one;
        alone.items = &batch->items[i];
        alone.item_count = 1;
        run(share, &alone, &one);
        if (!same(&one, &all[i]))
            fail_msg("way %d, item %d: alone it has other bits", way, i);
        diffusionz_release_outputs(&one, 1);
    }
}

/* From noise, a latent, with a mask, by difference, coarse first; without LoRAs, and with one in
 * all steps and another time in some of them, which divides the run. */
static void an_item_of_any_way_has_the_same_bits_in_a_batch(void **state)
{
    (void)state;
    const DiffusionZStepLora some = {lora, 1, 3};
    for (int way = 0; way < KILN_TEST_WAYS; way++)
        for (int with = 0; with < 2; with++) {
            DiffusionZItem pair[2] = {items[1], items[3]};
            DiffusionZOutput all[2], plain[2];
            DiffusionZBatch b = batch_of(pair, 2);
            kiln_test_way(way, &b, pair);
            b.loras = &lora;
            b.step_loras = &some;
            b.lora_count = b.step_lora_count = with;
            run(0.8, &b, all);
            assert_same_alone(0.8, &b, all, way);
            run(0, &b, plain);
            for (int i = 0; i < 2; i++)
                assert_false(same(&all[i], &plain[i]));
            diffusionz_release_outputs(plain, 2);
            diffusionz_release_outputs(all, 2);
        }
}

static void a_division_of_the_run_changes_no_bit(void **state)
{
    (void)state;
    const DiffusionZStepLora nothing = {{lora.path, 0}, 1, 3};
    for (int way = 0; way < KILN_TEST_WAYS; way++) {
        DiffusionZItem pair[2] = {items[0], items[1]};
        DiffusionZOutput whole[2], parts[2];
        DiffusionZBatch b = batch_of(pair, 2);
        kiln_test_way(way, &b, pair);
        run(1, &b, whole);
        b.step_loras = &nothing;
        b.step_lora_count = 1;
        run(1, &b, parts);
        assert_true(same(&whole[0], &parts[0]) && same(&whole[1], &parts[1]));
        diffusionz_release_outputs(whole, 2);
        diffusionz_release_outputs(parts, 2);
    }
}

/* A mask keeps its start to the last bit, and a cancelled neighbour changes nothing. */
static void masks_and_cancels_are_heeded(void **state)
{
    (void)state;
    const int32_t cancel = 1;
    DiffusionZItem pair[2] = {items[0], items[1]};
    DiffusionZOutput out[2], alone;
    DiffusionZBatch b = batch_of(pair, 2), one = batch_of(pair, 1);
    pair[0].start_latent = pair[1].start_latent = start;
    pair[0].start_mask = mask;
    pair[1].cancel = &cancel;
    b.start = one.start = DIFFUSIONZ_FROM_STEP;
    b.start_step = one.start_step = 1;
    ctx->engine->renewed = 1;
    assert_int_equal(diffusionz_run_batch(ctx, &b, out, NULL), 0);
    assert_int_equal(out[0].error_code, 0);
    assert_int_equal(out[1].error_code, KILN_CANCELLED);
    int changed = 0;
    for (int i = 0; i < VALUES; i++)
        if (mask[i % (VALUES / 16)] == 0)
            assert_true(out[0].latent[i] == start[i]);
        else
            changed += out[0].latent[i] != start[i];
    assert_true(changed > VALUES / 4);
    run(1, &one, &alone);
    assert_true(same(&alone, &out[0]));
    diffusionz_release_outputs(out, 2);
    diffusionz_release_outputs(&alone, 1);
}

/* The change of a start is that of the prediction, wherever the step leads then. */
static void the_change_of_a_start_is_the_same(void **state)
{
    (void)state;
    DiffusionZItem item = items[0];
    DiffusionZOutput renewed, euler;
    DiffusionZBatch b = batch_of(&item, 1);
    item.start_latent = start;
    item.change_most = 1e6;
    b.start = DIFFUSIONZ_FROM_STEP;
    b.start_step = 1;
    run(1, &b, &renewed);
    run(0, &b, &euler);
    assert_true(euler.change > 0.1);
    assert_float_equal(renewed.change, euler.change, 1e-4 * euler.change);
    diffusionz_release_outputs(&renewed, 1);
    diffusionz_release_outputs(&euler, 1);
}

/* A start at or above the first sigma begins at the first step, of which there is one. */
static void a_start_above_the_first_sigma_adds_no_step(void **state)
{
    (void)state;
    double most[KILN_STEPS_MAX];
    DiffusionZBatch b = batch_of(items, 1);
    for (int i = 0; i < KILN_STEPS_MAX; i++)
        most[i] = 0.999 - i * 0.01;
    b.start = DIFFUSIONZ_FROM_SIGMA;
    b.start_sigma = 1;
    assert_int_equal(diffusionz_forwards(ctx, &b), STEPS);
    assert_true(diffusionz_start_sigma(ctx, &b) == 1);
    b.start_sigma = 0.9;
    assert_int_equal(diffusionz_forwards(ctx, &b), STEPS);
    b.start_sigma = 0.7;
    assert_int_equal(diffusionz_forwards(ctx, &b), STEPS - 1);
    b.sigmas = most;
    b.num_steps = KILN_STEPS_MAX;
    b.start_sigma = 1;
    assert_int_equal(diffusionz_forwards(ctx, &b), KILN_STEPS_MAX);
    b.start = DIFFUSIONZ_FROM_NOISE;
    b.start_sigma = 0;
    assert_true(diffusionz_start_sigma(ctx, &b) == (double)0.999f);
}

/* --- kiln.json -------------------------------------------------------------------------------- */

static void copy_model(const char *dir, const char *card)
{
    char command[9000], path[256];
    snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s' '%s' && chmod -R u+w '%s'", dir,
             golden("models/twinflow"), dir, dir);
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof path, "%s/kiln.json", dir);
    if (card)
        kiln_test_write(path, card);
}

static void a_schedule_is_read_and_is_part_of_the_hash(void **state)
{
    (void)state;
    static const char *const cards[] = {
        NULL,
        "{\"schedule\": {\"steps\": 2}}",
        "{\"schedule\": {\"steps\": 2, \"noise\": 0}}",
        "{\"schedule\": {\"steps\": 2, \"noise\": 1}}",
        "{\"schedule\": {\"steps\": 2, \"noise\": 0.5}}",
        "{\"schedule\": {\"steps\": 2, \"sigmas\": [0.999, 0.6], \"noise\": 1}}",
        "{\"schedule\": {\"steps\": 2, \"sigmas\": [0.999, 0.5], \"noise\": 1}}",
    };
    static const double noise[] = {0, 0, 0, 1, 0.5, 1, 1};
    char hashes[COUNT(cards)][KILN_MODEL_HASH_LEN + 1];
    for (size_t i = 0; i < COUNT(cards); i++) {
        copy_model("carded", cards[i]);
        DiffusionZContext *carded = open_dir("carded");
        assert_true(carded->engine->renewed == noise[i]);
        snprintf(hashes[i], sizeof hashes[i], "%s", diffusionz_model_hash(carded));
        diffusionz_free(carded);
        for (size_t k = 0; k < i; k++)
            assert_true((strcmp(hashes[i], hashes[k]) == 0) == (i < 3));
    }
    assert_string_equal(hashes[0], diffusionz_model_hash(ctx));
}

/* One transformer may have the second embedder and the other not: each step is that of its own. */
static void a_second_transformer_may_have_one_embedder(void **state)
{
    (void)state;
    const DiffusionZStepTransformer early = {"early", 0, 2};
    char card[512], command[9000], hex[KILN_FILE_HASH_MAX];
    DiffusionZOutput out, first, all;
    DiffusionZBatch b = batch_of(items, 1);
    copy_model("one", "{\"schedule\": {\"noise\": 1}}");
    snprintf(command, sizeof command,
             "rm -r one/transformer && cp -r '%s' one/ && chmod -R u+w one",
             golden("models/plain/transformer"));
    assert_int_equal(system(command), 0);
    copy_model("two", NULL);
    assert_int_equal(system("cp -r one/transformer two/early"), 0);
    assert_true(kiln_folder_hash("two/early", hex));
    snprintf(card, sizeof card,
             "{\"schedule\": {\"steps\": %d, \"noise\": 1, \"weights\": [{\"steps\": [1, 2], "
             "\"transformer\": \"early\", \"sha256\": \"%s\"}]}}",
             STEPS, hex);
    kiln_test_write("two/kiln.json", card);
    b.keep_trajectory = 1;
    run(1, &b, &all);
    DiffusionZContext *twin = ctx;
    ctx = open_dir("one");
    run(1, &b, &first);
    diffusionz_free(ctx);
    ctx = open_dir("two");
    b.step_transformers = &early;
    b.step_transformer_count = 1;
    run(1, &b, &out);
    diffusionz_free(ctx);
    ctx = twin;
    const size_t three = 3 * VALUES * sizeof(float); /* the states up to the end of step 2 */
    assert_memory_equal(out.trajectory, first.trajectory, three);
    assert_false(same(&out, &first) || same(&out, &all));
    diffusionz_release_outputs(&out, 1);
    diffusionz_release_outputs(&first, 1);
    diffusionz_release_outputs(&all, 1);
}

/* --- files that are refused ------------------------------------------------------------------- */

/* Writes the weights again without a tensor, or with half of its rows. */
static void damage(const char *dir, const char *name, bool cut)
{
    char path[256];
    struct kiln_st *st;
    struct kiln_error err;
    copy_model(dir, NULL);
    if (kiln_st_open(golden("models/twinflow/transformer"), &st, &err))
        fail_msg("%s", err.text);
    struct kiln_st_tensor *list = calloc(kiln_st_count(st), sizeof *list);
    size_t kept = 0;
    for (size_t i = 0; i < kiln_st_count(st); i++) {
        list[kept] = *kiln_st_at(st, i);
        const bool hit = strcmp(list[kept].name, name) == 0;
        if (hit && cut) {
            list[kept].shape[0] /= 2;
            list[kept].size /= 2;
        }
        kept += !hit || cut;
    }
    snprintf(path, sizeof path, "%s/transformer/diffusion_pytorch_model.safetensors", dir);
    if (kiln_st_write(path, list, kept, NULL, &err))
        fail_msg("%s", err.text);
    free(list);
    kiln_st_close(st);
}

static void damaged_embedders_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const names[] = {"mlp.0.weight", "mlp.0.bias", "mlp.2.weight", "mlp.2.bias"};
    for (size_t i = 0; i < 2 * COUNT(names); i++) {
        char name[64], file[96];
        const bool cut = i >= COUNT(names);
        DiffusionZContext *ret = NULL;
        snprintf(name, sizeof name, "t_embedder_2.%s", names[i % COUNT(names)]);
        damage("damaged", name, cut);
        const DiffusionZOptions options = {.model_path = "damaged", .device_id = -1};
        assert_int_equal(diffusionz_open(&options, &ret), KILN_BAD_INPUT);
        assert_null(ret);
        /* Without its first tensor the embedder counts as absent, and the others as unknown. */
        snprintf(file, sizeof file, "%s", i == 0 ? "t_embedder_2." : name);
        if (!strstr(diffusionz_last_error(), file))
            fail_msg("%s: %s", name, diffusionz_last_error());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_renewal_is_the_formula),
        cmocka_unit_test(each_state_is_the_formula),
        cmocka_unit_test(the_time_table_holds_the_longest_run),
        cmocka_unit_test(an_item_of_any_way_has_the_same_bits_in_a_batch),
        cmocka_unit_test(a_division_of_the_run_changes_no_bit),
        cmocka_unit_test(masks_and_cancels_are_heeded),
        cmocka_unit_test(the_change_of_a_start_is_the_same),
        cmocka_unit_test(a_start_above_the_first_sigma_adds_no_step),
        cmocka_unit_test(a_schedule_is_read_and_is_part_of_the_hash),
        cmocka_unit_test(a_second_transformer_may_have_one_embedder),
        cmocka_unit_test(damaged_embedders_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
