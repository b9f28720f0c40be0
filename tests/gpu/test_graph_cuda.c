/* test_graph_cuda.c - recorded steps on cuda:0 beside computed ones, alone and in batches; and what
 * fewer bits cost.
 *
 * Pictures are compared bit by bit: a graph replays the kernels that were recorded, and an item
 * runs the same kernels whoever is beside it.  Only between dtypes there is a distance.
 */
#include <math.h>
#include <pthread.h>
#include <time.h>

#include "pipeline/torch/load.h"
#include "pipeline/torch/staging.h"
#include "tests/gpu/loop_rig.h"
#include "tests/support/lora_rig.h"
#include "tests/support/measure.h"

static const struct picture_case cases[] = {
    {"a red star", 64, 64, STEPS, 0},      {LONG_PROMPT, 64, 64, STEPS, 0},
    {"a red star", 256, 256, STEPS, 0},    {"a blue ring at night", 512, 512, STEPS, 0},
    {"a red star", 384, 256, STEPS, 0},    {"a red star", 272, 208, STEPS, 0}, /* padded rows */
    {"a red star", 256, 256, STEPS, 2.5f}, {LONG_PROMPT, 256, 256, 3, 1.5f},
    {LONG_PROMPT, 1024, 768, STEPS, 0},
};
#define CASES (sizeof cases / sizeof cases[0])

/* A context that computes every step, and every text. */
static DiffusionZContext *open_eager(const char *dir, int dtype)
{
    DiffusionZContext *ctx = open_model(dir, 0, dtype);
    const struct kiln_shape all = {.items = 1, .height = 1, .width = 1},
                            texts = {.text_blocks = {1}};
    kiln_graph_cache_refuse(ctx->engine->graphs, &all);
    kiln_graph_cache_refuse(ctx->engine->graphs, &texts);
    return ctx;
}

/* --- graphs beside steps computed one by one -------------------------------------------------- */

static void a_replay_is_the_step(void **state)
{
    const int dtype = *(const int *)*state;
    DiffusionZContext *with = open_model(sketch(), 0, dtype),
                      *without = open_eager(sketch(), dtype);
    for (size_t i = 0; i < CASES; i++) {
        double took[3];
        DiffusionZOutput want = {0}, got = {0};
        for (int round = 0; round < 3; round++) { /* recorded in the first, replayed afterwards */
            double start = seconds();
            got = draw_case(with, &cases[i], 11);
            took[round] = seconds() - start;
            start = seconds();
            want = draw_case(without, &cases[i], 11);
            double eager = seconds() - start;
            expect_same(cases[i].prompt, &want, &got, cases[i].width, cases[i].height);
            if (round == 2)
                printf("%d x %d, guidance %.1f: recording %.1f ms, replaying %.1f ms, without "
                       "graphs %.1f ms\n",
                       cases[i].width, cases[i].height, (double)cases[i].guidance, took[0] * 1e3,
                       took[2] * 1e3, eager * 1e3);
        }
    }
    expect_recorded(with);
    assert_int_equal(graphs_of(without), 0);
    diffusionz_free(with);
    diffusionz_free(without);
}

static void the_least_used_shape_is_recorded_again(void **state)
{
    enum { TEXT_LAYOUTS = 1 }; /* of the two texts here; none where attention does not pack them */
    (void)state;
    DiffusionZContext *ctx = open_model(golden("models/plain"), 0, DIFFUSIONZ_BF16);
    const struct picture_case first = {"a red star", 64, 64, 3, 0};
    DiffusionZOutput before = draw_case(ctx, &first, 5);
    for (int i = 0; i < KILN_GRAPH_CACHE_STEPS + 2; i++) {
        const struct picture_case other = {"a star", 80 + 16 * (i % 8), 64 + 16 * (i / 8), 3, 0};
        DiffusionZOutput out = draw_case(ctx, &other, 5);
        diffusionz_release_outputs(&out, 1);
        assert_true(graphs_of(ctx) <= KILN_GRAPH_CACHE_STEPS + TEXT_LAYOUTS);
    }
    expect_recorded(ctx);
    assert_in_range(graphs_of(ctx), KILN_GRAPH_CACHE_STEPS, KILN_GRAPH_CACHE_STEPS + TEXT_LAYOUTS);
    DiffusionZOutput after = draw_case(ctx, &first, 5);
    expect_same("recorded again", &before, &after, 64, 64);
    diffusionz_free(ctx);
}

