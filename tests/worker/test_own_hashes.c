/* test_own_hashes.c - what a worker knows of lora_dir after a restart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/state/own_hashes.h"

static struct kiln_own_hashes own;

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static uint64_t known(const char *path)
{
    struct kiln_own_hash at;
    return kiln_own_hashes_find(&own, path, &at);
}

/* The file is read, and has this hash. */
static void put(const char *path, uint64_t digits)
{
    struct kiln_own_hash at;
    assert_int_equal(kiln_own_hashes_find(&own, path, &at), 0);
    kiln_own_hashes_put(&own, path, &at, digits);
}

static void a_file_is_known_in_the_state_in_which_it_was_read(void **state)
{
    (void)state;
    write_text("a", "one");
    write_text("b", "two");
    kiln_own_hashes_load(&own, "cache");
    put("a", 0xabcd);
    put("b", UINT64_MAX);
    put("nowhere", 7);
    kiln_own_hashes_save(&own);
    for (int i = 0; i < 3; i++) { /* each time one starts again */
        kiln_own_hashes_load(&own, "cache");
        assert_int_equal(own.count, 2);
        assert_int_equal(known("a"), 0xabcd);
        assert_true(known("b") == UINT64_MAX);
        assert_int_equal(known("nowhere"), 0);
        kiln_own_hashes_save(&own);
    }
    write_text("a", "ONE"); /* as long as before */
    assert_int_equal(known("a"), 0);
    assert_true(known("b") == UINT64_MAX);
    kiln_own_hashes_save(&own); /* the old state of a was not asked for */
    kiln_own_hashes_load(&own, "cache");
    assert_int_equal(own.count, 1);
}

static void a_file_that_was_replaced_while_it_was_read_is_not_kept(void **state)
{
    (void)state;
    struct kiln_own_hash at;
    write_text("a", "one");
    write_text("new", "two");
    kiln_own_hashes_load(&own, "none");
    assert_int_equal(kiln_own_hashes_find(&own, "a", &at), 0);
    assert_int_equal(rename("new", "a"), 0);
    kiln_own_hashes_put(&own, "a", &at, 0xabcd);
    assert_int_equal(own.count, 0);
    assert_int_equal(known("a"), 0);
}

static void a_damaged_list_counts_as_empty(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "kiln lora_dir hashes 2\n",
                                        "kiln lora_dir hashes 1\n1 2 3\n",
                                        "kiln lora_dir hashes 1\n1 2 3 4 5 zz\n",
                                        "kiln lora_dir hashes 1\n1 2 3 4 5 ab more\n",
                                        "kiln lora_dir hashes 1\n1 2 3 4 5 ab\nx\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_text("cache/" KILN_OWN_HASHES_NAME, wrong[i]);
        kiln_own_hashes_load(&own, "cache");
        assert_int_equal(own.count, 0);
    }
    FILE *file = fopen("cache/" KILN_OWN_HASHES_NAME, "w");
    fputs("kiln lora_dir hashes 1\n", file);
    for (int i = 0; i <= KILN_HEARTBEAT_FILES_MAX; i++)
        fprintf(file, "1 %d 3 4 5 ab\n", i);
    fclose(file);
    kiln_own_hashes_load(&own, "cache"); /* more than there is room for */
    assert_int_equal(own.count, 0);
    kiln_own_hashes_load(&own, "cache/" KILN_OWN_HASHES_NAME); /* no directory */
    put("b", 5);
    kiln_own_hashes_save(&own);
    assert_int_equal(known("b"), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_known_in_the_state_in_which_it_was_read),
        cmocka_unit_test(a_file_that_was_replaced_while_it_was_read_is_not_kept),
        cmocka_unit_test(a_damaged_list_counts_as_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
