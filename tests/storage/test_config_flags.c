/* test_config_flags.c - settings as flags: both spellings, what is left, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/daemon/config_flags.h"
#include "tests/support/files.h"

static struct kiln_config *config;
static struct kiln_error err;
static const char *rest[16];
static int left;

static int read_flags(char **argv)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    kiln_config_free(config);
    config = kiln_config_new();
    return kiln_config_flags_lay(argc, argv, rest, &left, config, &err);
}

static int teardown(void **state)
{
    (void)state;
    kiln_config_free(config);
    config = NULL;
    return 0;
}

static void both_spellings_set_a_value(void **state)
{
    (void)state;
    char *argv[] = {"kiln", "--batch-max", "5", "--lease_s=7", "--pool=a", "--pool", "b", NULL};
    assert_int_equal(read_flags(argv), 0);
    assert_int_equal(kiln_config_int(config, KILN_KEY_BATCH_MAX), 5);
    assert_true(kiln_config_number(config, KILN_KEY_LEASE_S) == 7);
    assert_string_equal(kiln_config_text(config, KILN_KEY_POOL), "b"); /* the last one counts */
    assert_int_equal(left, 0);
    assert_null(rest[0]);
}

static void what_is_no_setting_is_left_in_order(void **state)
{
    (void)state;
    char *argv[] = {"kiln", "enqueue", "--strict", "f.jsonl", "--pool", "p",
                    "-",    "--",      "--pool",   "q",       NULL};
    assert_int_equal(read_flags(argv), 0);
    assert_string_equal(kiln_config_text(config, KILN_KEY_POOL), "p");
    static const char *const wanted[] = {"enqueue", "--strict", "f.jsonl", "-",
                                         "--",      "--pool",   "q"};
    assert_int_equal(left, 7);
    for (int i = 0; i < left; i++)
        assert_string_equal(rest[i], wanted[i]);
    assert_null(rest[left]);
}

static void bad_values_and_missing_ones_are_refused(void **state)
{
    (void)state;
    char *bad[] = {"kiln", "--batch-max", "many", NULL};
    assert_int_equal(read_flags(bad), KILN_CONFIG);
    assert_non_null(strstr(err.text, "batch"));
    char *missing[] = {"kiln", "--pool", NULL};
    assert_int_equal(read_flags(missing), KILN_CONFIG);
    assert_non_null(strstr(err.text, "pool"));
}

/* Neither value is wrong alone; a flag may mend what file and environment say together. */
static void the_merged_values_must_suit_each_other(void **state)
{
    (void)state;
    kiln_test_write("k.conf", "heartbeat_s = 20\n");
    char *short_lease[] = {"kiln-worker", "--config", "k.conf", NULL};
    char *longer[] = {"kiln-worker", "--config", "k.conf", "--lease-s", "40", NULL};
    struct kiln_config *loaded = NULL;
    assert_int_equal(kiln_config_flags(3, short_lease, rest, &left, &loaded, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "lease_s is 10 (default)"));
    assert_non_null(strstr(err.text, "heartbeat_s is 20 (k.conf:1)"));
    assert_int_equal(kiln_config_flags(5, longer, rest, &left, &loaded, &err), 0);
    kiln_config_free(loaded);
}

static void a_program_without_own_flags_refuses_the_rest(void **state)
{
    (void)state;
    const char *const none[] = {NULL};
    assert_int_equal(kiln_config_flags_refuse(none, 0, &err), 0);
    const char *const typo[] = {"--bacth-max", NULL};
    assert_int_equal(kiln_config_flags_refuse(typo, 1, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "batch_max"));
    const char *const word[] = {"start", NULL};
    assert_int_equal(kiln_config_flags_refuse(word, 1, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "'start'"));
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(both_spellings_set_a_value),
        TEST(what_is_no_setting_is_left_in_order),
        TEST(bad_values_and_missing_ones_are_refused),
        TEST(the_merged_values_must_suit_each_other),
        TEST(a_program_without_own_flags_refuses_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
