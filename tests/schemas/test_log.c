/* test_log.c - a line of the log as JSON: numbers are numbers, and nothing else is. */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "schemas/telemetry/log.h"

/* The line that the log writes, parsed. */
static json_t *line_of(const struct kiln_field *fields, size_t count)
{
    int before = dup(STDERR_FILENO), file = open("line.txt", O_RDWR | O_CREAT | O_TRUNC, 0600);
    char text[4096];
    assert_true(file >= 0 && dup2(file, STDERR_FILENO) == STDERR_FILENO);
    kiln_log_fields(KILN_LOG_INFO, "tried", fields, count);
    dup2(before, STDERR_FILENO);
    close(before);
    ssize_t len = pread(file, text, sizeof text - 1, 0);
    close(file);
    assert_true(len > 0);
    text[len] = 0;
    json_error_t why;
    json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (!line)
        fail_msg("%s: %s", why.text, text);
    return line;
}

static void numbers_are_numbers(void **state)
{
    (void)state;
    const struct kiln_field fields[] = {
        kiln_f("jobs", "%u", 7u),      kiln_f("id", "%llu", 9223372036854775807ULL),
        kiln_f("took_s", "%.2f", 1.5), kiln_f("small", "%g", 1e-7),
        kiln_f("below", "%d", -3),     kiln_f("nothing", "%.1f", 0.0),
        kiln_f("worker", "%s", "7"),   kiln_f("never", "%.1f", INFINITY),
        kiln_f("wrong", "%g", NAN),    kiln_f("two", "%d/%d", 1, 2),
        kiln_f("padded", "%02d", 5),   kiln_f("hex", "%x", 17u),
        kiln_f("word", "%d", 12),
    };
    kiln_log_setup("test", KILN_LOG_INFO, true);
    json_t *line = line_of(fields, sizeof fields / sizeof fields[0]);
    static const char *const numbers[] = {"jobs",  "id",      "took_s", "small",
                                          "below", "nothing", "word"};
    static const char *const texts[] = {"worker", "never", "wrong", "two",     "padded",
                                        "hex",    "time",  "level", "program", "event"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        assert_true(json_is_number(json_object_get(line, numbers[i])));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_true(json_is_string(json_object_get(line, texts[i])));
    assert_int_equal(json_integer_value(json_object_get(line, "id")), 9223372036854775807LL);
    assert_string_equal(json_string_value(json_object_get(line, "padded")), "05");
    json_decref(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_are_numbers)};
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
