/* test_judge.c - the judge in C sees what the one in Python does.
 *
 * tests/golden/judge holds real renders of every style at sizes that are scaled down, up or not at
 * all, with what scripts/train/export_judge.py saw in them.  Names must be equal; places and
 * sureness are off by what another order of sums may make of them.
 */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/bench/judge.h"
#include "pipeline/torch/tensor.h"
#include "storage/formats/pictures/webp.h"

#define NUMBER_LIMIT 2e-3
#define PIXELS_MAX (1024 * 1024)

static char golden[2048];
static struct kiln_judge *judge;
static const struct kiln_judge_labels *labels;
static json_t *cases;

static const char *source(void)
{
    const char *dir = getenv("KILN_SOURCE");
    return dir ? dir : ".";
}

static uint8_t *read_picture(const char *name, int *ret_width, int *ret_height)
{
    static uint8_t bytes[1 << 20];
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", golden, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s cannot be opened", path);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    uint8_t *rgb;
    uint32_t width, height;
    struct kiln_error err;
    if (kiln_webp_decode(bytes, size, PIXELS_MAX, &rgb, &width, &height, &err))
        fail_msg("%s: %s", path, err.text);
    *ret_width = (int)width;
    *ret_height = (int)height;
    return rgb;
}

static struct kiln_seen look(const json_t *one)
{
    int width, height;
    struct kiln_seen seen;
    struct kiln_error err;
    const char *name = json_string_value(json_object_get(one, "picture"));
    uint8_t *rgb = read_picture(name, &width, &height);
    if (kiln_judge_look(judge, rgb, width, height, &seen, &err))
        fail_msg("%s: %s", name, err.text);
    free(rgb);
    return seen;
}

static void check_name(const json_t *of, const char *key, const struct kiln_label_list *list,
                       int got)
{
    assert_in_range(got, 0, list->count - 1);
    assert_string_equal(list->names[got], json_string_value(json_object_get(of, key)));
}

static void check_number(const json_t *of, const char *key, double got)
{
    double want = json_real_value(json_object_get(of, key));
    if (!(fabs(got - want) <= NUMBER_LIMIT))
        fail_msg("%s: %.6f, in Python %.6f", key, got, want);
}

static void sees_what_python_sees(void **state)
{
    (void)state;
    size_t i, k;
    json_t *one, *thing;
    json_array_foreach(cases, i, one)
    {
        const json_t *want = json_object_get(one, "seen");
        struct kiln_seen seen = look(one);
        printf("%s: %d things\n", json_string_value(json_object_get(one, "picture")), seen.count);
        assert_int_equal(seen.count, json_array_size(json_object_get(want, "things")));
        json_array_foreach(json_object_get(want, "things"), k, thing)
        {
            check_name(thing, "shape", &labels->shapes, seen.things[k].shape);
            check_name(thing, "colour", &labels->colours, seen.things[k].colour);
            check_name(thing, "size", &labels->sizes, seen.things[k].size);
            check_number(thing, "score", seen.things[k].score);
            check_number(thing, "x", seen.things[k].x);
            check_number(thing, "y", seen.things[k].y);
        }
        check_name(want, "background", &labels->backgrounds, seen.background);
        check_name(want, "first", &labels->colours, seen.first);
        check_name(want, "second", &labels->colours, seen.second);
        check_name(want, "style", &labels->styles, seen.style);
    }
    assert_true(i >= 12);
}

/* --- bad input -------------------------------------------------------------------------------- */

static void refuses_what_is_no_judge(void **state)
{
    (void)state;
    struct kiln_judge *none;
    struct kiln_seen seen;
    struct kiln_error err;
    uint8_t pixels[3] = {0};
    assert_int_equal(kiln_judge_open(".", KT_CPU, &none, &err), KILN_NOT_FOUND);
    assert_non_null(strstr(err.text, "labels.json"));
    FILE *file = fopen("labels.json", "w");
    fputs("{\"shapes\": [\"circle\", 7]}", file);
    fclose(file);
    assert_int_equal(kiln_judge_open(".", KT_CPU, &none, &err), KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "shapes[1]"));
    assert_int_equal(kiln_judge_look(judge, pixels, 1, 1, &seen, &err), KILN_BAD_INPUT);
}

static void takes_pictures_up_to_16_times_as_long_as_wide(void **state)
{
    (void)state;
    static const uint8_t black[272 * 16 * 3];
    static const struct {
        int width, height, code;
    } sizes[] = {{16, 256, 0},
                 {256, 16, 0},
                 {16, 257, KILN_BAD_INPUT},
                 {271, 16, KILN_BAD_INPUT},
                 {15, 16, KILN_BAD_INPUT},
                 {16, 1 << 30, KILN_BAD_INPUT}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct kiln_seen seen;
        struct kiln_error err = {0};
        int code = kiln_judge_look(judge, black, sizes[i].width, sizes[i].height, &seen, &err);
        if (code != sizes[i].code)
            fail_msg("%dx%d: code %d: %s", sizes[i].width, sizes[i].height, code, err.text);
    }
}

static int open_judge(void **state)
{
    (void)state;
    char path[4096];
    struct kiln_error err;
    snprintf(golden, sizeof golden, "%s/tests/golden/judge", source());
    snprintf(path, sizeof path, "%s/cases.json", golden);
    cases = json_load_file(path, 0, NULL);
    snprintf(path, sizeof path, "%s/pipeline/models/judge", source());
    if (!cases || kiln_judge_open(path, KT_CPU, &judge, &err)) {
        printf("%s\n", cases ? err.text : "no cases.json");
        return -1;
    }
    labels = kiln_judge_labels(judge);
    return 0;
}

static int close_judge(void **state)
{
    (void)state;
    kiln_judge_close(judge);
    json_decref(cases);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sees_what_python_sees),
        cmocka_unit_test(refuses_what_is_no_judge),
        cmocka_unit_test(takes_pictures_up_to_16_times_as_long_as_wide),
    };
    return cmocka_run_group_tests(tests, open_judge, close_judge);
}
