/* test_difference.c - edits by difference: the start of a run with what a changed prompt changes.
 *
 * The reference is plain C over runs of the public interface: a run of one step is the prediction,
 * and a run from the sum is the edit.  It is as near as runs of different numbers of steps are,
 * whose time tables are summed in other orders; an item alone and in a batch has the same bits.
 */
#include <math.h>

#include "pipeline/engine/parts.h"
#include "tests/pipeline/one_context.h"

#define WIDE 160
#define HIGH 64
#define STEPS 4
#define VALUES (16 * (WIDE / 8) * (HIGH / 8))
#define LONG                                                                                       \
    "a much longer prompt with many words, so that its tokens need more than one multiple of "     \
    "thirty-two rows in the joint sequence of the transformer"

/* Prompts before and after, of equal and of different lengths; the same one twice. */
static const DiffusionZItem items[4] = {
    {.start_prompt = "a red star", .prompt = "a blue star", .seed = 1},
    {.start_prompt = LONG, .prompt = "a star", .seed = 2},
    {.start_prompt = "a red star", .prompt = LONG, .seed = 3},
    {.start_prompt = "a red star", .prompt = "a red star", .seed = 4},
};

static DiffusionZBatch batch_of(const DiffusionZItem *some, int count, int steps)
{
    return (DiffusionZBatch){
        .items = some, .item_count = count, .width = WIDE, .height = HIGH, .num_steps = steps};
}

static void run(const DiffusionZBatch *batch, DiffusionZOutput *out)
{
    if (diffusionz_run_batch(ctx, batch, out, NULL))
        fail_msg("%s", diffusionz_last_error());
    for (int i = 0; i < batch->item_count; i++)
        if (out[i].error_code)
            fail_msg("item %d: %s", i, out[i].error_msg);
}

static void assert_near(const float *a, const float *b)
{
    for (int i = 0; i < VALUES; i++)
        assert_float_equal(a[i], b[i], 1e-4);
}

/* The final latent of a run of so many steps from noise. */
static void latent_of(const char *prompt, uint64_t seed, float guidance, int steps, float *ret)
{
    const DiffusionZItem item = {.prompt = prompt, .seed = seed, .negative_prompt = "fog"};
    DiffusionZBatch b = batch_of(&item, 1, steps);
    DiffusionZOutput out;
    b.guidance_scale = guidance;
    b.skip_decode = 1;
    run(&b, &out);
    memcpy(ret, out.latent, VALUES * sizeof *ret);
    diffusionz_release_outputs(&out, 1);
}

/* The same in plain C: start + (prediction after - prediction before), and a run from there. */
static void reference(const DiffusionZItem *item, const DiffusionZBatch *edit,
                      DiffusionZOutput *ret)
{
    static float before[VALUES], sum[VALUES];
    const float guidance = edit->guidance_scale;
    latent_of(item->start_prompt, item->seed, guidance, 1, before);
    latent_of(item->prompt, item->seed, guidance, 1, sum);
    for (int i = 0; i < VALUES; i++)
        sum[i] = item->start_latent[i] + (sum[i] - before[i]);
    DiffusionZItem plain = *item;
    plain.start_latent = sum;
    plain.start_prompt = NULL;
    DiffusionZBatch b = *edit;
    b.by_difference = 0;
    b.items = &plain;
    b.item_count = 1;
    b.progress = NULL;
    run(&b, ret);
}

static float starts[4][VALUES];

/* Finished pictures of the prompts before, which the edits start from. */
static void make_starts(DiffusionZItem ret[4], float guidance)
{
    for (int i = 0; i < 4; i++) {
        ret[i] = items[i];
        ret[i].negative_prompt = "fog";
        latent_of(items[i].start_prompt, items[i].seed, guidance, STEPS, starts[i]);
        ret[i].start_latent = starts[i];
    }
}

static void check_edits(DiffusionZBatch b, int forwards)
{
    DiffusionZOutput out[4], expected;
    int32_t progress = -1;
    b.by_difference = 1;
    b.progress = &progress;
    assert_int_equal(diffusionz_forwards(ctx, &b), forwards);
    run(&b, out);
    assert_int_equal(progress, forwards);
    for (int i = 0; i < b.item_count; i++) {
        reference(&b.items[i], &b, &expected);
        assert_near(out[i].latent, expected.latent);
        for (int k = 0; k < WIDE * HIGH * 3; k++)
            assert_in_range(out[i].rgb[k] - expected.rgb[k] + 1, 0, 2);
        diffusionz_release_outputs(&expected, 1);
        DiffusionZBatch alone = b;
        alone.items = &b.items[i];
        alone.item_count = 1;
        run(&alone, &expected);
        assert_memory_equal(out[i].latent, expected.latent, VALUES * sizeof(float));
        assert_memory_equal(out[i].rgb, expected.rgb, WIDE * HIGH * 3);
        diffusionz_release_outputs(&expected, 1);
    }
    diffusionz_release_outputs(out, b.item_count);
}

static void an_edit_is_start_plus_difference(void **state)
{
    (void)state;
    DiffusionZItem some[4];
    for (int guided = 0; guided < 2; guided++) {
        make_starts(some, guided ? 2 : 0);
        DiffusionZBatch b = batch_of(some, 4, STEPS);
        b.guidance_scale = guided ? 2 : 0;
        b.start = DIFFUSIONZ_FROM_STEP;
        for (b.start_step = 0; b.start_step < STEPS; b.start_step++)
            check_edits(b, 2 + STEPS - b.start_step);
        b.start = DIFFUSIONZ_FROM_SIGMA;
        b.start_sigma = 0.6;
        b.start_step = 0;
        check_edits(b, 2 + 2);
        b.rest_steps = 5;
        check_edits(b, 2 + 5);
    }
}

