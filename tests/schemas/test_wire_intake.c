/* test_wire_intake.c - entries of the intake stream: what is read, and what is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/wire/wire.h"

static int decode_intake(size_t count, const char *const *fields, struct kiln_intake_entry *entry,
                         struct kiln_error *err)
{
    size_t lengths[32];
    for (size_t i = 0; i < 2 * count; i++)
        lengths[i] = strlen(fields[i]);
    return kiln_intake_decode(fields, lengths, count, entry, err);
}

static void intake_entries_decode(void **state)
{
    (void)state;
    const char *fields[] = {
        "batch", "b-1", "job", "{\"prompt\":\"x\"}", "index", "4294967295", "key",   "c:a#0",
        "token", "t0",  "end", "10000000",           "later", "ignored",    "later", "twice"};
    struct kiln_intake_entry entry;
    struct kiln_error err;
    assert_int_equal(decode_intake(8, fields, &entry, &err), 0);
    assert_string_equal(entry.batch, "b-1");
    assert_int_equal(entry.job_len, strlen(entry.job));
    assert_true(entry.has_index && entry.index == UINT32_MAX);
    assert_true(entry.has_end && entry.end == KILN_BATCH_JOBS_MAX);
    assert_string_equal(entry.key, "c:a#0");
    assert_string_equal(entry.token, "t0");
    assert_int_equal(decode_intake(2, fields, &entry, &err), 0);
    assert_false(entry.has_index || entry.has_end);
    assert_null(entry.key);
}

static void wrong_intake_entries_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *fields[6];
        size_t count;
        const char *says;
    } rows[] = {
        {{"job", "{}"}, 1, "field \"batch\" is missing"},
        {{"batch", "b"}, 1, "needs \"job\", \"gone\" or \"end\""},
        {{"batch", "a b", "job", "{}"}, 2, "field \"batch\" must be"},
        {{"batch", "b", "job", "{}", "index", "-1"}, 3, "field \"index\" must be a whole number"},
        {{"batch", "b", "job", "{}", "index", "4294967296"}, 3, "of up to 4294967295"},
        {{"batch", "b", "job", "{}", "index", ""}, 3, "field \"index\""},
        {{"batch", "b", "end", "10000001"}, 2, "of up to 10000000"},
        {{"batch", "b", "job", "{}", "token", "a/b"}, 3, "field \"token\""},
        {{"batch", "b", "job", "{}", "key", ""}, 3, "field \"key\""},
        {{"batch", "b", "job", "{}", "key", "\xff"}, 3, "field \"key\""},
        {{"batch", "b", "job", "{}", "job", "[]"}, 3, "field \"job\" is given twice"},
        {{"batch", "b", "end", "1", "end", "1"}, 3, "field \"end\" is given twice"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kiln_intake_entry entry;
        struct kiln_error err = {0};
        assert_int_equal(decode_intake(rows[i].count, rows[i].fields, &entry, &err), KILN_PROTOCOL);
        if (!strstr(err.text, rows[i].says))
            fail_msg("row %zu: %s", i, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intake_entries_decode),
        cmocka_unit_test(wrong_intake_entries_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
