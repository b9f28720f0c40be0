/* test_config.c - settings from files, the environment and flags; the log line. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "schemas/config/config.h"
#include "schemas/telemetry/log.h"

static void the_table_is_complete_and_its_defaults_are_valid(void **state)
{
    (void)state;
    struct kiln_config *config = kiln_config_new();
    for (int key = 0; key < KILN_KEY_COUNT; key++) {
        const struct kiln_key_row *row = &kiln_keys[key];
        struct kiln_error err;
        assert_non_null(row->name);
        assert_true(strlen(row->help) > 5);
        assert_string_equal(kiln_config_text(config, (enum kiln_key)key), row->value);
        assert_string_equal(kiln_config_origin(config, (enum kiln_key)key), "default");
        if (kiln_config_set(config, row->name, row->value, "test", &err) != 0)
            fail_msg("default of %s: %s", row->name, err.text);
    }
    assert_int_equal(kiln_config_int(config, KILN_KEY_BATCH_MAX), 4);
    assert_true(kiln_config_number(config, KILN_KEY_LEASE_S) == 10);
    kiln_config_free(config);
    kiln_config_free(NULL);
}

static void a_file_is_read_line_by_line(void **state)
{
    (void)state;
    const char *text = "\xef\xbb\xbf# a stack\r\n\r\n redis = unix:/srv/redis.sock  # here\r\n"
                       "postgres=\"host=/srv dbname=k#1\" # quoted\n"
                       "lease-s = 4.5\nlora_dir = /a#b\nlog_format = json";
    struct kiln_config *config = kiln_config_new();
    struct kiln_error err;
    if (kiln_config_parse(config, text, strlen(text), "k.conf", &err) != 0)
        fail_msg("%s", err.text);
    assert_string_equal(kiln_config_text(config, KILN_KEY_REDIS), "unix:/srv/redis.sock");
    assert_string_equal(kiln_config_origin(config, KILN_KEY_REDIS), "k.conf:3");
    assert_string_equal(kiln_config_text(config, KILN_KEY_POSTGRES), "host=/srv dbname=k#1");
    assert_string_equal(kiln_config_text(config, KILN_KEY_LORA_DIR), "/a#b");
    assert_true(kiln_config_number(config, KILN_KEY_LEASE_S) == 4.5);
    assert_string_equal(kiln_config_text(config, KILN_KEY_LOG_FORMAT), "json");
    kiln_config_free(config);
}

static void wrong_lines_name_file_and_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"a = 1\nredsi = x", "k.conf:1: unknown setting \"a\""},
        {"\nredsi = x", "k.conf:2: unknown setting \"redsi\"; did you mean \"redis\"?"},
        {"redis", "k.conf:1: a line is `name = value`"},
        {"= 3", "k.conf:1: no name of a setting"},
        {"lease_s = soon", "k.conf:1: lease_s is \"soon\"; it must be a number from 0.2 to 600"},
        {"batch_max = 65", "batch_max is \"65\"; it must be a whole number from 1 to 64"},
        {"batch_max = 1.5", "whole number"},
        {"webp_quality = nan", "webp_quality is \"nan\""},
        {"dtype = fp64", "dtype is \"fp64\"; allowed are auto|fp32|bf16|fp8"},
        {"pool = a b", "pool is \"a b\""},
        {"redis = \"unix:/x", "the closing '\"' is missing"},
        {"redis = \"a\" b", "text after the closing '\"'"},
        {"pool = a\npool = b", "k.conf:2: pool is set twice, first at k.conf:1"},
        {"pool = \xff", "not valid UTF-8 at offset 7"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kiln_config *config = kiln_config_new();
        struct kiln_error err = {0};
        const char *text = rows[i].text;
        assert_int_equal(kiln_config_parse(config, text, strlen(text), "k.conf", &err),
                         KILN_CONFIG);
        if (!strstr(err.text, rows[i].says))
            fail_msg("%s: \"%s\" does not say \"%s\"", text, err.text, rows[i].says);
        kiln_config_free(config);
    }
    struct kiln_config *config = kiln_config_new();
    struct kiln_error err;
    assert_int_equal(kiln_config_parse(config, "po\0l = a", 8, "k.conf", &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "NUL byte at offset 2"));
    kiln_config_free(config);
}

static void the_environment_lies_over_the_file(void **state)
{
    (void)state;
    char *environment[] = {"PATH=/bin", "KILN_POOL=night", "KILN_CONFIG=/x", "KILN_SOURCE=/src",
                           NULL};
    char *wrong[] = {"KILN_LEASE_S=x", NULL};
    struct kiln_config *config = kiln_config_new();
    struct kiln_error err;
    assert_int_equal(kiln_config_parse(config, "pool = day", 10, "k.conf", &err), 0);
    assert_int_equal(kiln_config_environ(config, environment, &err), 0);
    assert_string_equal(kiln_config_text(config, KILN_KEY_POOL), "night");
    assert_string_equal(kiln_config_origin(config, KILN_KEY_POOL), "environment KILN_POOL");
    assert_null(kiln_config_stray(config));
    assert_int_equal(kiln_config_environ(config, wrong, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "environment KILN_LEASE_S: lease_s is \"x\""));
    kiln_config_free(config);
}

/* A container platform puts KILN_PORT beside a service of that name. */
static void a_variable_that_is_no_setting_is_told_and_passed_over(void **state)
{
    (void)state;
    char long_name[200] = "KILN_";
    memset(long_name + 5, 'Q', sizeof long_name - 6);
    char *strays[] = {"KILN_POOOL=night", "KILN_", "KILN_PORT", long_name, "KILN_POOL=day", NULL};
    struct kiln_config *config = kiln_config_new();
    struct kiln_error err;
    assert_int_equal(kiln_config_environ(config, strays, &err), 0);
    assert_string_equal(kiln_config_text(config, KILN_KEY_POOL), "day");
    assert_string_equal(kiln_config_stray(config),
                        "environment KILN_POOOL: unknown setting \"poool\"; did you mean "
                        "\"pool\"?");
    kiln_config_free(config);
    config = kiln_config_new();
    assert_int_equal(kiln_config_environ(config, strays + 3, &err), 0);
    assert_non_null(strstr(kiln_config_stray(config), "environment KILN_QQQ"));
    kiln_config_free(config);
}

