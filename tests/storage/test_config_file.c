/* test_config_file.c - which settings file is read, and what is laid over it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
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

/* Nothing is waited for longer than a few seconds, and a device without an end is not read. */
static void what_does_not_deliver_is_refused(void **state)
{
    (void)state;
    struct kiln_styles *styles = NULL;
    unlink("fifo");
    assert_int_equal(mkfifo("fifo", 0600), 0);
    alarm(120); /* seconds */
    expect_refusal("fifo", "fifo is a pipe whose writer did not write anything within 5 s");
    const int writer = open("fifo", O_RDWR | O_CLOEXEC); /* one that never ends */
    assert_int_equal(write(writer, "pool = p\n", 9), 9);
    expect_refusal("fifo", "fifo is a pipe whose writer did not end within 5 s");
    close(writer);
    expect_refusal("/dev/zero", "/dev/zero is neither a regular file nor a pipe");
    assert_int_equal(kiln_styles_file_read("fifo", &styles, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "fifo is a pipe whose writer"));
    assert_int_equal(kiln_styles_file_read("nowhere.json", &styles, &err), KILN_CONFIG);
    alarm(0);
    assert_int_equal(kiln_styles_file_read("", &styles, &err), 0);
    assert_null(styles);
}

/* Writes a text into the FIFO, slowly, and ends. */
static pid_t start_writer(const char *text)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    const int fd = open("fifo", O_WRONLY | O_CLOEXEC);
    for (; fd >= 0 && *text; text++) {
        if (write(fd, text, 1) != 1)
            _exit(1);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    _exit(fd < 0);
}

/* What a shell makes of <(...), and a FIFO that somebody writes to. */
static void a_pipe_is_read_to_its_end(void **state)
{
    (void)state;
    int ends[2], status;
    char path[32];
    alarm(120); /* seconds */
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    assert_int_equal(write(ends[1], "pool = piped\n", 13), 13);
    close(ends[1]); /* gone before it is read, as a fast one is */
    expect(path, "piped", path);
    expect(path, "default", path); /* and empty from now on */
    close(ends[0]);
    unlink("fifo");
    assert_int_equal(mkfifo("fifo", 0600), 0);
    const pid_t writer = start_writer("pool = slowly\n");
    expect("fifo", "slowly", "fifo");
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
    expect("/dev/null", "default", "/dev/null");
    alarm(0);
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
        cmocka_unit_test_setup(what_does_not_deliver_is_refused, clean),
        cmocka_unit_test_setup(a_pipe_is_read_to_its_end, clean),
        cmocka_unit_test_setup(a_usual_place_below_a_file_is_empty, clean),
        cmocka_unit_test_setup(an_unknown_variable_is_told_of_and_a_wrong_value_is_refused, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
