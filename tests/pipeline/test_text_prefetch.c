/* test_text_prefetch.c - the texts of the next batch, encoded while this one is drawn. */
#include <pthread.h>

#include "pipeline/engine/text_prefetch.h"
#include "tests/pipeline/one_context.h"

#define SIDE 64

static DiffusionZBatch batch_of(const DiffusionZItem *items, int count)
{
    return (DiffusionZBatch){
        .items = items, .item_count = count, .width = SIDE, .height = SIDE, .num_steps = 2};
}

static DiffusionZTimes draw(const DiffusionZBatch *batch, DiffusionZOutput *out)
{
    DiffusionZTimes times;
    if (diffusionz_run_batch(ctx, batch, out, &times))
        fail_msg("%s", diffusionz_last_error());
    return times;
}

/* Draws it, lets the pictures go and expects so many texts ready and encoded. */
static void expect_texts(const DiffusionZBatch *batch, int ready, int encoded)
{
    DiffusionZOutput out[4];
    const DiffusionZTimes times = draw(batch, out);
    assert_int_equal(times.texts_ready, ready);
    assert_int_equal(times.texts_encoded, encoded);
    diffusionz_release_outputs(out, batch->item_count);
}

static void ask(const DiffusionZBatch *batch)
{
    if (diffusionz_prefetch(ctx, batch))
        fail_msg("%s", diffusionz_last_error());
}

static const DiffusionZItem first[1] = {{.prompt = "a red circle", .seed = 1}};
static const DiffusionZItem second[3] = {
    {.prompt = "two green stars on sand", .seed = 2},
    {.prompt = "a blue heart", .negative_prompt = "a ring", .seed = 3},
    {.prompt = "two green stars on sand", .seed = 4},
};

static void the_next_batch_finds_its_texts(void **state)
{
    (void)state;
    const DiffusionZBatch now = batch_of(first, 1);
    DiffusionZBatch next = batch_of(second, 3);
    next.guidance_scale = 2;
    DiffusionZOutput ahead[3], plain[3];
    ask(&next);
    expect_texts(&now, 0, 1);
    DiffusionZTimes times = draw(&next, ahead); /* two prompts, a negative one and an empty one */
    assert_int_equal(times.texts_ready, 4);
    assert_int_equal(times.texts_encoded, 0);
    diffusionz_free(ctx);
    ctx = open_plain();
    times = draw(&next, plain);
    assert_int_equal(times.texts_ready, 0);
    assert_int_equal(times.texts_encoded, 4);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(ahead[i].rgb, plain[i].rgb, SIDE * SIDE * 3);
    diffusionz_release_outputs(ahead, 3);
    diffusionz_release_outputs(plain, 3);
}

static void without_guidance_no_negative_text_is_made(void **state)
{
    (void)state;
    const DiffusionZBatch now = batch_of(first, 1);
    DiffusionZBatch next = batch_of(second, 3);
    ask(&next);
    expect_texts(&now, 0, 1);
    next.guidance_scale = 2;
    expect_texts(&next, 2, 2);
}

static void every_wish_is_met_once(void **state)
{
    (void)state;
    const DiffusionZBatch now = batch_of(first, 1), next = batch_of(second, 1),
                          later = batch_of(second + 1, 1);
    ask(&next);
    ask(&later);
    expect_texts(&now, 0, 1);
    expect_texts(&next, 1, 0);
    expect_texts(&later, 1, 0);
    const DiffusionZBatch itself = batch_of(&(DiffusionZItem){.prompt = "a cross"}, 1);
    ask(&itself); /* it comes up before anything else was drawn */
    expect_texts(&itself, 0, 1);
    expect_texts(&itself, 1, 0);
}

static void a_text_that_is_none_is_left_to_its_batch(void **state)
{
    (void)state;
    const DiffusionZItem items[2] = {{.prompt = "\xc3\x28"}, {.prompt = "a hexagon"}};
    const DiffusionZBatch now = batch_of(first, 1), next = batch_of(items, 2);
    DiffusionZOutput out[2];
    ask(&next);
    expect_texts(&now, 0, 1);
    const DiffusionZTimes times = draw(&next, out);
    assert_int_equal(times.texts_ready, 1);
    assert_int_equal(times.texts_encoded, 0);
    assert_int_equal(out[0].error_code, KILN_BAD_INPUT);
    assert_int_equal(out[1].error_code, 0);
    diffusionz_release_outputs(out, 2);
}

/* More than there is room for: the oldest are forgotten, and encoded when they come up. */
static void wishes_have_a_bound(void **state)
{
    (void)state;
    char prompts[KILN_BATCH_TEXTS_MAX + 2][16];
    DiffusionZItem items[KILN_BATCH_TEXTS_MAX + 2] = {{0}};
    for (size_t i = 0; i < KILN_BATCH_TEXTS_MAX + 2; i++) {
        snprintf(prompts[i], sizeof prompts[i], "star %zu", i);
        items[i].prompt = prompts[i];
        const DiffusionZBatch one = batch_of(&items[i], 1);
        ask(&one);
    }
    const DiffusionZBatch now = batch_of(first, 1);
    const DiffusionZBatch oldest = batch_of(items, 4), newer = batch_of(items + 4, 4);
    ask(&newer); /* waits already */
    expect_texts(&now, 0, 1);
    expect_texts(&oldest, 2, 2);
    expect_texts(&newer, 4, 0);
}

static void *wish(void *arg)
{
    const DiffusionZBatch *next = arg;
    for (int i = 0; i < 2000; i++)
        if (diffusionz_prefetch(ctx, next))
            return NULL;
    return arg;
}

static void wishes_come_from_any_thread(void **state)
{
    (void)state;
    const DiffusionZBatch now = batch_of(first, 1);
    DiffusionZBatch next = batch_of(second, 3);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wish, &next), 0);
    expect_texts(&now, 0, 1);
    for (int i = 0; i < 2; i++) {
        void *all_asked;
        assert_int_equal(pthread_join(threads[i], &all_asked), 0);
        assert_ptr_equal(all_asked, &next);
    }
    expect_texts(&now, 1, 0);
    expect_texts(&next, 2, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_next_batch_finds_its_texts, open_context,
                                        close_context),
        cmocka_unit_test_setup_teardown(without_guidance_no_negative_text_is_made, open_context,
                                        close_context),
        cmocka_unit_test_setup_teardown(every_wish_is_met_once, open_context, close_context),
        cmocka_unit_test_setup_teardown(a_text_that_is_none_is_left_to_its_batch, open_context,
                                        close_context),
        cmocka_unit_test_setup_teardown(wishes_have_a_bound, open_context, close_context),
        cmocka_unit_test_setup_teardown(wishes_come_from_any_thread, open_context, close_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
