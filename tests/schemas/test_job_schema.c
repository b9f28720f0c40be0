/* test_job_schema.c - job.schema.json says what the reader of job lines does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "schemas/job/keys.h"
#include "tests/support/line.h"

static json_t *schema;

static int setup(void **state)
{
    (void)state;
    char path[4096];
    const char *source = getenv("KILN_SOURCE");
    snprintf(path, sizeof path, "%s/schemas/job.schema.json", source ? source : ".");
    json_error_t problem;
    /* The largest seed does not fit jansson's integers, but its doubles. */
    schema = json_load_file(path, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &problem);
    if (!schema)
        print_error("%s:%d: %s\n", path, problem.line, problem.text);
    return schema ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    json_decref(schema);
    return 0;
}

static json_t *property(const char *name)
{
    return json_object_get(json_object_get(schema, "properties"), name);
}

static double number_of(json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static const char *type_of(json_t *object)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    return type ? type : "";
}

static void the_keys_are_the_same(void **state)
{
    (void)state;
    assert_int_equal(json_object_size(json_object_get(schema, "properties")), KILN_JOB_KEYS);
    for (int key = 0; key < KILN_JOB_KEYS; key++)
        if (!property(kiln_job_keys[key].name))
            fail_msg("%s is not in job.schema.json", kiln_job_keys[key].name);
    assert_true(json_is_false(json_object_get(schema, "additionalProperties")));
}

static void check_text(const struct kiln_job_key_row *row, json_t *rule)
{
    assert_string_equal(type_of(rule), "string");
    assert_true(number_of(rule, "maxLength") == row->max);
    assert_true(number_of(rule, "minLength") == row->min);
    assert_int_equal(json_object_get(rule, "pattern") != NULL,
                     row->type == KILN_JOB_NAME || strcmp(row->name, "custom_id") == 0);
}

static void check_choices(const struct kiln_job_key_row *row, json_t *rule)
{
    json_t *names = json_object_get(rule, "enum");
    size_t count = 0;
    for (; row->choices[count]; count++)
        assert_string_equal(json_string_value(json_array_get(names, count)), row->choices[count]);
    assert_int_equal(json_array_size(names), count);
    assert_string_equal(json_string_value(json_object_get(rule, "default")), row->choices[0]);
}

static void types_and_limits_are_the_same(void **state)
{
    (void)state;
    for (int key = 0; key < KILN_JOB_KEYS; key++) {
        const struct kiln_job_key_row *row = &kiln_job_keys[key];
        json_t *rule = property(row->name);
        switch (row->type) {
        case KILN_JOB_TEXT:
        case KILN_JOB_NAME:
            check_text(row, rule);
            break;
        case KILN_JOB_WHOLE:
        case KILN_JOB_NUMBER:
            assert_string_equal(type_of(rule), row->type == KILN_JOB_WHOLE ? "integer" : "number");
            assert_true(number_of(rule, "minimum") == row->min ||
                        (json_object_get(rule, "exclusiveMinimum") &&
                         number_of(rule, "exclusiveMinimum") == row->min));
            assert_true(number_of(rule, "maximum") == row->max);
            break;
        case KILN_JOB_CHOICE:
            check_choices(row, rule);
            break;
        case KILN_JOB_BOOL:
            assert_string_equal(type_of(rule), "boolean");
            break;
        case KILN_JOB_COARSE:
            assert_string_equal(type_of(rule), "string");
            assert_non_null(json_object_get(rule, "pattern"));
            break;
        case KILN_JOB_SIZE:
        case KILN_JOB_STYLE:
        case KILN_JOB_SEED:
        case KILN_JOB_LORAS:
        case KILN_JOB_SIGMAS:
            assert_int_equal(json_array_size(json_object_get(rule, "oneOf")), 2);
            break;
        }
    }
}

static void limits_of_lists_are_the_same(void **state)
{
    (void)state;
    json_t *loras = json_array_get(json_object_get(property("loras"), "oneOf"), 1);
    json_t *scale =
        json_object_get(json_object_get(json_object_get(loras, "items"), "properties"), "scale");
    json_t *seed = json_array_get(json_object_get(property("seed"), "oneOf"), 0);
    assert_true(number_of(loras, "maxItems") == KILN_LORAS_MAX);
    assert_true(number_of(scale, "maximum") == KILN_LORA_SCALE_MAX);
    assert_true(number_of(scale, "minimum") == -KILN_LORA_SCALE_MAX);
    assert_true(number_of(seed, "maximum") == 0x1p64);
    static const char *const lists[] = {"size", "style"};
    for (size_t i = 0; i < 2; i++) {
        json_t *list = json_array_get(json_object_get(property(lists[i]), "oneOf"), 1);
        assert_true(number_of(list, "maxItems") == KILN_LIST_MAX);
    }
    assert_true(number_of(property("width"), "multipleOf") == KILN_SIDE_STEP);
}

/* A line that gives every key its default is the line that gives none; but for a "teleport":"off"
 * that is said: it stays, since batches of earlier releases are known by that text. */
static void defaults_are_those_of_the_reader(void **state)
{
    (void)state;
    json_t *line = json_pack("{s:s}", "prompt", "x");
    for (int key = 0; key < KILN_JOB_KEYS; key++) {
        json_t *value = json_object_get(property(kiln_job_keys[key].name), "default");
        if (value && key != KILN_JOB_KEY_TELEPORT)
            json_object_set(line, kiln_job_keys[key].name, value);
    }
    assert_string_equal(json_string_value(json_object_get(property("teleport"), "default")), "off");
    char *text = json_dumps(line, 0);
    const char *bare = "{\"prompt\":\"x\"}";
    struct kiln_job given, left_out;
    struct kiln_error err;
    bool has_seed;
    if (kiln_job_line_parse(text, strlen(text), NULL, &given, &has_seed, &err) != 0)
        fail_msg("%s: %s", text, err.text);
    assert_int_equal(kiln_job_line_parse(bare, strlen(bare), NULL, &left_out, &has_seed, &err), 0);
    char *a = test_line(&given), *b = test_line(&left_out);
    assert_string_equal(a, b);
    kiln_job_release(&given);
    kiln_job_release(&left_out);
    free(a);
    free(b);
    free(text);
    json_decref(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_keys_are_the_same),
        cmocka_unit_test(types_and_limits_are_the_same),
        cmocka_unit_test(limits_of_lists_are_the_same),
        cmocka_unit_test(defaults_are_those_of_the_reader),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
