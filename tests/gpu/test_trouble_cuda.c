/* test_trouble_cuda.c - the denoising loop on cuda:0 when something comes between: cancel and
 * progress, memory over many pictures and too little of it, a latent that is not finite, a device
 * that is silent, or lost.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include "kernels/pictures/rgb8.h"
#include "pipeline/torch/load.h"
#include "pipeline/torch/staging.h"
#include "tests/gpu/loop_rig.h"

/* --- cancel, progress ------------------------------------------------------------------------- */

struct watch {
    const int32_t *progress;
    int32_t *flag;
    int at;                /* the progress at which the flag goes up */
    int stop, seen, falls; /* no more to watch; how often it was seen to grow, and to fall */
};

static void *raise_flag(void *arg)
{
    struct watch *w = arg;
    const double until = seconds() + 60; /* far more than all steps take */
    int now = 0;
    while (now < w->at && !__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE) && seconds() < until) {
        const int last = now;
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        now = __atomic_load_n(w->progress, __ATOMIC_ACQUIRE);
        w->falls += now < last;
        w->seen += now > last;
    }
    __atomic_store_n(w->flag, now >= w->at, __ATOMIC_RELEASE);
    return NULL;
}

/* Beside a neighbour that is drawn after it, as its caption is longer, or together with it. */
static void flag_one_of_two(DiffusionZContext *ctx, const char *neighbour, bool together)
{
    DiffusionZOutput warm = draw(ctx, neighbour, 512, 50, 1);
    double start = seconds();
    DiffusionZOutput whole = draw(ctx, neighbour, 512, 50, 2);
    double each = seconds() - start;
    int32_t flag = 0, progress = 0;
    const DiffusionZItem items[2] = {{.prompt = "a red star", .seed = 1, .cancel = &flag},
                                     {.prompt = neighbour, .seed = 2}};
    const DiffusionZBatch batch = {.items = items,
                                   .item_count = 2,
                                   .width = 512,
                                   .height = 512,
                                   .num_steps = 50,
                                   .progress = &progress};
    struct watch watch = {.progress = &progress, .flag = &flag, .at = together ? 10 : 5};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, raise_flag, &watch), 0);
    DiffusionZOutput out[2];
    start = seconds();
    int code = diffusionz_run_batch(ctx, &batch, out, NULL);
    double took = seconds() - start;
    __atomic_store_n(&watch.stop, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    assert_int_equal(code, 0);
    printf("cancelled at 10 of 50 steps, %s: %.1f ms for both, %.1f ms for one picture alone; "
           "progress was seen to grow %d times\n",
           together ? "drawn together" : "one after the other", took * 1e3, each * 1e3, watch.seen);
    assert_int_equal(out[0].error_code, KILN_CANCELLED);
    assert_null(out[0].rgb);
    assert_true(watch.seen >= 3 && watch.falls == 0);
    assert_int_equal(progress, 50);
    assert_true(together || took < 1.8 * each);
    diffusionz_release_outputs(&out[0], 1);
    expect_same("the neighbour of a cancelled item", &out[1], &whole, 512, 512);
    diffusionz_release_outputs(&warm, 1);
}

