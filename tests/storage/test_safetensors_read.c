/* test_safetensors_read.c - files read into memory instead of mapped: the same tensors, a bound,
 * and errors where a mapping would end in SIGBUS.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "storage/formats/safetensors.h"
#include "tests/support/files.h"

static const float values[4] = {1, 2, 3, 4};

/* One tensor of this name, and the size of its file. */
static size_t write_one(const char *path, const char *name)
{
    const struct kiln_st_tensor t = {name, KILN_ST_F32, 1, {4}, values, sizeof values};
    struct kiln_error err;
    struct stat st;
    if (kiln_st_write(path, &t, 1, NULL, &err))
        fail_msg("%s", err.text);
    assert_int_equal(stat(path, &st), 0);
    return (size_t)st.st_size;
}

static void test_what_was_read_outlives_a_cut(void **state)
{
    (void)state;
    struct kiln_st *st;
    struct kiln_error err;
    const char *path;
    uint64_t offset;
    int fd;
    size_t size = write_one("one.safetensors", "x");
    assert_int_equal(kiln_st_open_read("one.safetensors", size, &st, &err), 0);
    const struct kiln_st_tensor *t = kiln_st_find(st, "x");
    assert_true(kiln_st_source(st, t, &fd, &offset, &path));
    assert_int_equal(offset, size - sizeof values);
    assert_int_equal(kiln_st_check(st, &err), 0);
    assert_int_equal(truncate("one.safetensors", 0), 0);
    assert_memory_equal(t->data, values, sizeof values);
    assert_int_equal(kiln_st_check(st, &err), KILN_CORRUPT);
    kiln_st_close(st);
}

static void test_the_bound_is_of_all_shards(void **state)
{
    (void)state;
    struct kiln_st *st;
    struct kiln_error err;
    assert_int_equal(mkdir("shards", 0700), 0);
    const size_t size = write_one("shards/a.safetensors", "x");
    assert_int_equal(write_one("shards/b.safetensors", "y"), size);
    kiln_test_write("shards/model.safetensors.index.json",
                    "{\"weight_map\":{\"x\":\"a.safetensors\",\"y\":\"b.safetensors\"}}");
    assert_int_equal(kiln_st_open_read("shards", 2 * size, &st, &err), 0);
    assert_memory_equal(kiln_st_find(st, "y")->data, values, sizeof values);
    kiln_st_close(st);
    assert_int_equal(kiln_st_open_read("shards", 2 * size - 1, &st, &err), KILN_UNSUPPORTED);
    assert_non_null(strstr(err.text, "shards/b.safetensors: "));
    assert_int_equal(kiln_st_open_read("shards/a.safetensors", 0, &st, &err), KILN_UNSUPPORTED);
}

/* The kernel says of its own files that they have a page, and gives less. */
static void test_a_file_that_ends_early_is_named(void **state)
{
    (void)state;
    static const char kernels[] = "/sys/kernel/mm/transparent_hugepage/enabled";
    struct kiln_st *st;
    struct kiln_error err;
    struct stat known;
    if (stat(kernels, &known) != 0 || known.st_size < 1024)
        skip();
    assert_int_equal(symlink(kernels, "early.safetensors"), 0);
    assert_int_equal(kiln_st_open_read("early.safetensors", 1 << 20, &st, &err), KILN_CORRUPT);
    if (!strstr(err.text, "early.safetensors ends at ") || !strstr(err.text, "was cut short"))
        fail_msg("%s", err.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_read_outlives_a_cut),
        cmocka_unit_test(test_the_bound_is_of_all_shards),
        cmocka_unit_test(test_a_file_that_ends_early_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