/* The difference is nothing then, so the edit is image to image. */
static void the_same_prompt_changes_nothing(void **state)
{
    (void)state;
    DiffusionZItem some[4], plain;
    DiffusionZOutput edited, started;
    make_starts(some, 0);
    DiffusionZBatch b = batch_of(&some[3], 1, STEPS);
    b.start = DIFFUSIONZ_FROM_STEP;
    b.start_step = 1;
    b.by_difference = 1;
    run(&b, &edited);
    plain = some[3];
    plain.start_prompt = NULL;
    b.items = &plain;
    b.by_difference = 0;
    run(&b, &started);
    assert_near(edited.latent, started.latent);
    diffusionz_release_outputs(&edited, 1);
    diffusionz_release_outputs(&started, 1);
}

/* And another prompt makes another picture than image to image does. */
static void a_difference_makes_a_difference(void **state)
{
    (void)state;
    DiffusionZItem some[4], plain;
    DiffusionZOutput edited, started;
    float most = 0;
    make_starts(some, 0);
    DiffusionZBatch b = batch_of(&some[0], 1, STEPS);
    b.start = DIFFUSIONZ_FROM_STEP;
    b.start_step = 2;
    b.by_difference = 1;
    run(&b, &edited);
    plain = some[0];
    plain.start_prompt = NULL;
    b.items = &plain;
    b.by_difference = 0;
    run(&b, &started);
    for (int i = 0; i < VALUES; i++)
        most = fmaxf(most, fabsf(edited.latent[i] - started.latent[i]));
    assert_true(most > 0.01f);
    diffusionz_release_outputs(&edited, 1);
    diffusionz_release_outputs(&started, 1);
}

/* An item that is cancelled, or whose start is not finite, ends alone. */
static void an_edit_that_fails_fails_alone(void **state)
{
    (void)state;
    static float bad[VALUES];
    const int32_t cancelled = 1;
    DiffusionZItem some[4];
    DiffusionZOutput out[4], expected;
    make_starts(some, 0);
    memcpy(bad, starts[0], sizeof bad);
    bad[7] = INFINITY;
    some[0].start_latent = bad;
    some[1].cancel = &cancelled;
    DiffusionZBatch b = batch_of(some, 4, STEPS);
    b.start = DIFFUSIONZ_FROM_STEP;
    b.start_step = 2;
    b.by_difference = 1;
    assert_int_equal(diffusionz_run_batch(ctx, &b, out, NULL), 0);
    assert_int_equal(out[0].error_code, KILN_BAD_INPUT);
    assert_int_equal(out[1].error_code, KILN_CANCELLED);
    for (int i = 2; i < 4; i++) {
        reference(&some[i], &b, &expected);
        assert_int_equal(out[i].error_code, 0);
        assert_near(out[i].latent, expected.latent);
        diffusionz_release_outputs(&expected, 1);
    }
    diffusionz_release_outputs(out, 4);
}

static void check_refused(DiffusionZBatch b, const char *says)
{
    DiffusionZOutput out[1];
    assert_int_not_equal(diffusionz_run_batch(ctx, &b, out, NULL), 0);
    if (!strstr(diffusionz_last_error(), says))
        fail_msg("\"%s\" does not say \"%s\"", diffusionz_last_error(), says);
}

static void what_cannot_be_an_edit_is_refused(void **state)
{
    (void)state;
    static float mask[VALUES / 16];
    static uint8_t picture[WIDE * HIGH * 3];
    DiffusionZItem some[4], item;
    make_starts(some, 0);
    DiffusionZBatch b = batch_of(&item, 1, STEPS);
    b.start = DIFFUSIONZ_FROM_STEP;
    b.start_step = 2;
    item = some[0];
    check_refused(b, "item 0: names the prompt of its start without need");
    b.by_difference = 1;
    item.start_prompt = NULL;
    check_refused(b, "item 0: the prompt of its start is missing");
    item = some[0];
    item.start_mask = mask;
    check_refused(b, "item 0: an edit by difference starts from a latent, without a mask");
    item = some[0];
    item.start_latent = NULL;
    item.start_rgb = picture;
    check_refused(b, "item 0: an edit by difference starts from a latent");
    item = some[0];
    b.keep_trajectory = 1;
    check_refused(b, "no trajectory is kept of an edit by difference");
    b.keep_trajectory = 0;
    b.by_difference = 2;
    check_refused(b, "by_difference 2: must be 0 or 1");
    b.by_difference = 1;
    b.start = DIFFUSIONZ_FROM_NOISE;
    check_refused(b, "an edit by difference needs starts of its items");
    char *endless = malloc(KILN_PROMPT_MAX + 2);
    memset(endless, 'x', KILN_PROMPT_MAX + 1);
    endless[KILN_PROMPT_MAX + 1] = '\0';
    b.start = DIFFUSIONZ_FROM_STEP;
    item.start_prompt = endless;
    check_refused(b, "item 0: the prompt of the start is longer than 8192 bytes");
    free(endless);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_edit_is_start_plus_difference),
        cmocka_unit_test(the_same_prompt_changes_nothing),
        cmocka_unit_test(a_difference_makes_a_difference),
        cmocka_unit_test(an_edit_that_fails_fails_alone),
        cmocka_unit_test(what_cannot_be_an_edit_is_refused),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
