/* test_regular.c - whole files, up to a limit, and what is no file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schemas/limits.h"
#include "storage/formats/file_hash.h"
#include "storage/formats/regular.h"
#include "tests/support/files.h"

static struct kiln_error err;

static void every_length_up_to_the_limit(void **state)
{
    (void)state;
    char text[101];
    memset(text, 'x', sizeof text);
    for (size_t len = 0; len <= 100; len++) {
        char *bytes = NULL;
        size_t size = 7;
        text[len] = '\0';
        kiln_test_write("some", text);
        const int code = kiln_regular_read("some", 64, &bytes, &size, &err);
        if (len > 64) {
            assert_int_equal(code, KILN_BAD_INPUT);
            assert_non_null(strstr(err.text, "larger than 64 bytes"));
            assert_null(bytes);
        } else {
            assert_int_equal(code, 0);
            assert_int_equal(size, len);
            assert_int_equal(strlen(bytes), len);
            free(bytes);
        }
        text[len] = 'x';
    }
}

/* Files of /proc say that they have no bytes. */
static void a_file_that_is_larger_than_it_says(void **state)
{
    (void)state;
    char *bytes;
    size_t size;
    assert_int_equal(kiln_regular_read("/proc/self/status", 1 << 20, &bytes, &size, &err), 0);
    assert_true(size > 100 && strncmp(bytes, "Name:", 5) == 0 && strlen(bytes) == size);
    free(bytes);
}

static void what_is_no_file(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int code;
    } cases[] = {
        {"nowhere", KILN_NOT_FOUND}, {"file/below", KILN_NOT_FOUND}, {".", KILN_BAD_INPUT},
        {"fifo", KILN_BAD_INPUT},    {"/dev/zero", KILN_BAD_INPUT},  {"loop", KILN_IO},
    };
    kiln_test_write("file", "");
    unlink("fifo");
    unlink("loop");
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(symlink("loop", "loop"), 0);
    alarm(120); /* seconds; nothing is waited for */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bytes;
        size_t size;
        assert_int_equal(kiln_regular_read(cases[i].path, 64, &bytes, &size, &err), cases[i].code);
        assert_non_null(strstr(err.text, cases[i].path));
    }
    alarm(0);
}

/* Sparse, so that a mistake here costs a hundred gigabytes of reading. */
static void a_larger_file_is_not_hashed(void **state)
{
    (void)state;
    char hex[KILN_FILE_HASH_MAX];
    kiln_test_write("hashed", "abc");
    assert_false(kiln_file_hash("hashed", 2, hex));
    assert_true(kiln_file_hash("hashed", 3, hex));
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_false(kiln_file_hash("hashed", 2, hex)); /* although it is known */
    assert_int_equal(truncate("hashed", (off_t)100 << 30), 0);
    assert_false(kiln_file_hash("hashed", KILN_LORA_BYTES_MAX, hex));
    assert_int_equal(unlink("hashed"), 0);
}

static _Atomic int ends;

/* After the first piece of a file. */
static void a_hash_is_given_up_when_the_caller_ends(void **state)
{
    (void)state;
    char hex[KILN_FILE_HASH_MAX];
    kiln_test_write("hashed", "abc");
    assert_int_equal(truncate("hashed", (off_t)3 << 30), 0); /* sparse */
    ends = 1;
    assert_false(kiln_file_hash_until("hashed", KILN_LORA_BYTES_MAX, &ends, hex));
    kiln_test_write("hashed", "abc");
    assert_false(kiln_file_hash_until("hashed", KILN_LORA_BYTES_MAX, &ends, hex));
    ends = 0;
    assert_true(kiln_file_hash_until("hashed", KILN_LORA_BYTES_MAX, &ends, hex));
    ends = 1; /* known by now, so nothing is read */
    assert_true(kiln_file_hash_until("hashed", KILN_LORA_BYTES_MAX, &ends, hex));
    assert_int_equal(unlink("hashed"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_up_to_the_limit),
        cmocka_unit_test(a_file_that_is_larger_than_it_says),
        cmocka_unit_test(what_is_no_file),
        cmocka_unit_test(a_larger_file_is_not_hashed),
        cmocka_unit_test(a_hash_is_given_up_when_the_caller_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
