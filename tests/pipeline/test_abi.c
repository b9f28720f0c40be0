/* test_abi.c - the published C ABI as a program that links the library meets it. */
#include <dlfcn.h>
#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schemas/limits.h"
#include "storage/formats/pictures/webp.h"
#include "tests/pipeline/abi.h"
#include "tests/support/process.h"

static DiffusionZResult draw(DiffusionZContext *ctx, const DiffusionZParams *p)
{
    DiffusionZResult r = diffusionz_generate(ctx, p);
    if (r.error_code)
        fail_msg("%s", r.error_msg);
    assert_null(r.error_msg);
    assert_non_null(r.image_data);
    assert_true(r.image_len > 0);
    return r;
}

static bool same(const DiffusionZResult *a, const DiffusionZResult *b)
{
    return a->image_len == b->image_len &&
           memcmp(a->image_data, b->image_data, (size_t)a->image_len) == 0;
}

static void one_init_many_pictures(void **state)
{
    (void)state;
    DiffusionZContext *ctx = diffusionz_init(golden("models/plain"), -1);
    assert_non_null(ctx);
    DiffusionZParams p = small_picture(1);
    p.width = 96;
    p.num_steps = 8;
    DiffusionZResult first = draw(ctx, &p), again = draw(ctx, &p);
    p.seed = 2;
    DiffusionZResult other = draw(ctx, &p);
    assert_true(same(&first, &again));
    assert_false(same(&first, &other));
    uint8_t *rgb;
    uint32_t width, height;
    struct kiln_error err;
    assert_int_equal(kiln_webp_decode(first.image_data, (size_t)first.image_len, 1u << 20, &rgb,
                                      &width, &height, &err),
                     0);
    assert_int_equal(width, 96);
    assert_int_equal(height, 64);
    assert_int_equal(first.width, 96);
    assert_int_equal(first.height, 64);
    free(rgb);
    diffusionz_free_result(&first);
    diffusionz_free_result(&again);
    diffusionz_free_result(&other);
    diffusionz_free(ctx);
}

/* --- failures --------------------------------------------------------------------------------- */

static void expect_failure(DiffusionZContext *ctx, const DiffusionZParams *p, int code,
                           const char *part)
{
    DiffusionZResult r = diffusionz_generate(ctx, p);
    assert_int_equal(r.error_code, code);
    assert_null(r.image_data);
    assert_int_equal(r.image_len, 0);
    assert_int_equal(r.width, 0);
    assert_int_equal(r.height, 0);
    assert_non_null(r.error_msg);
    if (!strstr(r.error_msg, part))
        fail_msg("\"%s\" does not say \"%s\"", r.error_msg, part);
    assert_string_equal(diffusionz_last_error(), r.error_msg);
    diffusionz_free_result(&r);
    assert_null(r.error_msg);
    assert_int_equal(r.error_code, 0);
    diffusionz_free_result(&r);
}

static void nonsense_is_answered(void **state)
{
    (void)state;
    DiffusionZContext *ctx = open_plain();
    DiffusionZParams p = small_picture(1);
    expect_failure(NULL, &p, KILN_BAD_INPUT, "context");
    expect_failure(ctx, NULL, KILN_BAD_INPUT, "parameters");
    p.prompt = NULL;
    expect_failure(ctx, &p, KILN_BAD_INPUT, "prompt is missing");
    p.prompt = "broken \xff utf-8";
    expect_failure(ctx, &p, KILN_BAD_INPUT, "UTF-8");
    char *longer = calloc(1, KILN_PROMPT_MAX + 2);
    memset(longer, 'a', KILN_PROMPT_MAX + 1);
    p.prompt = longer;
    expect_failure(ctx, &p, KILN_BAD_INPUT, "longer than");
    p = small_picture(1);
    p.negative_prompt = longer;
    expect_failure(ctx, &p, KILN_BAD_INPUT, "negative prompt");
    free(longer);
    const int32_t sides[] = {0, -16, 48, 65, 72, 4096, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        p = small_picture(1);
        p.width = sides[i];
        expect_failure(ctx, &p, KILN_BAD_INPUT, "width");
        p = small_picture(1);
        p.height = sides[i];
        expect_failure(ctx, &p, KILN_BAD_INPUT, "height");
    }
    p = small_picture(1);
    p.num_steps = 0;
    expect_failure(ctx, &p, KILN_BAD_INPUT, "steps 0");
    p.num_steps = 51;
    expect_failure(ctx, &p, KILN_BAD_INPUT, "steps 51");
    const float scales[] = {NAN, INFINITY, -1.0f, 31.0f};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        p = small_picture(1);
        p.guidance_scale = scales[i];
        expect_failure(ctx, &p, KILN_BAD_INPUT, "guidance");
    }
    p = small_picture(1);
    p.lora_path = "/nowhere/style.safetensors";
    expect_failure(ctx, &p, KILN_NOT_FOUND, "/nowhere/style.safetensors");
    p.lora_path = golden("loras/diffusers.safetensors");
    p.lora_weight = NAN;
    expect_failure(ctx, &p, KILN_BAD_INPUT, "not a finite number");
    p = small_picture(1);
    DiffusionZResult after = draw(ctx, &p); /* the context still works */
    diffusionz_free_result(&after);
    diffusionz_free(ctx);
}

