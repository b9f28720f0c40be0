/* test_lora_live.c - LoRA files that are written into while they are in use: refused by name in
 * every mode, whatever was in place stays.  On the CPU, through the code that GPUs use.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/lora/file/lora.h"
#include "tests/pipeline/abi.h"
#include "tests/support/files.h"
#include "tests/support/lora_rig.h"

#define LIVE "live.safetensors"
#define TRIES 5000 /* some dozen suffice: times of files advance by milliseconds */

/* A copy of a golden file under LIVE. */
static size_t copy_live(const char *name)
{
    static uint8_t bytes[1 << 20];
    FILE *file = fopen(golden(name), "rb");
    assert_non_null(file);
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_in_range(size, 1, sizeof bytes - 1);
    kiln_test_write_bytes(LIVE, bytes, size);
    return size;
}

/* --- one file --------------------------------------------------------------------------------- */

#define WIDTH 6
static const float ones[WIDTH] = {1, 1, 1, 1, 1, 1};
static const struct kiln_lora_module module = {"layers.0.attention.to_q", WIDTH, WIDTH};

static struct kiln_lora_file *open_small(void)
{
    const struct kiln_st_tensor tensors[] = {
        {"layers.0.attention.to_q.lora_A.weight", KILN_ST_F32, 2, {1, WIDTH}, ones, sizeof ones},
        {"layers.0.attention.to_q.lora_B.weight", KILN_ST_F32, 2, {WIDTH, 1}, ones, sizeof ones}};
    struct kiln_lora_file *f;
    struct kiln_error err;
    if (kiln_st_write(LIVE, tensors, 2, NULL, &err) || kiln_lora_open(LIVE, &module, 1, &f, &err))
        fail_msg("%s", err.text);
    return f;
}

static void a_file_that_was_written_into_is_known(void **state)
{
    (void)state;
    const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    struct kiln_error err;
    struct kiln_lora_file *f = open_small();
    assert_int_equal(kiln_lora_check(f, &err), 0);
    assert_int_equal(utimensat(AT_FDCWD, LIVE, times, 0), 0);
    assert_int_equal(kiln_lora_check(f, &err), KILN_CORRUPT);
    assert_non_null(strstr(err.text, LIVE " was changed while it was open"));
    assert_non_null(strstr(err.text, "renaming a new one over the old"));
    kiln_lora_close(f);
    /* One that has another in its place is still what it was. */
    f = open_small();
    kiln_lora_close(open_small());
    assert_int_equal(kiln_lora_check(f, &err), 0);
    kiln_lora_close(f);
}

static void a_file_that_is_cut_after_it_was_opened_is_still_read(void **state)
{
    (void)state;
    struct kiln_error err;
    struct kiln_lora_file *f = open_small();
    assert_int_equal(truncate(LIVE, 0), 0);
    const struct kiln_lora_pair *pair = kiln_lora_at(f, 0);
    assert_memory_equal(pair->a, ones, sizeof ones);
    assert_memory_equal(pair->b, ones, sizeof ones);
    assert_int_equal(kiln_lora_check(f, &err), KILN_CORRUPT);
    assert_non_null(strstr(err.text, LIVE));
    kiln_lora_close(f);
}

static void a_file_too_large_for_a_lora_is_refused(void **state)
{
    (void)state;
    struct kiln_lora_file *f;
    struct kiln_error err;
    kiln_test_write(LIVE, "nothing");
    assert_int_equal(truncate(LIVE, (off_t)KILN_LORA_BYTES_MAX + 1), 0);
    assert_int_equal(kiln_lora_open(LIVE, &module, 1, &f, &err), KILN_UNSUPPORTED);
    assert_string_equal(err.text, LIVE ": 4294967297 bytes to be read into memory, at most "
                                       "4294967296");
    unlink(LIVE);
}

/* --- a set ------------------------------------------------------------------------------------ */

struct writer {
    pthread_t thread;
    off_t last;
    bool end;
};

/* The last byte of LIVE once more, again and again: its values stay, its time does not. */
static void *write_on(void *arg)
{
    struct writer *w = arg;
    char byte;
    int fd = open(LIVE, O_RDWR);
    if (fd < 0 || pread(fd, &byte, 1, w->last) != 1)
        return NULL;
    while (!__atomic_load_n(&w->end, __ATOMIC_ACQUIRE) && pwrite(fd, &byte, 1, w->last) == 1)
        continue;
    close(fd);
    return w;
}

/* Sets LIVE at ever other strengths until it is refused. */
static int set_until_refused(struct kiln_loras *loras, struct kiln_error *err)
{
    int code = 0;
    for (int i = 0; i < TRIES && !code; i++) {
        const struct kiln_lora_use use = {LIVE, 1 + (float)i / 8192};
        bool changed;
        code = kiln_loras_set(loras, &use, 1, &changed, err);
        if (code && changed)
            fail_msg("a set was refused (%s) and something changed", err->text);
    }
    return code;
}

static void a_set_that_is_written_into_is_refused(void **state)
{
    (void)state;
    static const enum kiln_lora_mode modes[] = {KILN_LORA_FILES, KILN_LORA_BESIDE, KILN_LORA_MERGED,
                                                KILN_LORA_AUTO};
    struct kiln_engine *e = lora_rig_open(golden("models/plain"), KT_CPU, DIFFUSIONZ_FP32);
    const struct kiln_lora_use use = {LIVE, -1};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct writer w = {.last = (off_t)copy_live("loras/kohya.safetensors") - 1};
        struct kiln_error err = {0};
        void *wrote;
        bool changed;
        kiln_loras_mode(e->sets[0].loras, modes[i]);
        assert_int_equal(pthread_create(&w.thread, NULL, write_on, &w), 0);
        int code = set_until_refused(e->sets[0].loras, &err);
        __atomic_store_n(&w.end, true, __ATOMIC_RELEASE);
        assert_int_equal(pthread_join(w.thread, &wrote), 0);
        assert_non_null(wrote);
        if (code != KILN_CORRUPT || !strstr(err.text, LIVE " was changed"))
            fail_msg("mode %d: code %d: %s", (int)modes[i], code, err.text);
        if (kiln_loras_set(e->sets[0].loras, &use, 1, &changed, &err)) /* nobody writes any more */
            fail_msg("%s", err.text);
        assert_true(changed);
    }
    kiln_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_was_written_into_is_known),
        cmocka_unit_test(a_file_that_is_cut_after_it_was_opened_is_still_read),
        cmocka_unit_test(a_file_too_large_for_a_lora_is_refused),
        cmocka_unit_test(a_set_that_is_written_into_is_refused),
    };
    return cmocka_run_group_tests_name("lora_live", tests, NULL, NULL);
}
