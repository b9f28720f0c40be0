/* test_halves.c - a batch that is begun before the one ahead of it is finished changes nothing. */
#include "tests/pipeline/one_context.h"
#include "tests/support/halves.h"

#define SIDE 64

static const int32_t raised = 1;
static const DiffusionZItem items[4] = {
    {.prompt = "a star", .seed = 1},
    {.prompt = "a much longer prompt with many words, so that its tokens need more than one "
               "multiple of thirty-two rows in the joint sequence of the transformer",
     .seed = 2},
    {.prompt = "", .seed = 3},
    {.prompt = "a ring", .seed = 4, .cancel = &raised},
};

/* Batches of other sizes, step counts, LoRAs and wishes than their neighbours; one that cannot be.
 */
static void the_same_in_halves(void **state)
{
    (void)state;
    static const int32_t smaller[] = {32};
    const DiffusionZLora set[2] = {{golden("loras/diffusers.safetensors"), 0.8f},
                                   {golden("loras/second.safetensors"), -0.5f}};
    const DiffusionZLora missing = {"/there/is/no.safetensors", 1.0f};
    const DiffusionZBatch plain = {
        .items = items, .item_count = 4, .width = SIDE, .height = SIDE, .num_steps = 3};
    DiffusionZBatch batches[9];
    for (int i = 0; i < 9; i++)
        batches[i] = plain;
    batches[1].loras = set;
    batches[1].lora_count = 2;
    batches[2].width = 96;
    batches[3].num_steps = 2;
    batches[3].keep_trajectory = 1;
    batches[4].skip_decode = 1;
    batches[5].lora_count = 1;
    batches[5].loras = &missing;
    batches[6].guidance_scale = 2;
    batches[7].lora_count = 1;
    batches[7].loras = set;
    batches[7].smaller = smaller;
    batches[7].smaller_count = 1;
    halves_compare(ctx, batches, 9);
}

/* What a run may still read when its first half is over: outputs and progress, nothing else. */
static void what_was_lent_may_go(void **state)
{
    (void)state;
    int32_t progress = -1;
    DiffusionZOutput want, got;
    DiffusionZRun *run;
    const DiffusionZBatch batch = {
        .items = items, .item_count = 1, .width = SIDE, .height = SIDE, .num_steps = 3};
    assert_int_equal(diffusionz_run_batch(ctx, &batch, &want, NULL), 0);
    char *prompt = strdup(items[0].prompt);
    DiffusionZItem *item = malloc(sizeof *item);
    DiffusionZBatch *lent = malloc(sizeof *lent);
    *item = (DiffusionZItem){.prompt = prompt, .seed = items[0].seed};
    *lent = batch;
    lent->items = item;
    lent->progress = &progress;
    assert_int_equal(diffusionz_begin_batch(ctx, lent, &got, &run), 0);
    memset(prompt, 'x', strlen(prompt));
    memset(item, 0xff, sizeof *item);
    memset(lent, 0xff, sizeof *lent);
    free(prompt);
    free(item);
    free(lent);
    assert_int_equal(diffusionz_finish_batch(run, NULL), 0);
    assert_int_equal(got.error_code, 0);
    assert_int_equal(progress, 3);
    assert_memory_equal(got.rgb, want.rgb, SIDE * SIDE * 3);
    diffusionz_release_outputs(&want, 1);
    diffusionz_release_outputs(&got, 1);
}

static void nothing_to_begin_or_finish(void **state)
{
    (void)state;
    DiffusionZOutput out;
    DiffusionZRun *run;
    const DiffusionZBatch batch = {
        .items = items, .item_count = 1, .width = SIDE, .height = SIDE, .num_steps = 3};
    assert_int_equal(diffusionz_begin_batch(NULL, &batch, &out, &run), KILN_BAD_INPUT);
    assert_int_equal(diffusionz_begin_batch(ctx, NULL, &out, &run), KILN_BAD_INPUT);
    assert_int_equal(diffusionz_begin_batch(ctx, &batch, NULL, &run), KILN_BAD_INPUT);
    assert_int_equal(diffusionz_begin_batch(ctx, &batch, &out, NULL), KILN_BAD_INPUT);
    assert_non_null(strstr(diffusionz_last_error(), "place for the run"));
    assert_int_equal(diffusionz_finish_batch(NULL, NULL), KILN_BAD_INPUT);
    assert_non_null(strstr(diffusionz_last_error(), "run is NULL"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_in_halves),
        cmocka_unit_test(what_was_lent_may_go),
        cmocka_unit_test(nothing_to_begin_or_finish),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