/* A recording that cannot be ended well leaves the device as it was. */
static void a_failed_recording_is_harmless(void **state)
{
    (void)state;
    DiffusionZContext *ctx = open_model(golden("models/plain"), 0, DIFFUSIONZ_BF16);
    const struct picture_case c = {"a red star", 64, 64, 3, 0};
    DiffusionZOutput before = draw_case(ctx, &c, 5);
    for (int way = 0; way < 2; way++) {
        struct kiln_error err;
        struct kt_scope *s = kt_scope_new(0);
        kt a = kt_zeros(s, KT_BF16, 2, (int64_t[]){64, 64});
        kt b = kt_zeros(s, KT_BF16, 2, (int64_t[]){64, 32});
        struct kt_graph *g = kt_graph_begin(s);
        assert_non_null(g);
        kt_add(s, a, a);
        if (way == 0) {
            kt_linear(s, a, b, NULL); /* shapes that do not go together */
        } else {
            float host[64 * 64];
            kt_to_host_f32(s, a, host, 64 * 64); /* nothing to wait for while recording */
        }
        assert_false(kt_graph_end(g, s));
        assert_int_not_equal(kt_scope_check(s, &err), 0);
        printf("as it should be: %s\n", err.text);
        kt_scope_free(s);
    }
    kiln_graph_cache_drop_graphs(ctx->engine->graphs);
    DiffusionZOutput again = draw_case(ctx, &c, 5);
    expect_same("after failed recordings", &before, &again, 64, 64);
    expect_recorded(ctx);
    diffusionz_free(ctx);
}

static void *trim_for_ever(void *arg)
{
    for (int *stop = arg; !__atomic_load_n(stop, __ATOMIC_ACQUIRE);)
        kt_device_trim(0);
    return NULL;
}

