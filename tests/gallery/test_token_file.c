/* test_token_file.c - tokens go into an unnamed file and come out of it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "scheduler/gallery/meaning/token_file.h"

#define MANY 3000

static struct kiln_error err;

static size_t size_of(uint32_t i)
{
    static const size_t sizes[] = {1142, 0, 1, 4612, 12803, 7};
    return i == MANY / 2 ? KILN_TOKENS_SIZE_MAX : sizes[i % 6];
}

static uint8_t byte_of(uint32_t i, size_t at)
{
    return (uint8_t)(i * 7 + at * 13 + at / 251);
}

static kiln_token_place add(struct kiln_token_file *file, uint32_t i)
{
    static uint8_t bytes[KILN_TOKENS_SIZE_MAX];
    kiln_token_place place = 0;
    for (size_t at = 0; at < size_of(i); at++)
        bytes[at] = byte_of(i, at);
    assert_int_equal(kiln_token_file_add(file, bytes, size_of(i), &place, &err), 0);
    assert_true(place != 0);
    return place;
}

static void assert_is(const struct kiln_token_file *file, kiln_token_place place, uint32_t i,
                      struct kiln_token_bytes *bytes)
{
    assert_int_equal(kiln_token_file_read(file, place, bytes, &err), 0);
    assert_int_equal(bytes->size, size_of(i));
    for (size_t at = 0; at < bytes->size; at++)
        if (bytes->at[at] != byte_of(i, at))
            fail_msg("byte %zu of %u", at, i);
}

static void what_goes_in_comes_out(void **state)
{
    (void)state;
    static kiln_token_place places[MANY];
    struct kiln_token_bytes bytes = {0};
    struct kiln_token_file *file;
    assert_int_equal(kiln_token_file_new(&file, &err), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        places[i] = add(file, i);
        assert_is(file, places[i / 2], i / 2, &bytes);
    }
    for (uint32_t i = MANY; i-- > 0;)
        assert_is(file, places[i], i, &bytes);
    free(bytes.at);
    kiln_token_file_drop(file);
    kiln_token_file_drop(NULL);
}

static void it_stays_until_its_last_holder_drops_it(void **state)
{
    (void)state;
    struct kiln_token_bytes bytes = {0};
    struct kiln_token_file *file;
    assert_int_equal(kiln_token_file_new(&file, &err), 0);
    const kiln_token_place place = add(file, 3);
    struct kiln_token_file *held = kiln_token_file_hold(file);
    kiln_token_file_drop(file);
    assert_is(held, place, 3, &bytes);
    kiln_token_file_drop(held);
    free(bytes.at);
}

/* Makes TMPDIR this directory; the result goes to the next call, which puts it back. */
static char *change_dir(const char *dir)
{
    const char *now = getenv("TMPDIR");
    char *before = now ? strdup(now) : NULL;
    assert_int_equal(dir ? setenv("TMPDIR", dir, 1) : unsetenv("TMPDIR"), 0);
    return before;
}

/* Whatever ends the process, the disk is free again. */
static void it_has_no_name(void **state)
{
    (void)state;
    char dir[] = "/var/tmp/kiln-test-XXXXXX";
    struct kiln_token_file *file;
    assert_non_null(mkdtemp(dir));
    char *before = change_dir(dir);
    assert_int_equal(kiln_token_file_new(&file, &err), 0);
    (void)add(file, 0);
    free(change_dir(before));
    free(before);
    assert_int_equal(rmdir(dir), 0); /* it is empty */
    kiln_token_file_drop(file);
}

/* Memory is for searches, and a disk for this. */
static void a_directory_that_will_not_do_is_passed_over(void **state)
{
    (void)state;
    static const char *const dirs[] = {"/no/such/directory", "/dev/shm", ""};
    struct kiln_token_bytes bytes = {0};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        struct kiln_token_file *file;
        char *before = change_dir(dirs[i]);
        assert_int_equal(kiln_token_file_new(&file, &err), 0);
        free(change_dir(before));
        free(before);
        assert_is(file, add(file, 3), 3, &bytes);
        kiln_token_file_drop(file);
    }
    free(bytes.at);
}

static void a_full_disk_is_an_error_and_what_is_there_stays(void **state)
{
    (void)state;
    const struct rlimit small = {10000, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
    struct kiln_token_bytes bytes = {0};
    struct kiln_token_file *file;
    kiln_token_place place;
    static const uint8_t much[20000];
    assert_int_equal(kiln_token_file_new(&file, &err), 0);
    const kiln_token_place first = add(file, 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(kiln_token_file_add(file, much, sizeof much, &place, &err), KILN_IO);
    assert_non_null(strstr(err.text, "temporary file in /"));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_is(file, first, 0, &bytes);
    assert_is(file, add(file, 2), 2, &bytes);
    assert_is(file, first, 0, &bytes);
    free(bytes.at);
    kiln_token_file_drop(file);
}

static void more_than_a_place_can_say_is_refused(void **state)
{
    (void)state;
    struct kiln_token_file *file;
    kiln_token_place place;
    assert_int_equal(kiln_token_file_new(&file, &err), 0);
    assert_int_equal(
        kiln_token_file_add(file, (const uint8_t *)"", KILN_TOKENS_SIZE_MAX + 1, &place, &err),
        KILN_IO);
    kiln_token_file_drop(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_in_comes_out),
        cmocka_unit_test(it_stays_until_its_last_holder_drops_it),
        cmocka_unit_test(it_has_no_name),
        cmocka_unit_test(a_directory_that_will_not_do_is_passed_over),
        cmocka_unit_test(a_full_disk_is_an_error_and_what_is_there_stays),
        cmocka_unit_test(more_than_a_place_can_say_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
