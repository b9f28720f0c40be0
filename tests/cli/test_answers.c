/* test_answers.c - the answer file of an OpenAI batch: a line for each request that has ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "scheduler/cli/jobs/export/answers.h"

struct row {
    const char *custom_id;
    enum kiln_job_state state;
    const char *path;
    int code;
    const char *error;
    const char *batch; /* NULL: the first one */
};

/* The lines that jobs 1, 2, ... make, as a list. */
static json_t *answers_of(const struct row *rows, size_t count)
{
    struct kiln_answers *answers = kiln_answers_new();
    struct kiln_error err;
    char *text = NULL;
    size_t size;
    assert_non_null(answers);
    for (size_t i = 0; i < count; i++) {
        const struct kiln_job_row row = {
            .job = {.id = i + 1,
                    .batch = (char *)(rows[i].batch ? rows[i].batch : "first"),
                    .custom_id = (char *)rows[i].custom_id,
                    .state = rows[i].state,
                    .width = 64,
                    .height = 96},
            .error_code = rows[i].code,
            .error = rows[i].error,
            .finished_ms = 5000 + 1000 * (int64_t)i};
        assert_int_equal(kiln_answers_add(answers, &row, rows[i].path, &err), 0);
    }
    FILE *file = open_memstream(&text, &size);
    assert_int_equal(kiln_answers_write(answers, file, &err), 0);
    assert_int_equal(fclose(file), 0);
    kiln_answers_free(answers);
    json_t *list = json_array();
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *value = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(value);
        json_array_append_new(list, value);
    }
    free(text);
    return list;
}

static void check(json_t *list, size_t at, const char *custom_id, int status, size_t pictures,
                  const char *code)
{
    const char *name, *found = NULL;
    int answer = 0;
    json_t *data = NULL, *line = json_array_get(list, at);
    assert_int_equal(json_unpack(line, "{s:s, s:{s:i, s:{s:o, s?{s:s}}}}", "custom_id", &name,
                                 "response", "status_code", &answer, "body", "data", &data, "error",
                                 "code", &found),
                     0);
    assert_string_equal(name, custom_id);
    assert_int_equal(answer, status);
    assert_int_equal(json_array_size(data), pictures);
    assert_true(code ? found && strcmp(code, found) == 0 : !found);
    assert_true(json_is_null(json_object_get(line, "error")));
}

static void a_request_has_one_line(void **state)
{
    static const struct row rows[] = {
        {"a", KILN_JOB_DONE, "full/000000-a.webp", 0, NULL, NULL},
        {"b \"q\"", KILN_JOB_FAILED, NULL, KILN_BAD_INPUT, "no LoRA \"ink\"", NULL},
        {"a", KILN_JOB_DONE, "full/000002-a.webp", 0, NULL, NULL},
        {"c", KILN_JOB_DONE, NULL, 0, NULL, NULL}, /* damaged */
        {"d", KILN_JOB_QUEUED, NULL, 0, NULL, NULL},
        {"e", KILN_JOB_CANCELLED, NULL, 0, NULL, NULL},
        {"f", KILN_JOB_DONE, "full/000006-f.webp", 0, NULL, NULL},
        {"f", KILN_JOB_FAILED, NULL, KILN_DEVICE, "out of memory", NULL},
        {NULL, KILN_JOB_DONE, "full/000008.webp", 0, NULL, NULL},
        {"a", KILN_JOB_FAILED, NULL, KILN_DEVICE, "out of memory", "second"}};
    (void)state;
    json_t *list = answers_of(rows, sizeof rows / sizeof *rows);
    assert_int_equal(json_array_size(list), 7); /* d has not ended */
    check(list, 0, "a", 200, 2, NULL);
    check(list, 1, "b \"q\"", 400, 0, kiln_code_name(KILN_BAD_INPUT));
    check(list, 2, "c", 500, 0, kiln_code_name(KILN_CORRUPT));
    check(list, 4, "f", 500, 1, kiln_code_name(KILN_DEVICE));
    check(list, 5, "job-9", 200, 1, NULL);
    check(list, 6, "a", 500, 0, kiln_code_name(KILN_DEVICE)); /* a request of another batch */
    const char *code, *id, *url, *size;
    int created;
    assert_int_equal(json_unpack(json_array_get(list, 3), "{s:{s:s}}", "error", "code", &code), 0);
    assert_string_equal(code, "batch_cancelled");
    assert_true(json_is_null(json_object_get(json_array_get(list, 3), "response")));
    assert_int_equal(json_unpack(json_array_get(list, 0), "{s:s, s:{s:{s:i, s:s, s:[{s:s}*]}}}",
                                 "id", &id, "response", "body", "created", &created, "size", &size,
                                 "data", "url", &url),
                     0);
    assert_string_equal(url, "full/000000-a.webp");
    assert_string_equal(id, "batch_req_1");
    assert_int_equal(created, 7); /* the last of its pictures */
    assert_string_equal(size, "64x96");
    json_decref(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_request_has_one_line)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