/* Another thread gives memory back all the time: it waits for the recording, which holds. */
static void memory_given_back_elsewhere_leaves_a_recording_alone(void **state)
{
    enum { SIDE = 256, TIMES = 20 };
    const int64_t shape[] = {SIDE, SIDE};
    static float once[SIDE * SIDE], replayed[SIDE * SIDE];
    struct kiln_error err;
    pthread_t thread;
    int stop = 0;
    (void)state;
    if (kt_device_open(0, &err))
        fail_msg("%s", err.text);
    struct kt_scope *s = kt_scope_new(0), *outside = kt_scope_new(0);
    kt a = kt_randn(outside, 1, 2, shape), into = kt_zeros(outside, KT_F32, 2, shape);
    kt_to_host_f32(outside, kt_linear(outside, a, a, NULL), once, SIDE * SIDE);
    assert_int_equal(pthread_create(&thread, NULL, trim_for_ever, &stop), 0);
    for (int i = 0; i < TIMES; i++) {
        struct kt_graph *g = kt_graph_begin(s);
        kt y = kt_linear(s, a, a, NULL);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        kt_device_trim(0); /* of the thread that records: nothing */
        kt_copy_into(s, into, y);
        if (!kt_graph_end(g, s))
            fail_msg("%s", kt_scope_check(s, &err) ? err.text : "no graph");
        kt_graph_replay(g, outside);
        kt_to_host_f32(outside, into, replayed, SIDE * SIDE);
        assert_memory_equal(replayed, once, sizeof once);
        kt_graph_free(g);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    assert_int_equal(kt_scope_check(outside, &err), 0);
    kt_scope_free(s);
    kt_scope_free(outside);
}

/* Work of a side stream is in the recording, behind what it follows and before what follows it. */
static void a_side_lane_is_recorded_too(void **state)
{
    enum { SIDE = 256, TIMES = 3 };
    const int64_t shape[] = {SIDE, SIDE};
    static float once[SIDE * SIDE], replayed[SIDE * SIDE];
    struct kiln_error err;
    (void)state;
    if (kt_device_open(0, &err))
        fail_msg("%s", err.text);
    struct kt_scope *outside = kt_scope_new(0), *s = kt_scope_new(0);
    kt a = kt_zeros(outside, KT_F32, 2, shape), into = kt_zeros(outside, KT_F32, 2, shape);
    kt_drop(outside, kt_linear(outside, a, a, NULL)); /* libraries set themselves up */
    struct kt_graph *g = kt_graph_begin(s);
    kt twice = kt_add(s, a, a);
    struct kt_scope *side = kt_scope_side(s);
    kt_follow(side, s);
    kt beside = kt_linear(side, twice, twice, NULL), product = kt_linear(s, twice, a, NULL);
    kt_follow(s, side);
    kt_copy_into(s, into, kt_add(s, beside, product));
    kt_scope_free(side);
    if (!kt_graph_end(g, s))
        fail_msg("%s", kt_scope_check(s, &err) ? err.text : "no graph");
    for (uint64_t seed = 1; seed <= TIMES; seed++) {
        kt_copy_into(outside, a, kt_randn(outside, seed, 2, shape));
        kt doubled = kt_add(outside, a, a), sum = kt_linear(outside, doubled, doubled, NULL);
        kt_to_host_f32(outside, kt_add(outside, sum, kt_linear(outside, doubled, a, NULL)), once,
                       SIDE * SIDE);
        kt_graph_replay(g, outside);
        kt_to_host_f32(outside, into, replayed, SIDE * SIDE);
        assert_int_equal(kt_scope_check(outside, &err), 0);
        assert_memory_equal(replayed, once, sizeof once);
    }
    kt_graph_free(g);
    kt_scope_free(s);
    kt_scope_free(outside);
}

/* Page-locked memory that is let go while a copy from it has not begun is not given to the next. */
static void memory_let_go_early_is_not_reused(void **state)
{
    enum { SIDE = 8192, PRODUCTS = 40, BYTES = 1 << 20 };
    const int64_t shape[] = {SIDE, SIDE}, bytes[] = {BYTES};
    static float got[BYTES];
    struct kiln_error err;
    (void)state;
    if (kt_device_open(0, &err))
        fail_msg("%s", err.text);
    struct kt_scope *s = kt_scope_new(0);
    kt a = kt_normal(s, 1, 0, 1, KT_BF16, 2, shape), into = kt_zeros(s, KT_U8, 1, bytes);
    kt other = kt_zeros(s, KT_U8, 1, bytes);
    kt_staging_free(kt_staging_new(0, BYTES)); /* there when it is asked for: no wait then */
    kt_wait(s);
    for (int i = 0; i < PRODUCTS; i++)
        kt_drop(s, kt_linear(s, a, a, NULL));
    for (int i = 1; i <= 2; i++) {
        struct kt_staging *m = kt_staging_new(0, BYTES);
        assert_non_null(m);
        memset(kt_staging_data(m), i, BYTES);
        kt_staging_copy(s, i == 1 ? into : other, m);
        kt_staging_free(m);
    }
    kt_to_host_f32(s, into, got, BYTES);
    assert_int_equal(kt_scope_check(s, &err), 0);
    for (int i = 0; i < BYTES; i++)
        assert_true(got[i] == 1.0f);
    kt_scope_free(s);
}

/* --- batches ---------------------------------------------------------------------------------- */

/* What was encoded behind the steps of another batch is what the batch itself would have made. */
static void texts_made_ahead_are_the_same(void **state)
{
    enum { SIDE = 512 };
    const int dtype = *(const int *)*state;
    const DiffusionZItem items[2] = {{.prompt = LONG_PROMPT, .seed = 1},
                                     {.prompt = "a blue heart", .seed = 2}};
    DiffusionZBatch batch = {
        .items = items, .item_count = 2, .width = SIDE, .height = SIDE, .num_steps = STEPS};
    DiffusionZOutput out[2][2];
    DiffusionZTimes times[2];
    for (int ahead = 0; ahead < 2; ahead++) {
        DiffusionZContext *ctx = open_model(sketch(), 0, dtype);
        if (ahead)
            assert_int_equal(diffusionz_prefetch(ctx, &batch), 0);
        DiffusionZOutput before = draw(ctx, "a red star", SIDE, STEPS, 3);
        diffusionz_release_outputs(&before, 1);
        assert_int_equal(diffusionz_run_batch(ctx, &batch, out[ahead], &times[ahead]), 0);
        assert_int_equal(times[ahead].texts_encoded, ahead ? 0 : 2);
        diffusionz_free(ctx);
    }
    printf("text %.1f ms, made ahead %.1f ms\n", times[0].text_ms, times[1].text_ms);
    for (int i = 0; i < 2; i++)
        expect_same(items[i].prompt, &out[0][i], &out[1][i], SIDE, SIDE);
}

static void an_item_is_the_same_alone_and_in_a_batch(void **state)
{
    const int dtype = *(const int *)*state;
    DiffusionZContext *ctx = open_model(sketch(), 0, dtype);
    const DiffusionZItem items[4] = {{.prompt = "a red star", .seed = 1},
                                     {.prompt = LONG_PROMPT, .seed = 2},
                                     {.prompt = "", .seed = 3},
                                     {.prompt = "a red star", .seed = 4}};
    for (int side = 256; side <= 512; side += 256) {
        int32_t progress = -1;
        DiffusionZTimes times;
        DiffusionZOutput together[4];
        const DiffusionZBatch batch = {.items = items,
                                       .item_count = 4,
                                       .width = side,
                                       .height = side,
                                       .num_steps = STEPS,
                                       .progress = &progress};
        double start = seconds();
        assert_int_equal(diffusionz_run_batch(ctx, &batch, together, &times), 0);
        double took = (seconds() - start) * 1e3;
        printf("4 of %d px: %.1f ms; text %.1f denoise %.1f decode %.1f\n", side, took,
               times.text_ms, times.denoise_ms, times.decode_ms);
        assert_int_equal(progress, STEPS);
        double sum = times.lora_ms + times.text_ms + times.denoise_ms + times.decode_ms;
        assert_true(sum <= took + 1 && sum >= 0.8 * took - 2);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(together[i].error_code, 0);
            DiffusionZOutput alone = draw(ctx, items[i].prompt, side, STEPS, items[i].seed);
            expect_same("alone and in a batch", &together[i], &alone, side, side);
        }
    }
    diffusionz_free(ctx);
}