static void a_lease_shorter_than_two_heartbeats_is_refused(void **state)
{
    (void)state;
    struct kiln_config *config = kiln_config_new();
    struct kiln_error err;
    assert_int_equal(kiln_config_check(config, &err), 0);
    assert_int_equal(kiln_config_parse(config, "lease_s = 5", 11, "k.conf", &err), 0);
    assert_int_equal(kiln_config_set(config, "heartbeat-s", "2.5", "flag --heartbeat-s", &err), 0);
    assert_int_equal(kiln_config_check(config, &err), 0); /* just two */
    assert_int_equal(kiln_config_set(config, "heartbeat-s", "2.6", "flag --heartbeat-s", &err), 0);
    assert_int_equal(kiln_config_check(config, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "lease_s is 5 (k.conf:1) and heartbeat_s is 2.6 "
                                     "(flag --heartbeat-s): a lease must last at least 2"));
    assert_int_equal(kiln_config_set(config, "lease_s", "60", "flag --lease-s", &err), 0);
    assert_int_equal(kiln_config_check(config, &err), 0);
    kiln_config_free(config);
}

/* --- the log line -------------------------------------------------------------------------- */

/* Logs one event into a file and returns what was written. */
static void log_one(bool json, enum kiln_level level, char *out, size_t size)
{
    int saved = dup(STDERR_FILENO), file = open("log.txt", O_CREAT | O_TRUNC | O_RDWR, 0600);
    assert_true(saved >= 0 && file >= 0);
    unlink("log.txt");
    dup2(file, STDERR_FILENO);
    kiln_log_setup("kiln-test", KILN_LOG_INFO, json);
    kiln_log(level, "job_done", kiln_f("job", "%d", 12), kiln_f("why", "a \"b\" = c\nd"),
             kiln_f("none", "%s", ""));
    dup2(saved, STDERR_FILENO);
    close(saved);
    ssize_t len = pread(file, out, size - 1, 0);
    out[len > 0 ? len : 0] = '\0';
    close(file);
}

static void a_text_line_is_one_line_of_pairs(void **state)
{
    (void)state;
    char line[1024];
    log_one(false, KILN_LOG_INFO, line, sizeof line);
    const char *rest = strchr(line, ' ');
    assert_non_null(rest);
    assert_string_equal(rest,
                        " info kiln-test job_done job=12 why=\"a \\\"b\\\" = c\\nd\" none=\"\"\n");
    assert_int_equal(rest - line, strlen("2026-11-21T08:00:00.123Z"));
}

static void a_json_line_is_json(void **state)
{
    (void)state;
    char line[1024];
    log_one(true, KILN_LOG_ERROR, line, sizeof line);
    json_t *event = json_loads(line, 0, NULL);
    assert_non_null(event);
    assert_string_equal(json_string_value(json_object_get(event, "level")), "error");
    assert_string_equal(json_string_value(json_object_get(event, "event")), "job_done");
    assert_string_equal(json_string_value(json_object_get(event, "why")), "a \"b\" = c\nd");
    json_decref(event);
}

static void less_important_events_are_left_out(void **state)
{
    (void)state;
    char line[1024];
    log_one(false, KILN_LOG_DEBUG, line, sizeof line);
    assert_string_equal(line, "");
    assert_int_equal(kiln_level_by_name("warning"), KILN_LOG_WARNING);
    assert_int_equal(kiln_level_by_name("loud"), KILN_LOG_INFO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_complete_and_its_defaults_are_valid),
        cmocka_unit_test(a_file_is_read_line_by_line),
        cmocka_unit_test(wrong_lines_name_file_and_line),
        cmocka_unit_test(the_environment_lies_over_the_file),
        cmocka_unit_test(a_variable_that_is_no_setting_is_told_and_passed_over),
        cmocka_unit_test(a_lease_shorter_than_two_heartbeats_is_refused),
        cmocka_unit_test(a_text_line_is_one_line_of_pairs),
        cmocka_unit_test(a_json_line_is_json),
        cmocka_unit_test(less_important_events_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
