/* test_judge.c - the judge in C sees and scores what the one in Python does.
 *
 * tests/golden/judge holds real renders of every style at sizes that are scaled down, up or not at
 * all, with what scripts/train/export_judge.py saw in them and how that scores against their own
 * caption and the one of the picture before.  Names must be equal; places and sureness are off by
 * what another order of sums may make of them.
 */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/judge.h"
#include "pipeline/judge_requests.h"
#include "pipeline/judge_score.h"
#include "pipeline/torch/tensor.h"
#include "storage/webp.h"

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

/* The same captions as a file of requests: the reader is part of what is compared. */
static void read_requests(struct kiln_requests *ret)
{
    size_t i, k;
    json_t *one, *score;
    struct kiln_error err;
    FILE *file = fopen("requests.jsonl", "w");
    assert_non_null(file);
    json_array_foreach(cases, i, one) json_array_foreach(json_object_get(one, "scores"), k, score)
    {
        json_t *line =
            json_pack("{s:s, s:O}", "prompt", "x", "asked", json_object_get(score, "asked"));
        assert_int_equal(json_dumpf(line, file, JSON_COMPACT), 0);
        fputc('\n', file);
        json_decref(line);
    }
    fclose(file);
    if (kiln_requests_read("requests.jsonl", labels, SIZE_MAX, ret, &err))
        fail_msg("%s", err.text);
}

static void scores_as_python_does(void **state)
{
    (void)state;
    size_t i, k;
    json_t *one, *score;
    struct kiln_requests requests;
    read_requests(&requests);
    const struct kiln_request *request = requests.items;
    int64_t wrong = 0;
    json_array_foreach(cases, i, one)
    {
        struct kiln_seen seen = look(one);
        json_array_foreach(json_object_get(one, "scores"), k, score)
        {
            const json_t *want = json_object_get(score, "score");
            struct kiln_score got;
            kiln_judge_score(labels, &request->asked, &seen, &got);
            request++;
            for (int a = 0; a < KILN_ATTRIBUTES; a++) {
                const json_t *pair = json_object_get(want, kiln_attribute_names[a]);
                assert_int_equal(got.right[a], json_integer_value(json_array_get(pair, 0)));
                assert_int_equal(got.asked[a], json_integer_value(json_array_get(pair, 1)));
                wrong += got.asked[a] - got.right[a];
            }
        }
    }
    assert_true(request == requests.items + requests.count);
    assert_true(wrong > 20); /* a caption of another picture must not pass */
    kiln_requests_release(&requests);
}

static void counts_over_many_pictures(void **state)
{
    (void)state;
    struct kiln_tally tally = {0};
    const struct kiln_score good = {.right = {[KILN_SHAPE] = 2}, .asked = {[KILN_SHAPE] = 2}};
    const struct kiln_score bad = {.right = {[KILN_SHAPE] = 1}, .asked = {2, 1}};
    assert_true(isnan(kiln_tally_rate(&tally)));
    kiln_tally_add(&tally, &good);
    kiln_tally_add(&tally, &bad);
    assert_int_equal(tally.pictures, 2);
    assert_int_equal(tally.whole, 1);
    assert_true(fabs(kiln_tally_rate(&tally) - 0.6) < 1e-9);
}

/* --- bad input -------------------------------------------------------------------------------- */

static void refuses_bad_requests(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } bad[] = {
        {"{", "requests.jsonl:2"},
        {"[]", "prompt"},
        {"{\"prompt\": \"x\"}", "asked"},
        {"{\"prompt\": 3, \"asked\": {}}", "prompt"},
        {"{\"prompt\": \"x\", \"width\": 100, \"asked\": {}}", "width"},
        {"{\"prompt\": \"x\", \"seed\": -1, \"asked\": {}}", "seed"},
        {"{\"prompt\": \"x\", \"asked\": {\"things\": [{\"shape\": \"cat\"}]}}", "\"cat\""},
        {"{\"prompt\": \"x\", \"asked\": {\"things\": [{\"zone\": \"off\"}]}}", "\"off\""},
        {"{\"prompt\": \"x\", \"asked\": {\"things\": [3]}}", "things[0]"},
        {"{\"prompt\": \"x\", \"asked\": {\"things\": [{},{},{},{},{},{},{}]}}", "more than 6"},
        {"{\"prompt\": \"x\", \"asked\": {\"things\": [{}], \"relations\": [[0,\"above\",1]]}}",
         "relations[0]"},
        {"{\"prompt\": \"x\", \"asked\": {\"background\": [\"moon\"]}}", "\"moon\""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct kiln_requests requests;
        struct kiln_error err;
        FILE *file = fopen("requests.jsonl", "w");
        fprintf(file, "{\"prompt\": \"fine\", \"asked\": {}}\n%s\n", bad[i].line);
        fclose(file);
        int code = kiln_requests_read("requests.jsonl", labels, SIZE_MAX, &requests, &err);
        printf("%s\n", err.text);
        assert_int_equal(code, KILN_BAD_INPUT);
        assert_non_null(strstr(err.text, bad[i].says));
        assert_non_null(strstr(err.text, "requests.jsonl:2"));
        assert_int_equal(kiln_requests_read("requests.jsonl", labels, 1, &requests, &err), 0);
        assert_int_equal(requests.count, 1); /* beyond the limit nothing is read */
        kiln_requests_release(&requests);
    }
}

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
        cmocka_unit_test(sees_what_python_sees),     cmocka_unit_test(scores_as_python_does),
        cmocka_unit_test(counts_over_many_pictures), cmocka_unit_test(refuses_bad_requests),
        cmocka_unit_test(refuses_what_is_no_judge),
    };
    return cmocka_run_group_tests(tests, open_judge, close_judge);
}