static void a_trajectory_is_that_of_the_cpu(void **state)
{
    (void)state;
    DiffusionZOutput out[2];
    size_t values = 0;
    for (int i = 0; i < 2; i++) {
        DiffusionZContext *ctx = open_model(golden("models/plain"), i - 1, DIFFUSIONZ_FP32);
        const DiffusionZItem item = {.prompt = "a star", .seed = 9};
        const DiffusionZBatch batch = {.items = &item,
                                       .item_count = 1,
                                       .width = 64,
                                       .height = 64,
                                       .num_steps = 4,
                                       .keep_trajectory = 1,
                                       .skip_decode = 1};
        assert_int_equal(diffusionz_run_batch(ctx, &batch, &out[i], NULL), 0);
        assert_int_equal(out[i].error_code, 0);
        values = 4 * (size_t)out[i].latent_channels * (size_t)out[i].latent_height *
                 (size_t)out[i].latent_width;
        diffusionz_free(ctx);
    }
    double worst = 0;
    for (size_t i = 0; i < values; i++)
        worst = test_worse(worst, fabs((double)(out[0].trajectory[i] - out[1].trajectory[i])));
    printf("trajectory: at most %.2e from the CPU's\n", worst);
    assert_true(worst < 1e-3);
    diffusionz_release_outputs(out, 2);
}

