/* test_engine_groups.c - pictures of a batch that are drawn together, on the CPU, where each is
 * drawn alone unless a test says otherwise.  Its products of more rows may sum in another order;
 * that a GPU's do not is for tests/gpu/test_engine_cuda.c. */
#include <math.h>
#include <stdlib.h>

#include "pipeline/context.h"
#include "pipeline/engine/parts.h"
#include "pipeline/torch/load.h"
#include "tests/pipeline/one_context.h"

#define SIDE 64
#define VALUES (16 * (SIDE / 8) * (SIDE / 8))
#define STEPS 3
#define ITEMS 7
#define TOGETHER 448 /* rows: seven of 32 + 32 */

/* Two lengths of captions among them, so that groups are not runs of neighbours. */
static const char longer[] = "a much longer prompt with many words, so that its tokens need more "
                             "than one multiple of thirty-two rows in the joint sequence";
static const DiffusionZItem items[ITEMS] = {
    {.prompt = "a star", .seed = 1},   {.prompt = longer, .seed = 2},
    {.prompt = "a ring", .seed = 3},   {.prompt = "two stars", .seed = 4},
    {.prompt = longer, .seed = 5},     {.prompt = "", .seed = 6},
    {.prompt = "a square", .seed = 7},
};

static DiffusionZBatch batch_of(const DiffusionZItem *some, int count)
{
    return (DiffusionZBatch){.items = some,
                             .item_count = count,
                             .width = SIDE,
                             .height = SIDE,
                             .num_steps = STEPS,
                             .keep_trajectory = 1};
}

/* Drawn together in groups of so many rows, or each alone. */
static void run(const DiffusionZBatch *batch, int64_t rows, DiffusionZOutput *out)
{
    ctx->engine->group_rows = rows;
    if (diffusionz_run_batch(ctx, batch, out, NULL))
        fail_msg("%s", diffusionz_last_error());
}

static void assert_near(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_true(fabsf(a[i] - b[i]) < 1e-4f);
}

static void assert_same_item(const DiffusionZOutput *a, const DiffusionZOutput *b)
{
    assert_int_equal(a->error_code, 0);
    assert_near(a->latent, b->latent, VALUES);
    assert_near(a->trajectory, b->trajectory, (size_t)STEPS * VALUES);
    for (int i = 0; i < SIDE * SIDE * 3; i++)
        assert_in_range(a->rgb[i] - b->rgb[i] + 2, 0, 4);
}

static void an_item_is_the_same_alone_and_in_a_group(void **state)
{
    (void)state;
    DiffusionZOutput alone[ITEMS], together[ITEMS];
    DiffusionZBatch batch = batch_of(items, ITEMS);
    for (int guided = 0; guided < 2; guided++) {
        batch.guidance_scale = guided ? 3.0f : 0;
        run(&batch, 0, alone);
        run(&batch, TOGETHER, together);
        for (int i = 0; i < ITEMS; i++)
            assert_same_item(&together[i], &alone[i]);
        diffusionz_release_outputs(alone, ITEMS);
        diffusionz_release_outputs(together, ITEMS);
    }
}

static void what_ends_an_item_of_a_group_ends_no_other(void **state)
{
    (void)state;
    const int32_t up = 1;
    int32_t progress = -1;
    DiffusionZItem some[4] = {items[0], items[2], items[3], items[5]};
    DiffusionZOutput alone[4], together[4];
    DiffusionZBatch batch = batch_of(some, 4);
    run(&batch, 0, alone);
    some[1].cancel = &up;
    some[2].prompt = "poison";
    poison(ctx, some[2].prompt);
    batch.progress = &progress;
    run(&batch, TOGETHER, together);
    assert_int_equal(together[1].error_code, KILN_CANCELLED);
    assert_int_equal(together[2].error_code, KILN_NOT_FINITE);
    assert_string_equal(together[2].error_msg, "non-finite latent at step 1 of 3");
    assert_null(together[2].latent);
    for (int i = 0; i < 4; i += 3)
        assert_same_item(&together[i], &alone[i]);
    assert_int_equal(progress, STEPS);
    diffusionz_release_outputs(alone, 4);
    diffusionz_release_outputs(together, 4);
}

/* --- memory ----------------------------------------------------------------------------------- */

/* No tensor may be larger than the largest that a picture alone needs. */
static void a_group_that_does_not_fit_is_split_and_remembered(void **state)
{
    (void)state;
    const DiffusionZItem some[4] = {items[0], items[2], items[3], items[5]};
    int32_t progress = -1;
    DiffusionZOutput alone[4], together[4];
    DiffusionZBatch batch = batch_of(some, 4);
    batch.skip_decode = 1;
    batch.progress = &progress;
    run(&batch, 0, alone); /* whose texts are kept from now on */
    diffusionz_release_outputs(alone, 4);
    kt_memory_bound(0);
    run(&batch, 0, alone);
    const size_t most = kt_memory_bound(0);
    for (int room = 1; room <= 2; room++) {
        kt_memory_bound(room * most);
        run(&batch, TOGETHER, together);
        kt_memory_bound(0);
        assert_true(ctx->engine->group_rows < 4 * 64);
        assert_non_null(strstr(ctx->engine->note, "64 x 64: fewer than "));
        assert_int_equal(ctx->engine->tight_pixels, 0);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(together[i].error_code, 0);
            assert_near(together[i].latent, alone[i].latent, VALUES);
            assert_near(together[i].trajectory, alone[i].trajectory, (size_t)STEPS * VALUES);
        }
        assert_int_equal(progress, STEPS);
        diffusionz_release_outputs(together, 4);
        ctx->engine->note[0] = 0;
    }
    diffusionz_release_outputs(alone, 4);
}

