/* test_config_file.c - which settings file is read, and what is laid over it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schemas/limits.h"
#include "storage/daemon/config_file.h"
#include "storage/formats/styles_file.h"
#include "tests/support/files.h"

static struct kiln_error err;

/* No KILN_* from outside, no files from an earlier test. */
static int clean(void **state)
{
    (void)state;
    unsetenv("KILN_CONFIG");
    unsetenv("KILN_POOL");
    unlink(".kiln/kiln.conf");
    rmdir(".kiln");
    return 0;
}

/* The pool that results, and the path that was read; both are checked. */
static void expect(const char *flag, const char *pool, const char *path)
{
    struct kiln_config *config;
    char *read_path;
    int rc = kiln_config_load(flag, &config, &read_path, &err);
    if (rc != 0)
        fail_msg("%s", err.text);
    assert_string_equal(kiln_config_text(config, KILN_KEY_POOL), pool);
    if (path)
        assert_string_equal(read_path, path);
    else
        assert_null(read_path);
    free(read_path);
    kiln_config_free(config);
}

static void expect_refusal(const char *flag, const char *piece)
{
    struct kiln_config *config;
    assert_int_equal(kiln_config_load(flag, &config, NULL, &err), KILN_CONFIG);
    if (!strstr(err.text, piece))
        fail_msg("expected \"%s\" in: %s", piece, err.text);
}

static void the_strongest_source_wins(void **state)
{
    (void)state;
    if (access("/etc/kiln/kiln.conf", F_OK) != 0)
        expect(NULL, "default", NULL);
    kiln_test_write(".kiln/kiln.conf", "pool = local\n");
    kiln_test_write("env.conf", "# a comment\npool = env\n");
    kiln_test_write("flag.conf", "pool = flag\r\n");
    expect(NULL, "local", "./.kiln/kiln.conf");
    setenv("KILN_CONFIG", "env.conf", 1);
    expect(NULL, "env", "env.conf");
    expect("flag.conf", "flag", "flag.conf");
    setenv("KILN_POOL", "environment", 1);
    expect("flag.conf", "environment", "flag.conf");
    setenv("KILN_CONFIG", "", 1); /* empty = not set */
    unsetenv("KILN_POOL");
    expect(NULL, "local", "./.kiln/kiln.conf");
}

static void a_file_that_was_named_must_be_there(void **state)
{
    (void)state;
    expect_refusal("nowhere.conf", "nowhere.conf");
    setenv("KILN_CONFIG", "not/here.conf", 1);
    expect_refusal(NULL, "not/here.conf");
    struct kiln_config *config;
    assert_int_equal(kiln_config_load(NULL, &config, NULL, NULL), KILN_CONFIG);
}

static void bad_files_are_named_with_their_line(void **state)
{
    (void)state;
    kiln_test_write("bad.conf", "pool = a\npol = b\n");
    expect_refusal("bad.conf", "bad.conf:2");
    kiln_test_write("bad.conf", "batch_max = many\n");
    expect_refusal("bad.conf", "bad.conf:1");
    expect_refusal(".", "not a regular file");
    FILE *file = fopen("large.conf", "we");
    for (int i = 0; i <= KILN_CONFIG_FILE_MAX; i++)
        fputc('#', file);
    fclose(file);
    expect_refusal("large.conf", "larger");
}

/* Neither is waited for, and a device without an end is not read. */
static void what_is_no_file_is_refused_at_once(void **state)
{
    (void)state;
    struct kiln_styles *styles = NULL;
    unlink("fifo");
    assert_int_equal(mkfifo("fifo", 0600), 0);
    alarm(20); /* seconds */
    expect_refusal("fifo", "not a regular file");
    expect_refusal("/dev/zero", "not a regular file");
    assert_int_equal(kiln_styles_file_read("fifo", &styles, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "not a regular file"));
    assert_int_equal(kiln_styles_file_read("nowhere.json", &styles, &err), KILN_CONFIG);
    alarm(0);
    assert_int_equal(kiln_styles_file_read("", &styles, &err), 0);
    assert_null(styles);
}

/* A file where the folder of the usual place would be is no settings file. */
static void a_usual_place_below_a_file_is_empty(void **state)
{
    (void)state;
    kiln_test_write(".kiln", "");
    if (access("/etc/kiln/kiln.conf", F_OK) != 0)
        expect(NULL, "default", NULL);
    unlink(".kiln");
}

static void an_unknown_variable_is_told_of_and_a_wrong_value_is_refused(void **state)
{
    (void)state;
    struct kiln_config *config = NULL;
    setenv("KILN_POOOL", "x", 1);
    assert_int_equal(kiln_config_load(NULL, &config, NULL, NULL), 0);
    assert_non_null(strstr(kiln_config_stray(config), "KILN_POOOL"));
    kiln_config_free(config);
    unsetenv("KILN_POOOL");
    setenv("KILN_BATCH_MAX", "0", 1);
    expect_refusal(NULL, "KILN_BATCH_MAX");
    unsetenv("KILN_BATCH_MAX");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_strongest_source_wins, clean),
        cmocka_unit_test_setup(a_file_that_was_named_must_be_there, clean),
        cmocka_unit_test_setup(bad_files_are_named_with_their_line, clean),
        cmocka_unit_test_setup(what_is_no_file_is_refused_at_once, clean),
        cmocka_unit_test_setup(a_usual_place_below_a_file_is_empty, clean),
        cmocka_unit_test_setup(an_unknown_variable_is_told_of_and_a_wrong_value_is_refused, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