static void a_flag_stops_an_item_between_two_steps(void **state)
{
    (void)state;
    DiffusionZContext *ctx = open_model(sketch(), 0, DIFFUSIONZ_BF16);
    DiffusionZOutput warm = draw(ctx, "a red star", 512, 50, 1);
    diffusionz_release_outputs(&warm, 1);
    flag_one_of_two(ctx, LONG_PROMPT, false);
    flag_one_of_two(ctx, "a red star", true);
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

#define PIECES 8192

/* The rest of the device's memory, in pieces that can be given back. */
struct hoard {
    struct kt_scope *at[PIECES];
    int count;
};

/* Takes pieces of so many bytes until there is no more. */
static void take_all(struct hoard *h, int64_t bytes)
{
    struct kiln_error err;
    while (h->count < PIECES) {
        struct kt_scope *s = kt_scope_new(0);
        kt_zeros(s, KT_U8, 1, &bytes);
        if (kt_scope_check(s, &err)) {
            assert_int_equal(err.code, KILN_NO_MEMORY);
            kt_scope_free(s);
            return;
        }
        h->at[h->count++] = s;
    }
    fail_msg("%d pieces of memory were not all", PIECES);
}

static void give_back(struct hoard *h, int pieces)
{
    for (; pieces > 0 && h->count > 0; pieces--)
        kt_scope_free(h->at[--h->count]);
    kt_device_trim(0);
}

/* A device on which nearly all is taken: pictures of SCARCE x SCARCE come out or do not. */
#define SCARCE 1024
#define SCARCE_ITEMS 3
#define PIECE ((int64_t)64 << 20)

struct scarcity {
    DiffusionZContext *ctx;
    DiffusionZOutput want[SCARCE_ITEMS]; /* drawn with all the memory there is */
    struct hoard hoard;
};

/* Decoded in strips, a picture may differ by a rounding; its latent is the same. */
static void expect_rounded(const DiffusionZOutput *want, const DiffusionZOutput *got)
{
    size_t values =
        (size_t)want->latent_channels * (size_t)want->latent_height * (size_t)want->latent_width;
    assert_memory_equal(want->latent, got->latent, values * sizeof(float));
    assert_true(share_beyond(want->rgb, got->rgb, (size_t)SCARCE * SCARCE * 3, 1) <= 0.001);
}

static int run_scarce(const struct scarcity *s, int count, DiffusionZOutput *out)
{
    DiffusionZItem items[SCARCE_ITEMS];
    for (int i = 0; i < count; i++)
        items[i] = (DiffusionZItem){.prompt = "a red star", .seed = (uint64_t)i + 7};
    const DiffusionZBatch batch = {
        .items = items, .item_count = count, .width = SCARCE, .height = SCARCE, .num_steps = STEPS};
    return diffusionz_run_batch(s->ctx, &batch, out, NULL);
}

/* How many of the first `count` pictures came out, as they should be; the others found no memory.
 */
static int draw_scarce(const struct scarcity *s, int count)
{
    DiffusionZOutput out[SCARCE_ITEMS] = {{0}};
    int drawn = 0, code = run_scarce(s, count, out);
    if (code)
        assert_int_equal(code, KILN_NO_MEMORY);
    for (int i = 0; i < count && !code; i++) {
        if (out[i].error_code) {
            assert_int_equal(out[i].error_code, KILN_NO_MEMORY);
            continue;
        }
        expect_rounded(&s->want[i], &out[i]);
        drawn++;
    }
    diffusionz_release_outputs(out, count);
    return drawn;
}

static void make_scarce(struct scarcity *s)
{
    s->ctx = open_model(sketch(), 0, DIFFUSIONZ_BF16);
    if (run_scarce(s, SCARCE_ITEMS, s->want))
        fail_msg("%s", diffusionz_last_error());
    for (int i = 0; i < SCARCE_ITEMS; i++)
        assert_int_equal(s->want[i].error_code, 0);
    assert_string_equal(diffusionz_note(s->ctx), "");
    kiln_graph_cache_drop_graphs(s->ctx->engine->graphs);
    kt_device_trim(0);
    take_all(&s->hoard, PIECE);
}

/* The engine says what it does without, from this size on: what it found out last. */
static void expect_noted(const struct scarcity *s)
{
    const char *note = diffusionz_note(s->ctx);
    if (!strstr(note,
                "1024 x 1024: pictures of this size and larger are rendered without graphs") &&
        !strstr(note,
                "1024 x 1024: pictures of this size and larger pass through the VAE in strips"))
        fail_msg("the note says \"%s\"", note);
    assert_true(s->ctx->engine->tight_pixels > 0);
}

/* What has come out once under a bound comes out again without finding anything new too large. */
static void expect_remembered(const struct scarcity *s)
{
    struct kiln_engine *e = s->ctx->engine;
    const int64_t tight = e->tight_pixels, strips = e->strip_pixels;
    const int rows = e->strip_rows;
    e->note[0] = '\0';
    assert_int_equal(draw_scarce(s, 1), 1);
    assert_string_equal(e->note, "");
    assert_int_equal(e->tight_pixels, tight);
    assert_int_equal(e->strip_pixels, strips);
    assert_int_equal(e->strip_rows, rows);
    assert_int_equal(graphs_of(s->ctx), 0);
}

/* With ever more room a picture comes out or does not; what did not fit is split and remembered. */
static void too_little_memory_costs_speed_or_the_picture(void **state)
{
    (void)state;
    static struct scarcity s;
    int refused = 0;
    make_scarce(&s);
    while (draw_scarce(&s, 1) == 0) {
        assert_int_equal(graphs_of(s.ctx), 0);
        assert_true(++refused < 16);
        give_back(&s.hoard, 1);
    }
    expect_noted(&s);
    printf("little memory: refused %d times, then drawn; note: %s\n", refused,
           diffusionz_note(s.ctx));
    expect_remembered(&s);
    give_back(&s.hoard, 1); /* what the results of three are beside one another */
    assert_int_equal(draw_scarce(&s, SCARCE_ITEMS), SCARCE_ITEMS);
    give_back(&s.hoard, PIECES);
    assert_int_equal(draw_scarce(&s, SCARCE_ITEMS), SCARCE_ITEMS);
    diffusionz_release_outputs(s.want, SCARCE_ITEMS);
    diffusionz_free(s.ctx);
}

/* A model that does not fit beside what others have taken. */
static void a_full_device_is_no_memory_and_not_broken(void **state)
{
    (void)state;
    static struct hoard hoard;
    const DiffusionZOptions options = {
        .model_path = sketch(), .device_id = 0, .dtype = DIFFUSIONZ_BF16};
    DiffusionZContext *ctx = NULL;
    kt_device_trim(0);
    take_all(&hoard, PIECE);
    take_all(&hoard, (int64_t)2 << 20);
    take_all(&hoard, (int64_t)1 << 19);
    assert_int_equal(diffusionz_open(&options, &ctx), KILN_NO_MEMORY);
    printf("a full device: %s\n", diffusionz_last_error());
    assert_null(ctx);
    assert_non_null(strstr(diffusionz_last_error(), "out of memory"));
    assert_null(strchr(diffusionz_last_error(), '\n'));
    give_back(&hoard, PIECES);
    ctx = open_model(sketch(), 0, DIFFUSIONZ_BF16);
    DiffusionZOutput out = draw(ctx, "a star", 256, STEPS, 1);
    diffusionz_release_outputs(&out, 1);
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
        assert_int_equal(out[1].error_code, KILN_NOT_FINITE);
        assert_string_equal(out[1].error_msg, "non-finite latent at step 1 of 8");
        for (int i = 0; i < 3; i += 2) {
            DiffusionZOutput alone = draw(ctx, items[i].prompt, 256, STEPS, items[i].seed);
            expect_same("beside a bad item", &out[i], &alone, 256, 256);
        }
        diffusionz_release_outputs(&out[1], 1);
    }
    diffusionz_free(ctx);
}