/* --- fewer bits ------------------------------------------------------------------------------- */

#define WORTH_ITEMS 4

/* Latents of four prompts after so many steps, and the noise they came from.  All of them say what
 * is to be seen: without that a rounding may decide which picture it becomes. */
static void draw_latents(DiffusionZContext *ctx, int steps, DiffusionZOutput *out)
{
    const DiffusionZItem items[WORTH_ITEMS] = {{.prompt = "a red star", .seed = 1},
                                               {.prompt = LONG_PROMPT, .seed = 2},
                                               {.prompt = "a blue ring at night", .seed = 3},
                                               {.prompt = "three orange flowers", .seed = 4}};
    const DiffusionZBatch batch = {.items = items,
                                   .item_count = WORTH_ITEMS,
                                   .width = 512,
                                   .height = 512,
                                   .num_steps = steps,
                                   .keep_trajectory = 1,
                                   .skip_decode = 1};
    if (diffusionz_run_batch(ctx, &batch, out, NULL))
        fail_msg("%s", diffusionz_last_error());
    for (int i = 0; i < WORTH_ITEMS; i++)
        assert_int_equal(out[i].error_code, 0);
}

/* All latents in one row, or the ways from the noise to them, which after one step are what one
 * pass of the model has answered; freed by the caller. */
static float *in_a_row(const DiffusionZOutput *out, bool way, size_t *ret_count)
{
    const size_t n =
        (size_t)out->latent_channels * (size_t)out->latent_height * (size_t)out->latent_width;
    float *row = malloc(WORTH_ITEMS * n * sizeof *row);
    assert_non_null(row);
    for (size_t i = 0; i < WORTH_ITEMS * n; i++) {
        const DiffusionZOutput *item = &out[i / n];
        row[i] = item->latent[i % n] - (way ? item->trajectory[i % n] : 0);
    }
    *ret_count = WORTH_ITEMS * n;
    return row;
}

static struct lora_gap gap_of(const DiffusionZOutput *got, const DiffusionZOutput *want, bool way)
{
    size_t count;
    float *a = in_a_row(got, way, &count), *b = in_a_row(want, way, &count);
    struct lora_gap gap = lora_rig_gap(a, b, count);
    free(a);
    free(b);
    return gap;
}

struct worth {
    int dtype;
    const char *name;
    double forward; /* that one pass may be off by */
    double cosine;  /* that final latents must reach */
};

/* A model of trained weights, beside the same in fp32 on this GPU. */
static void fewer_bits_cost_little(void **state)
{
    const struct worth *worth = *state;
    const int dtypes[2] = {worth->dtype, DIFFUSIONZ_FP32};
    DiffusionZOutput one[2][WORTH_ITEMS], all[2][WORTH_ITEMS];
    for (int i = 0; i < 2; i++) {
        DiffusionZContext *ctx = open_model(sketch(), 0, dtypes[i]);
        draw_latents(ctx, 1, one[i]);
        draw_latents(ctx, STEPS, all[i]);
        diffusionz_free(ctx);
    }
    struct lora_gap forward = gap_of(one[0], one[1], true);
    struct lora_gap final = gap_of(all[0], all[1], false);
    printf("%s beside fp32, %d pictures: one forward off by %.2e, final latents by %.2e, cosine "
           "%.5f\n",
           worth->name, WORTH_ITEMS, forward.relative, final.relative, final.cosine);
    for (int i = 0; i < 2; i++) {
        diffusionz_release_outputs(one[i], WORTH_ITEMS);
        diffusionz_release_outputs(all[i], WORTH_ITEMS);
    }
    assert_true(forward.relative <= worth->forward);
    assert_true(final.cosine >= worth->cosine);
}