/* --- which ones ------------------------------------------------------------------------------- */

/* A run whose items have captions of so many rows, 0 ending them. */
static struct kiln_run *run_of(const int64_t *caption_rows)
{
    struct kiln_run *r = calloc(1, sizeof *r);
    r->e = ctx->engine;
    r->batch = &r->copy;
    r->phases[0] = (struct kiln_phase){.height = SIDE / 8, .width = SIDE / 8};
    r->phase = r->phases; /* 16 tokens, padded to 32 */
    r->phase_count = 1;
    r->set = ctx->engine->sets;
    for (int i = 0; caption_rows[i]; i++) {
        struct kiln_item *item = &r->items[r->copy.item_count++];
        *item = (struct kiln_item){.in = &items[0], .scope = kt_scope_new(KT_CPU)};
        item->caption = kt_zeros(item->scope, KT_F32, 2, (int64_t[]){caption_rows[i], 8});
    }
    return r;
}

static void free_run(struct kiln_run *r)
{
    for (int i = 0; i < r->copy.item_count; i++)
        kt_scope_free(r->items[i].scope);
    free(r);
}

/* The numbers of the items of all groups, as in "0 2 | 1 |". */
static const char *groups_of(struct kiln_run *r)
{
    static char text[256];
    struct kiln_group group;
    size_t used = 0;
    text[0] = 0;
    while (kiln_group_next(r, &group)) {
        for (int i = 0; i < group.count; i++) {
            used += (size_t)sprintf(text + used, "%d ", (int)(group.items[i] - r->items));
            group.items[i]->begun = true;
        }
        used += (size_t)sprintf(text + used, "| ");
    }
    return text;
}

static void groups_have_one_caption_length_and_fit(void **state)
{
    (void)state;
    static const struct {
        int64_t captions[10], rows;
        const char *want;
    } cases[] = {
        {{32, 64, 32, 32, 64, 32, 32}, 448, "0 2 3 5 | 1 4 | 6 | "},
        {{32, 32, 32, 32, 32}, 0, "0 | 1 | 2 | 3 | 4 | "},
        {{32, 32, 32, 32, 32}, 127, "0 | 1 | 2 | 3 | 4 | "},
        {{32, 32, 32, 32, 32}, 128, "0 1 | 2 3 | 4 | "},
        {{32, 32, 32, 32, 32}, 255, "0 1 | 2 3 | 4 | "},
        {{512, 32, 32}, 256, "0 | 1 2 | "},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct kiln_run *r = run_of(cases[c].captions);
        ctx->engine->group_rows = cases[c].rows;
        assert_string_equal(groups_of(r), cases[c].want);
        free_run(r);
    }
}

static void no_group_is_larger_than_its_bound(void **state)
{
    (void)state;
    int64_t captions[KILN_ASSIGN_MAX] = {0};
    for (int i = 0; i < 40; i++)
        captions[i] = 32;
    struct kiln_run *r = run_of(captions);
    struct kiln_group group;
    ctx->engine->group_rows = 1 << 20;
    assert_true(kiln_group_next(r, &group));
    assert_int_equal(group.count, KILN_GROUP_MAX);
    free_run(r);
}

static void items_that_have_ended_are_in_no_group(void **state)
{
    (void)state;
    const int64_t captions[] = {32, 32, 32, 0};
    struct kiln_run *r = run_of(captions);
    ctx->engine->group_rows = TOGETHER;
    r->items[1].ended = true;
    assert_string_equal(groups_of(r), "0 2 | ");
    free_run(r);
}

static void a_group_that_was_split_comes_again_in_smaller_ones(void **state)
{
    (void)state;
    const int64_t captions[] = {32, 32, 32, 32, 0};
    struct kiln_run *r = run_of(captions);
    struct kiln_group group;
    ctx->engine->group_rows = TOGETHER;
    assert_true(kiln_group_next(r, &group));
    assert_int_equal(group.count, 4);
    for (int i = 0; i < 4; i++)
        r->items[i].begun = true;
    kiln_group_split(r, &group);
    assert_string_equal(groups_of(r), "0 1 | 2 3 | ");
    free_run(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_item_is_the_same_alone_and_in_a_group),
        cmocka_unit_test(what_ends_an_item_of_a_group_ends_no_other),
        cmocka_unit_test(a_group_that_does_not_fit_is_split_and_remembered),
        cmocka_unit_test(groups_have_one_caption_length_and_fit),
        cmocka_unit_test(no_group_is_larger_than_its_bound),
        cmocka_unit_test(items_that_have_ended_are_in_no_group),
        cmocka_unit_test(a_group_that_was_split_comes_again_in_smaller_ones),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