/* Every step has its own mark: the one that is named is the one that it was, and not that of the
 * two steps which have been asked for by then. */
static void a_later_step_that_is_not_finite_is_named(void **state)
{
    (void)state;
    DiffusionZContext *ctx = open_model(sketch(), 0, DIFFUSIONZ_BF16);
    DiffusionZOutput before = draw(ctx, "a star", 256, STEPS, 1), bad[2];
    const DiffusionZItem items[2] = {{.prompt = "a star", .seed = 1},
                                     {.prompt = "a ring", .seed = 2}};
    const DiffusionZBatch batch = {
        .items = items, .item_count = 2, .width = 256, .height = 256, .num_steps = STEPS};
    poison_step(ctx, 4);
    assert_int_equal(diffusionz_run_batch(ctx, &batch, bad, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(bad[i].error_code, KILN_NOT_FINITE);
        assert_string_equal(bad[i].error_msg, "non-finite latent at step 5 of 8");
    }
    diffusionz_release_outputs(bad, 2);
    forget_schedule(ctx);
    DiffusionZOutput after = draw(ctx, "a star", 256, STEPS, 1);
    expect_same("after steps that were no numbers", &before, &after, 256, 256);
    diffusionz_free(ctx);
}

/* Some seconds of products in fp32: whoever waits for less is told so, and may wait again. */
static void a_silent_device_is_waited_for_so_long(void **state)
{
    enum { SIDE = 8192, PRODUCTS = 300 };
    const int64_t shape[] = {SIDE, SIDE};
    struct kiln_error err;
    (void)state;
    assert_int_equal(kt_device_open(0, &err), 0);
    const int usual_s = kt_wait_limit(1);
    struct kt_scope *s = kt_scope_new(0), *waits = kt_scope_new(0);
    kt a = kt_normal(s, 1, 0, 1, KT_F32, 2, shape), one = kt_zeros(s, KT_F32, 1, shape);
    const double start = seconds();
    for (int i = 0; i < PRODUCTS; i++)
        kt_drop(s, kt_linear(s, a, a, NULL));
    struct kt_fetch *f = kt_fetch_start(s, one);
    assert_non_null(f);
    assert_int_equal(kt_fetch_wait(f, &err), KILN_DEVICE);
    printf("after %.1f s: %s\n", seconds() - start, err.text);
    assert_non_null(strstr(err.text, "the device has not answered for 1 s"));
    kt_wait(waits);
    assert_int_equal(kt_scope_check(waits, &err), KILN_DEVICE);
    printf("after %.1f s: %s\n", seconds() - start, err.text);
    assert_int_equal(kt_wait_limit(usual_s), 1);
    assert_int_equal(kt_fetch_wait(f, &err), 0);
    printf("it answered after %.1f s\n", seconds() - start);
    kt_fetch_free(f);
    kt_scope_free(waits);
    kt_scope_free(s);
}

/* A kernel that writes where nothing is: queued, and the device is lost when its turn comes.
 * False: the kernel was not to be had. */
static bool break_device(void)
{
    int (*launch)(const struct kiln_rgb8 *, kiln_stream, struct kiln_error *) = NULL;
    *(void **)&launch = dlsym(RTLD_DEFAULT, "kiln_rgb8_launch");
    if (!launch)
        return false;
    struct kiln_error err;
    const struct kiln_rgb8 wild = {
        .x = (void *)16, .rgb = (void *)16, .pixels = 1 << 20, .channels = 3, .format = KILN_BF16};
    (void)launch(&wild, NULL, &err);
    return true;
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
    if (!break_device())
        return 2;
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

/* The same with two pictures under way, one behind the other as their captions have different
 * lengths, and so large that decoding the last one takes a while: whatever has become of each, it
 * has a picture or an error, and can be let go. */
static int lose_device_between(int wait_ms)
{
    DiffusionZContext *ctx = open_model(sketch(), 0, DIFFUSIONZ_BF16);
    const DiffusionZItem items[2] = {{.prompt = "a star", .seed = 1},
                                     {.prompt = LONG_PROMPT, .seed = 2}};
    const DiffusionZBatch batch = {
        .items = items, .item_count = 2, .width = SCARCE, .height = SCARCE, .num_steps = STEPS};
    DiffusionZOutput out[2];
    memset(out, 0x55, sizeof out);
    DiffusionZRun *run = NULL;
    const int begun = diffusionz_begin_batch(ctx, &batch, out, &run);
    if (begun) {
        printf("not begun: %s\n", diffusionz_last_error());
        return 5;
    }
    nanosleep(&(struct timespec){.tv_nsec = wait_ms * 1000000L}, NULL);
    if (!break_device())
        return 2;
    const int code = diffusionz_finish_batch(run, NULL);
    printf("code %d: %s\n", code, code ? diffusionz_last_error() : "finished before it");
    int bad = 0;
    for (int i = 0; i < 2; i++) {
        const bool drawn = out[i].error_code == 0;
        bad += drawn ? !out[i].rgb : out[i].error_code != KILN_DEVICE || !out[i].error_msg;
        printf("picture %d: %s\n", i, drawn ? "drawn" : out[i].error_msg);
    }
    diffusionz_release_outputs(out, 2);
    /* Where both had come, it is the next batch that meets the loss. */
    const int again = diffusionz_run_batch(ctx, &batch, out, NULL);
    printf("then code %d: %s\n", again, diffusionz_last_error());
    diffusionz_free(ctx);
    return bad == 0 && (code == 0 || code == KILN_DEVICE) && again == KILN_DEVICE ? 0 : 3;
}

static void expect_orderly_end(const char *how, int wait_ms)
{
    char self[4096], line[1024] = "";
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    char command[4200];
    snprintf(command, sizeof command, "%s --lose-device%s %d 2>&1", self, how, wait_ms);
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
        expect_orderly_end("", wait_ms[i]);
}

static void pictures_under_way_end_with_their_device(void **state)
{
    static const int wait_ms[] = {0, 1, 3, 10, 200};
    (void)state;
    for (size_t i = 0; i < sizeof wait_ms / sizeof *wait_ms; i++)
        expect_orderly_end("-between", wait_ms[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flag_stops_an_item_between_two_steps),
        cmocka_unit_test(many_pictures_keep_their_memory),
        cmocka_unit_test(too_little_memory_costs_speed_or_the_picture),
        cmocka_unit_test(a_full_device_is_no_memory_and_not_broken),
        cmocka_unit_test(a_latent_that_is_not_finite_fails_alone),
        cmocka_unit_test(a_later_step_that_is_not_finite_is_named),
        cmocka_unit_test(a_silent_device_is_waited_for_so_long),
        cmocka_unit_test(a_lost_device_is_said_and_survived),
        cmocka_unit_test(pictures_under_way_end_with_their_device),
    };
    if (argc == 3 && strcmp(argv[1], "--lose-device") == 0)
        return lose_device(atoi(argv[2]));
    if (argc == 3 && strcmp(argv[1], "--lose-device-between") == 0)
        return lose_device_between(atoi(argv[2]));
    need_gpu();
    return cmocka_run_group_tests_name("trouble_cuda", tests, NULL, NULL);
}
