/* test_trouble_cuda.c - the denoising loop on cuda:0 when something comes between: cancel and
 * progress, memory over many pictures and too little of it, a latent that is not finite, a device
 * that is lost.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include "kernels/rgb8.h"
#include "pipeline/torch/staging.h"
#include "tests/gpu/loop_rig.h"

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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flag_stops_an_item_between_two_steps),
        cmocka_unit_test(many_pictures_keep_their_memory),
        cmocka_unit_test(too_little_memory_costs_speed_or_the_picture),
        cmocka_unit_test(a_latent_that_is_not_finite_fails_alone),
        cmocka_unit_test(a_lost_device_is_said_and_survived),
    };
    if (argc == 3 && strcmp(argv[1], "--lose-device") == 0)
        return lose_device(atoi(argv[2]));
    need_gpu();
    return cmocka_run_group_tests_name("trouble_cuda", tests, NULL, NULL);
}