static void a_missing_model_says_so(void **state)
{
    (void)state;
    assert_null(diffusionz_init(NULL, -1));
    assert_non_null(strstr(diffusionz_last_error(), "no model path"));
    assert_null(diffusionz_init("", -1));
    assert_null(diffusionz_init("/nowhere", -1));
    assert_non_null(strstr(diffusionz_last_error(), "/nowhere"));
    assert_null(diffusionz_init(golden("models/plain"), -7));
    assert_non_null(strstr(diffusionz_last_error(), "device -7"));
    diffusionz_free(NULL);
    diffusionz_free_result(NULL);
    diffusionz_release_outputs(NULL, 3);
    diffusionz_free_ids(NULL);
    assert_string_equal(diffusionz_model_hash(NULL), "");
    assert_int_equal(diffusionz_load_lora(NULL, "x", 1), KILN_BAD_INPUT);
    assert_int_equal(diffusionz_unload_lora(NULL), KILN_BAD_INPUT);
    assert_int_equal(diffusionz_open(NULL, NULL), KILN_BAD_INPUT);
    DiffusionZContext *ctx = NULL;
    assert_int_equal(diffusionz_open(NULL, &ctx), KILN_BAD_INPUT);
    assert_null(ctx);
}

static void options_outside_of_their_range(void **state)
{
    (void)state;
    static const DiffusionZOptions odd[] = {
        {.device_id = -1, .threads = -1},  {.device_id = -1, .threads = INT32_MAX},
        {.device_id = INT32_MIN},          {.device_id = INT32_MAX},
        {.device_id = -1, .dtype = 99},    {.device_id = -1, .dtype = -1},
        {.device_id = -1, .lora_way = 77}, {.device_id = -1, .lora_way = INT32_MIN},
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        DiffusionZOptions options = odd[i];
        DiffusionZContext *ctx = NULL;
        options.model_path = golden("models/plain");
        assert_int_not_equal(diffusionz_open(&options, &ctx), 0);
        assert_null(ctx);
    }
}

static void a_gpu_that_is_not_there(void **state)
{
    (void)state;
    if (access("/dev/nvidia0", F_OK) == 0)
        skip();
    assert_null(diffusionz_init(golden("models/plain"), 0));
    assert_non_null(strstr(diffusionz_last_error(), "cuda:0"));
}

static void a_result_may_be_freed_twice(void **state)
{
    (void)state;
    static const DiffusionZResult empty;
    DiffusionZContext *ctx = open_plain();
    DiffusionZParams p = small_picture(1);
    DiffusionZResult r = draw(ctx, &p), zero = {0};
    diffusionz_free_result(&r);
    assert_memory_equal(&r, &empty, sizeof r);
    diffusionz_free_result(&r);
    diffusionz_free_result(&zero);
    assert_memory_equal(&zero, &empty, sizeof zero);
    diffusionz_free(ctx);
}

static void image_len_never_wraps(void **state)
{
    (void)state;
    const size_t sizes[] = {(size_t)INT32_MAX + 1, (size_t)UINT32_MAX + 101, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        DiffusionZResult r = {0};
        struct kiln_error err;
        assert_int_equal(kiln_context_picture(&r, malloc(1), sizes[i], &err), KILN_UNSUPPORTED);
        assert_non_null(strstr(err.text, "2147483647"));
        assert_null(r.image_data);
        assert_int_equal(r.image_len, 0);
    }
    DiffusionZResult r = {0};
    assert_int_equal(kiln_context_picture(&r, malloc(1), INT32_MAX, NULL), 0);
    assert_int_equal(r.image_len, INT32_MAX);
    diffusionz_free_result(&r);
}