/* --- side by side ----------------------------------------------------------------------------- */

/* Two contexts of one device in two threads record and replay at the same time. */
struct painter {
    const char *dir;
    int side;
    size_t off;
};

static void *paint(void *arg)
{
    struct painter *p = arg;
    DiffusionZContext *ctx = open_model(p->dir, 0, DIFFUSIONZ_BF16);
    for (int i = 0; i < 6; i++) {
        const struct picture_case c = {i % 2 ? LONG_PROMPT : "a red star", p->side, p->side, 4, 0};
        DiffusionZOutput first = draw_case(ctx, &c, 3), second = draw_case(ctx, &c, 3);
        if (memcmp(first.rgb, second.rgb, (size_t)(c.width * c.height) * 3) != 0) {
            printf("%s: picture %d is not the same twice\n", p->dir, i);
            p->off++;
        }
        diffusionz_release_outputs(&first, 1);
        diffusionz_release_outputs(&second, 1);
        kiln_graph_cache_drop_graphs(ctx->engine->graphs);
    }
    if (diffusionz_note(ctx)[0]) {
        printf("%s: %s\n", p->dir, diffusionz_note(ctx));
        p->off++;
    }
    diffusionz_free(ctx);
    return NULL;
}

static void two_contexts_do_not_see_each_other(void **state)
{
    (void)state;
    struct painter painters[2] = {{sketch(), 256, 0}, {golden("models/plain"), 64, 0}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, paint, &painters[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(painters[i].off, 0);
    }
}

/* test_graph_cuda [NAME]: only the tests with this name, which may have a * in it. */
int main(int argc, char **argv)
{
    static int fp32 = DIFFUSIONZ_FP32, bf16 = DIFFUSIONZ_BF16, fp8 = DIFFUSIONZ_FP8;
    static struct worth half = {DIFFUSIONZ_BF16, "bf16", 1e-2, 0.999},
                        quarter = {DIFFUSIONZ_FP8, "FP8", 6e-2, 0.99};
    const struct CMUnitTest tests[] = {
        {"a_replay_is_the_step_bf16", a_replay_is_the_step, NULL, NULL, &bf16},
        {"a_replay_is_the_step_fp32", a_replay_is_the_step, NULL, NULL, &fp32},
        {"a_replay_is_the_step_fp8", a_replay_is_the_step, NULL, NULL, &fp8},
        cmocka_unit_test(the_least_used_shape_is_recorded_again),
        cmocka_unit_test(a_failed_recording_is_harmless),
        cmocka_unit_test(memory_given_back_elsewhere_leaves_a_recording_alone),
        cmocka_unit_test(a_side_lane_is_recorded_too),
        cmocka_unit_test(memory_let_go_early_is_not_reused),
        {"texts_made_ahead_bf16", texts_made_ahead_are_the_same, NULL, NULL, &bf16},
        {"texts_made_ahead_fp8", texts_made_ahead_are_the_same, NULL, NULL, &fp8},
        {"alone_and_in_a_batch_bf16", an_item_is_the_same_alone_and_in_a_batch, NULL, NULL, &bf16},
        {"alone_and_in_a_batch_fp32", an_item_is_the_same_alone_and_in_a_batch, NULL, NULL, &fp32},
        {"alone_and_in_a_batch_fp8", an_item_is_the_same_alone_and_in_a_batch, NULL, NULL, &fp8},
        cmocka_unit_test(a_trajectory_is_that_of_the_cpu),
        {"fewer_bits_cost_little_bf16", fewer_bits_cost_little, NULL, NULL, &half},
        {"fewer_bits_cost_little_fp8", fewer_bits_cost_little, NULL, NULL, &quarter},
        cmocka_unit_test(two_contexts_do_not_see_each_other),
    };
    need_gpu();
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("graph_cuda", tests, NULL, NULL);
}
