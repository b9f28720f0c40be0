/* test_graph_cuda.c - the denoising loop on cuda:0: recorded steps beside computed ones, batches,
 * cancel and progress, memory, and what happens when something breaks under way.
 *
 * Pictures are compared bit by bit: a graph replays the kernels that were recorded, and an item
 * runs the same kernels whoever is beside it.
 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <time.h>

#include "kernels/rgb8.h"
#include "pipeline/torch/load.h"
#include "pipeline/torch/staging.h"
#include "tests/gpu/gpu.h"

#define LONG_PROMPT                                                                                \
    "two red stars above a blue circle at sunset, a yellow ring, three orange flowers in the "     \
    "grass, a purple heart and a green triangle beside a white square, all of it very small"
#define STEPS 8

struct picture_case {
    const char *prompt;
    int width, height, steps;
    float guidance;
};

static const struct picture_case cases[] = {
    {"a red star", 64, 64, STEPS, 0},      {LONG_PROMPT, 64, 64, STEPS, 0},
    {"a red star", 256, 256, STEPS, 0},    {"a blue ring at night", 512, 512, STEPS, 0},
    {"a red star", 384, 256, STEPS, 0},    {"a red star", 272, 208, STEPS, 0}, /* padded rows */
    {"a red star", 256, 256, STEPS, 2.5f}, {LONG_PROMPT, 256, 256, 3, 1.5f},
};
#define CASES (sizeof cases / sizeof cases[0])

static DiffusionZOutput draw_case(DiffusionZContext *ctx, const struct picture_case *c,
                                  uint64_t seed)
{
    const DiffusionZItem item = {.prompt = c->prompt, .seed = seed};
    const DiffusionZBatch batch = {.items = &item,
                                   .item_count = 1,
                                   .width = c->width,
                                   .height = c->height,
                                   .num_steps = c->steps,
                                   .guidance_scale = c->guidance};
    DiffusionZOutput out;
    if (diffusionz_run_batch(ctx, &batch, &out, NULL))
        fail_msg("%s", diffusionz_last_error());
    if (out.error_code)
        fail_msg("%s", out.error_msg);
    return out;
}

/* Bit by bit; releases both. */
static void expect_same(const char *what, DiffusionZOutput *a, DiffusionZOutput *b, int width,
                        int height)
{
    size_t values = (size_t)a->latent_channels * (size_t)a->latent_height * (size_t)a->latent_width;
    size_t off = 0, pixels = 0;
    for (size_t i = 0; i < values; i++)
        off += memcmp(&a->latent[i], &b->latent[i], sizeof(float)) != 0;
    for (size_t i = 0; i < (size_t)width * (size_t)height * 3; i++)
        pixels += a->rgb[i] != b->rgb[i];
    if (off || pixels)
        fail_msg("%s, %d x %d: %zu of %zu values of the latent and %zu bytes of the picture differ",
                 what, width, height, off, values, pixels);
    diffusionz_release_outputs(a, 1);
    diffusionz_release_outputs(b, 1);
}

/* A context that computes every step. */
static DiffusionZContext *open_eager(const char *dir, int dtype)
{
    DiffusionZContext *ctx = open_model(dir, 0, dtype);
    const struct kiln_shape all = {.height = 1, .width = 1};
    kiln_graph_cache_refuse(ctx->engine->graphs, &all);
    return ctx;
}

static size_t graphs_of(const DiffusionZContext *ctx)
{
    return kiln_graph_cache_count(ctx->engine->graphs);
}

static void expect_recorded(const DiffusionZContext *ctx)
{
    if (diffusionz_note(ctx)[0])
        fail_msg("%s", diffusionz_note(ctx));
    assert_true(graphs_of(ctx) > 0);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
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
    (void)state;
    DiffusionZContext *ctx = open_model(golden("models/plain"), 0, DIFFUSIONZ_BF16);
    const struct picture_case first = {"a red star", 64, 64, 3, 0};
    DiffusionZOutput before = draw_case(ctx, &first, 5);
    for (int i = 0; i < KILN_GRAPH_CACHE_SHAPES + 2; i++) {
        const struct picture_case other = {"a star", 80 + 16 * (i % 8), 64 + 16 * (i / 8), 3, 0};
        DiffusionZOutput out = draw_case(ctx, &other, 5);
        diffusionz_release_outputs(&out, 1);
        assert_true(graphs_of(ctx) <= KILN_GRAPH_CACHE_SHAPES);
    }
    expect_recorded(ctx);
    assert_int_equal(graphs_of(ctx), KILN_GRAPH_CACHE_SHAPES);
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
    kiln_graph_cache_stale(ctx->engine->graphs);
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
    float worst = 0;
    for (size_t i = 0; i < values; i++)
        worst = fmaxf(worst, fabsf(out[0].trajectory[i] - out[1].trajectory[i]));
    printf("trajectory: at most %.2e from the CPU's\n", (double)worst);
    assert_true(worst < 1e-3f);
    diffusionz_release_outputs(out, 2);
}

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
        p->off += memcmp(first.rgb, second.rgb, (size_t)(c.width * c.height) * 3) != 0;
        diffusionz_release_outputs(&first, 1);
        diffusionz_release_outputs(&second, 1);
        kiln_graph_cache_stale(ctx->engine->graphs);
    }
    p->off += diffusionz_note(ctx)[0] != '\0';
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