/* Nothing that a program can hand over ends it, or makes it wait. */
static void odd_files_are_answered(void **state)
{
    (void)state;
    char dir[] = "/tmp/kiln-abi-XXXXXX", fifo[64], loop[64];
    assert_non_null(mkdtemp(dir));
    snprintf(fifo, sizeof fifo, "%s/fifo", dir);
    snprintf(loop, sizeof loop, "%s/loop", dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(symlink("loop", loop), 0);
    char *longer = calloc(1, 20000);
    memset(longer, 'a', 19999);
    for (int i = 200; i < 19999; i += 200)
        longer[i] = '/';
    const char *const odd[] = {
        "",    "/", dir, fifo, loop, "/dev/zero", "/dev/null", "/proc/self/mem", "broken \xff\xfe",
        longer};
    DiffusionZContext *ctx = open_plain();
    alarm(120); /* seconds; no file may be waited for */
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        assert_null(diffusionz_init(odd[i], -1));
        assert_true(*diffusionz_last_error() != '\0');
        assert_int_not_equal(diffusionz_load_lora(ctx, odd[i], 1), 0);
        DiffusionZParams p = small_picture(1);
        p.lora_path = odd[i];
        DiffusionZResult r = diffusionz_generate(ctx, &p);
        assert_int_not_equal(r.error_code, 0);
        assert_non_null(r.error_msg);
        diffusionz_free_result(&r);
    }
    const float weights[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        assert_int_equal(
            diffusionz_load_lora(ctx, golden("loras/diffusers.safetensors"), weights[i]),
            KILN_BAD_INPUT);
    alarm(0);
    DiffusionZParams p = small_picture(1);
    DiffusionZResult r = draw(ctx, &p);
    diffusionz_free_result(&r);
    diffusionz_free(ctx);
    free(longer);
    unlink(fifo);
    unlink(loop);
    rmdir(dir);
}

/* A path that is cut would be another file's. */
static void a_path_is_never_cut(void **state)
{
    (void)state;
    DiffusionZContext *ctx = open_plain();
    char *path = malloc(PATH_MAX + 100);
    memset(path, 'a', PATH_MAX + 99);
    path[PATH_MAX + 99] = '\0';
    assert_int_equal(diffusionz_load_lora(ctx, path, 1), KILN_BAD_INPUT);
    assert_non_null(strstr(diffusionz_last_error(), "too long"));
    free(path);
    diffusionz_free(ctx);
}

/* --- LoRA ------------------------------------------------------------------------------------- */

static void lora_comes_and_goes_without_a_trace(void **state)
{
    (void)state;
    DiffusionZContext *ctx = open_plain();
    const char *style = golden("loras/diffusers.safetensors");
    const char *second = golden("loras/second.safetensors");
    DiffusionZParams p = small_picture(3), with = p;
    DiffusionZResult bare = draw(ctx, &p);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(diffusionz_load_lora(ctx, i % 2 ? style : second, 0.7f), 0);
        DiffusionZResult styled = draw(ctx, &p);
        assert_false(same(&bare, &styled));
        diffusionz_free_result(&styled);
        assert_int_equal(diffusionz_unload_lora(ctx), 0);
        DiffusionZResult again = draw(ctx, &p);
        assert_true(same(&bare, &again));
        diffusionz_free_result(&again);
    }
    with.lora_path = style;
    with.lora_weight = 0.7f;
    DiffusionZResult of_call = draw(ctx, &with), after = draw(ctx, &p);
    assert_false(same(&bare, &of_call));
    assert_true(same(&bare, &after)); /* a call's LoRA ends with the call */
    assert_int_equal(diffusionz_load_lora(ctx, style, 0.7f), 0);
    assert_int_equal(diffusionz_load_lora(ctx, "/nowhere.safetensors", 1), KILN_NOT_FOUND);
    assert_non_null(strstr(diffusionz_last_error(), "/nowhere.safetensors"));
    char *here = getcwd(NULL, 0);
    assert_non_null(here);
    assert_int_equal(chdir(golden("loras")), 0);
    assert_int_equal(diffusionz_load_lora(ctx, "diffusers.safetensors", 0.7f), 0);
    assert_int_equal(chdir(here), 0); /* a name that was relative stays the file it was */
    free(here);
    DiffusionZResult kept = draw(ctx, &p);
    assert_true(same(&of_call, &kept)); /* a failed load leaves what was there */
    diffusionz_free_result(&bare);
    diffusionz_free_result(&of_call);
    diffusionz_free_result(&after);
    diffusionz_free_result(&kept);
    diffusionz_free(ctx);
}

/* --- threads ---------------------------------------------------------------------------------- */

struct thread_work {
    DiffusionZContext *ctx;
    int64_t seed;
    DiffusionZResult results[4];
};

static void *draw_four(void *argument)
{
    struct thread_work *w = argument;
    for (int i = 0; i < 4; i++) {
        DiffusionZParams p = small_picture(w->seed + i);
        w->results[i] = diffusionz_generate(w->ctx, &p);
    }
    return NULL;
}

/* Runs the same work at once and then alone; the pictures must be the same ones. */
static void run_side_by_side(DiffusionZContext *a, DiffusionZContext *b)
{
    struct thread_work work[2] = {{.ctx = a, .seed = 10}, {.ctx = b, .seed = 20}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, draw_four, &work[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 8; i++) {
        struct thread_work *w = &work[i / 4];
        DiffusionZParams p = small_picture(w->seed + i % 4);
        DiffusionZResult alone = draw(a, &p);
        assert_int_equal(w->results[i % 4].error_code, 0);
        assert_true(same(&alone, &w->results[i % 4]));
        diffusionz_free_result(&alone);
        diffusionz_free_result(&w->results[i % 4]);
    }
}

static void two_contexts_in_two_threads(void **state)
{
    (void)state;
    DiffusionZContext *a = open_plain(), *b = open_plain();
    run_side_by_side(a, b);
    diffusionz_free(a);
    diffusionz_free(b);
}

static void one_context_in_two_threads(void **state)
{
    (void)state;
    DiffusionZContext *ctx = open_plain();
    run_side_by_side(ctx, ctx);
    diffusionz_free(ctx);
}

/* --- memory ----------------------------------------------------------------------------------- */

static void a_thousand_calls_leave_nothing(void **state)
{
    (void)state;
    DiffusionZContext *ctx = open_plain();
    size_t before = 0;
    for (int i = 0; i < 1100; i++) {
        DiffusionZParams p = small_picture(i);
        if (i % 10 == 0)
            p.width = 40; /* failures must not leak either */
        DiffusionZResult r = diffusionz_generate(ctx, &p);
        diffusionz_free_result(&r);
        if (i == 99) /* caches are warm */
            before = mallinfo2().uordblks + mallinfo2().hblkhd;
    }
    size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
    printf("bytes in use after 100 calls %zu, after 1100 calls %zu\n", before, after);
    assert_true(after < before + 64 * 1024);
    diffusionz_free(ctx);
}

/* --- the library itself ----------------------------------------------------------------------- */

static void the_library_shows_its_abi_alone(void **state)
{
    (void)state;
    static const char *const shown[] = {
        "diffusionz_init",        "diffusionz_free",      "diffusionz_generate",
        "diffusionz_free_result", "diffusionz_load_lora", "diffusionz_unload_lora",
        "diffusionz_open",        "diffusionz_run_batch", "diffusionz_last_error"};
    char path[4096];
    if (!kiln_test_built("libdiffusionz.so", path, sizeof path))
        skip();
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        assert_non_null(dlsym(library, shown[i]));
    assert_null(dlsym(library, "kiln_engine_open"));
    assert_null(dlsym(library, "kt_linear"));
    dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_init_many_pictures),
        cmocka_unit_test(nonsense_is_answered),
        cmocka_unit_test(a_missing_model_says_so),
        cmocka_unit_test(options_outside_of_their_range),
        cmocka_unit_test(a_gpu_that_is_not_there),
        cmocka_unit_test(a_result_may_be_freed_twice),
        cmocka_unit_test(image_len_never_wraps),
        cmocka_unit_test(odd_files_are_answered),
        cmocka_unit_test(a_path_is_never_cut),
        cmocka_unit_test(lora_comes_and_goes_without_a_trace),
        cmocka_unit_test(two_contexts_in_two_threads),
        cmocka_unit_test(one_context_in_two_threads),
        cmocka_unit_test(a_thousand_calls_leave_nothing),
        cmocka_unit_test(the_library_shows_its_abi_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