/* --- cancel, progress ------------------------------------------------------------------------- */

struct watch {
    const int32_t *progress;
    int32_t *flag;
    int at; /* the progress at which the flag goes up */
    int seen, falls;
};

static void *raise_flag(void *arg)
{
    struct watch *w = arg;
    for (int last = 0; last >= 0;) {
        int now = __atomic_load_n(w->progress, __ATOMIC_ACQUIRE);
        w->falls += now < last;
        w->seen += now > last;
        last = now;
        if (now >= w->at) {
            __atomic_store_n(w->flag, 1, __ATOMIC_RELEASE);
            return NULL;
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    return NULL;
}

static void a_flag_stops_an_item_between_two_steps(void **state)
{
    (void)state;
    DiffusionZContext *ctx = open_model(sketch(), 0, DIFFUSIONZ_BF16);
    DiffusionZOutput warm = draw(ctx, "a red star", 512, 50, 1);
    double start = seconds();
    DiffusionZOutput whole = draw(ctx, "a red star", 512, 50, 2);
    double each = seconds() - start;
    int32_t flag = 0, progress = 0;
    const DiffusionZItem items[2] = {{.prompt = "a red star", .seed = 1, .cancel = &flag},
                                     {.prompt = "a red star", .seed = 2}};
    const DiffusionZBatch batch = {.items = items,
                                   .item_count = 2,
                                   .width = 512,
                                   .height = 512,
                                   .num_steps = 50,
                                   .progress = &progress};
    struct watch watch = {.progress = &progress, .flag = &flag, .at = 5};
    pthread_t thread;
    pthread_create(&thread, NULL, raise_flag, &watch);
    DiffusionZOutput out[2];
    start = seconds();
    assert_int_equal(diffusionz_run_batch(ctx, &batch, out, NULL), 0);
    double took = seconds() - start;
    pthread_join(thread, NULL);
    printf("cancelled at 10 of 50 steps: %.1f ms for both, %.1f ms for one picture alone; progress "
           "was seen to grow %d times\n",
           took * 1e3, each * 1e3, watch.seen);
    assert_int_equal(out[0].error_code, KILN_CANCELLED);
    assert_null(out[0].rgb);
    assert_true(watch.seen >= 3 && watch.falls == 0);
    assert_int_equal(progress, 50);
    assert_true(took < 1.8 * each);
    diffusionz_release_outputs(&out[0], 1);
    expect_same("the neighbour of a cancelled item", &out[1], &whole, 512, 512);
    diffusionz_release_outputs(&warm, 1);
    diffusionz_free(ctx);
}

/* --- memory ----------------------------------------------------------------------------------- */

static void many_pictures_keep_their_memory(void **state)
{
    (void)state;
    DiffusionZContext *ctx = open_model(sketch(), 0, DIFFUSIONZ_BF16);
    size_t used_first = 0, held_first = 0, used = 0, held = 0;
    for (int i = 0; i < 50; i++) {
        DiffusionZOutput out =
            draw(ctx, i % 2 ? "a star" : LONG_PROMPT, i % 3 ? 256 : 512, STEPS, (uint64_t)i);
        diffusionz_release_outputs(&out, 1);
        assert_true(kt_device_memory(0, &used, &held));
        if (i == 11) /* every shape has been recorded and replayed */
            used_first = used, held_first = held;
    }
    expect_recorded(ctx);
    printf("50 pictures of 4 shapes: %zu bytes in use, %zu held\n", used, held);
    assert_int_equal(used, used_first);
    assert_int_equal(held, held_first);
    diffusionz_free(ctx);
}

/* Takes the device's memory in pieces of 256 MiB until there is no more; returns the scopes. */
#define PIECE ((int64_t)256 << 20)
#define PIECES 1024

static int fill_device(struct kt_scope *scopes[PIECES])
{
    int count = 0;
    struct kiln_error err;
    while (count < PIECES) {
        struct kt_scope *s = kt_scope_new(0);
        kt_zeros(s, KT_U8, 1, (int64_t[]){PIECE});
        if (kt_scope_check(s, &err)) {
            assert_int_equal(err.code, KILN_NO_MEMORY);
            kt_scope_free(s);
            break;
        }
        scopes[count++] = s;
    }
    return count;
}

/* Decoded in strips, a picture may differ by a rounding; its latent is the same. */
static void expect_rounded(const DiffusionZOutput *want, const DiffusionZOutput *got, size_t bytes)
{
    size_t values =
        (size_t)want->latent_channels * (size_t)want->latent_height * (size_t)want->latent_width;
    assert_memory_equal(want->latent, got->latent, values * sizeof(float));
    assert_true(share_beyond(want->rgb, got->rgb, bytes, 1) <= 0.001);
}

/* With ever more room a picture comes out or does not, and a failure is forgotten. */
static void too_little_memory_costs_speed_or_the_picture(void **state)
{
    (void)state;
    static struct kt_scope *scopes[PIECES];
    DiffusionZContext *ctx = open_model(sketch(), 0, DIFFUSIONZ_BF16);
    const struct picture_case c = {"a red star", 1024, 1024, STEPS, 0};
    DiffusionZOutput want = draw_case(ctx, &c, 7);
    kiln_graph_cache_stale(ctx->engine->graphs);
    kt_device_trim(0);
    int count = fill_device(scopes), drawn = 0, refused = 0;
    for (int room = 0; room <= 8; room++) {
        for (int i = 0; room > 0 && i < 1 << (room / 2) && count > 0; i++)
            kt_scope_free(scopes[--count]);
        kt_device_trim(0);
        const DiffusionZItem item = {.prompt = c.prompt, .seed = 7};
        const DiffusionZBatch batch = {.items = &item,
                                       .item_count = 1,
                                       .width = c.width,
                                       .height = c.height,
                                       .num_steps = c.steps};
        DiffusionZOutput out = {0};
        int code = diffusionz_run_batch(ctx, &batch, &out, NULL);
        code = code ? code : out.error_code;
        if (code) {
            assert_int_equal(code, KILN_NO_MEMORY);
            refused++;
        } else {
            expect_rounded(&want, &out, (size_t)c.width * (size_t)c.height * 3);
            drawn++;
        }
        diffusionz_release_outputs(&out, 1);
    }
    printf("little memory: drawn %d times, refused %d times; note: %s\n", drawn, refused,
           diffusionz_note(ctx));
    assert_true(drawn > 0);
    while (count > 0)
        kt_scope_free(scopes[--count]);
    kt_device_trim(0);
    DiffusionZOutput after = draw_case(ctx, &c, 7);
    expect_rounded(&want, &after, (size_t)c.width * (size_t)c.height * 3);
    diffusionz_release_outputs(&want, 1);
    diffusionz_release_outputs(&after, 1);
    diffusionz_free(ctx);
}

/* --- what breaks ------------------------------------------------------------------------------ */

static void a_latent_that_is_not_finite_fails_alone(void **state)
{
    (void)state;
    DiffusionZContext *ctx = open_model(sketch(), 0, DIFFUSIONZ_BF16);
    poison(ctx, "poison");
    for (int round = 0; round < 2; round++) {
        const DiffusionZItem items[3] = {{.prompt = "a star", .seed = 1},
                                         {.prompt = "poison", .seed = 2},
                                         {.prompt = "a star", .seed = 3}};
        const DiffusionZBatch batch = {
            .items = items, .item_count = 3, .width = 256, .height = 256, .num_steps = STEPS};
        DiffusionZOutput out[3];
        assert_int_equal(diffusionz_run_batch(ctx, &batch, out, NULL), 0);
        assert_int_equal(out[1].error_code, KILN_DEVICE);
        assert_string_equal(out[1].error_msg, "non-finite latent at step 1 of 8");
        for (int i = 0; i < 3; i += 2) {
            DiffusionZOutput alone = draw(ctx, items[i].prompt, 256, STEPS, items[i].seed);
            expect_same("beside a bad item", &out[i], &alone, 256, 256);
        }
        diffusionz_release_outputs(&out[1], 1);
    }
    diffusionz_free(ctx);
}

/* In a process of its own, since nothing repairs a device for the process that broke it.  So
 * many milliseconds after it was told to do what it must not, page-locked memory that it has used
 * is let go and the next batch is asked for: it may be lost then or still to be lost. */
static int lose_device(int wait_ms)
{
    enum { BYTES = 4096 };
    DiffusionZContext *ctx = open_model(golden("models/plain"), 0, DIFFUSIONZ_BF16);
    DiffusionZOutput out = draw(ctx, "a star", 64, 2, 1);
    diffusionz_release_outputs(&out, 1);
    struct kt_scope *s = kt_scope_new(0);
    struct kt_staging *staging = kt_staging_new(0, BYTES);
    if (!staging)
        return 4;
    memset(kt_staging_data(staging), 0, BYTES);
    kt target = kt_zeros(s, KT_U8, 1, (int64_t[]){BYTES});
    int (*launch)(const struct kiln_rgb8 *, kiln_stream, struct kiln_error *) = NULL;
    *(void **)&launch = dlsym(RTLD_DEFAULT, "kiln_rgb8_launch");
    if (!launch)
        return 2;
    struct kiln_error err;
    const struct kiln_rgb8 wild = {
        .x = (void *)16, .rgb = (void *)16, .pixels = 1 << 20, .channels = 3, .format = KILN_BF16};
    (void)launch(&wild, NULL, &err);
    kt_staging_copy(s, target, staging);
    struct kt_fetch *fetch = kt_fetch_start(s, target);
    nanosleep(&(struct timespec){.tv_nsec = wait_ms * 1000000L}, NULL);
    kt_staging_free(staging);
    kt_fetch_free(fetch);
    kt_scope_free(s);
    const DiffusionZItem item = {.prompt = "a star", .seed = 1};
    const DiffusionZBatch batch = {
        .items = &item, .item_count = 1, .width = 64, .height = 64, .num_steps = 2};
    int code = diffusionz_run_batch(ctx, &batch, &out, NULL);
    printf("code %d: %s\n", code, diffusionz_last_error());
    int again = diffusionz_run_batch(ctx, &batch, &out, NULL);
    diffusionz_free(ctx);
    return code == KILN_DEVICE && again == KILN_DEVICE ? 0 : 3;
}

static void expect_orderly_end(int wait_ms)
{
    char self[4096], line[1024] = "";
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    char command[4200];
    snprintf(command, sizeof command, "%s --lose-device %d 2>&1", self, wait_ms);
    FILE *child = popen(command, "r");
    assert_non_null(child);
    bool said = false;
    while (fgets(line, sizeof line, child)) {
        printf("    %s", line);
        said = said || strstr(line, "cuda:0 is lost");
    }
    int status = pclose(child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(said);
}

static void a_lost_device_is_said_and_survived(void **state)
{
    static const int wait_ms[] = {0, 1, 3, 200};
    (void)state;
    for (size_t i = 0; i < sizeof wait_ms / sizeof *wait_ms; i++)
        expect_orderly_end(wait_ms[i]);
}

int main(int argc, char **argv)
{
    static int fp32 = DIFFUSIONZ_FP32, bf16 = DIFFUSIONZ_BF16, fp8 = DIFFUSIONZ_FP8;
    const struct CMUnitTest tests[] = {
        {"a_replay_is_the_step_bf16", a_replay_is_the_step, NULL, NULL, &bf16},
        {"a_replay_is_the_step_fp32", a_replay_is_the_step, NULL, NULL, &fp32},
        {"a_replay_is_the_step_fp8", a_replay_is_the_step, NULL, NULL, &fp8},
        cmocka_unit_test(the_least_used_shape_is_recorded_again),
        cmocka_unit_test(a_failed_recording_is_harmless),
        cmocka_unit_test(memory_given_back_elsewhere_leaves_a_recording_alone),
        cmocka_unit_test(memory_let_go_early_is_not_reused),
        {"alone_and_in_a_batch_bf16", an_item_is_the_same_alone_and_in_a_batch, NULL, NULL, &bf16},
        {"alone_and_in_a_batch_fp32", an_item_is_the_same_alone_and_in_a_batch, NULL, NULL, &fp32},
        {"alone_and_in_a_batch_fp8", an_item_is_the_same_alone_and_in_a_batch, NULL, NULL, &fp8},
        cmocka_unit_test(a_trajectory_is_that_of_the_cpu),
        cmocka_unit_test(two_contexts_do_not_see_each_other),
        cmocka_unit_test(a_flag_stops_an_item_between_two_steps),
        cmocka_unit_test(many_pictures_keep_their_memory),
        cmocka_unit_test(too_little_memory_costs_speed_or_the_picture),
        cmocka_unit_test(a_latent_that_is_not_finite_fails_alone),
        cmocka_unit_test(a_lost_device_is_said_and_survived),
    };
    if (argc == 3 && strcmp(argv[1], "--lose-device") == 0)
        return lose_device(atoi(argv[2]));
    need_gpu();
    return cmocka_run_group_tests_name("graph_cuda", tests, NULL, NULL);
}
