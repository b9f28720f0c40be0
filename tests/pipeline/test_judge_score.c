/* test_judge_score.c - the judge without its network: heat maps, files of requests, scores.
 *
 * tests/golden/judge/cases.json has what Python saw in pictures and how that scores against their
 * own caption and the one of the picture before; the same must come out here.
 */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/bench/peaks.h"
#include "pipeline/bench/requests.h"
#include "pipeline/bench/score.h"

#define ROWS 9
#define COLS 12

static struct kiln_judge_labels labels;
static json_t *cases;

/* --- peaks ------------------------------------------------------------------------------------ */

/* A map of logits far below the threshold; the other channels are 0. */
static float *cold_map(void)
{
    size_t count = (size_t)kiln_judge_local_width(&labels) * ROWS * COLS;
    float *map = calloc(count, sizeof *map);
    assert_non_null(map);
    for (int i = 0; i < ROWS * COLS; i++)
        map[i] = -9;
    return map;
}

static void finds_peaks_and_their_names(void **state)
{
    (void)state;
    float *map = cold_map();
    struct kiln_seen seen;
    int at = 4 * COLS + 7, plane = ROWS * COLS;
    int star = 1 + kiln_label_find(&labels.shapes, "star");
    int cyan = 1 + labels.shapes.count + kiln_label_find(&labels.colours, "cyan");
    map[at] = 3;
    map[at + 2] = 2.5F; /* hot too, but beside a hotter one */
    map[0] = 1;         /* a corner is a place like any other */
    map[star * plane + at] = 1;
    map[cyan * plane + at] = 1;
    map[(kiln_judge_local_width(&labels) - 2) * plane + at] = 0.25F; /* to the right */
    kiln_judge_peaks(&labels, map, ROWS, COLS, &seen);
    assert_int_equal(seen.count, 2);
    assert_string_equal(labels.shapes.names[seen.things[0].shape], "star");
    assert_string_equal(labels.colours.names[seen.things[0].colour], "cyan");
    assert_int_equal(seen.things[0].size, 0);
    assert_true(fabs(seen.things[0].x - 7.75 / COLS) < 1e-6);
    assert_true(fabs(seen.things[0].y - 4.5 / ROWS) < 1e-6);
    assert_true(fabs(seen.things[1].x - 0.5 / COLS) < 1e-6);
    free(map);
}

static void keeps_the_six_hottest_in_order(void **state)
{
    (void)state;
    float *map = cold_map();
    struct kiln_seen seen;
    for (int i = 0; i < 12; i++) /* twelve peaks, three cells apart, not in order of heat */
        map[i / 4 * 3 * COLS + i % 4 * 3] = 1 + (float)(i * 5 % 12) / 10;
    map[1] = NAN; /* no peak, and hides none */
    kiln_judge_peaks(&labels, map, ROWS, COLS, &seen);
    assert_int_equal(seen.count, KILN_SEEN_THINGS_MAX);
    for (int i = 0; i < seen.count; i++)
        assert_true(fabs(seen.things[i].score - 1 / (1 + exp(-(2.1 - i / 10.0)))) < 1e-6);
    for (int i = 0; i < ROWS * COLS; i++)
        map[i] = NAN;
    kiln_judge_peaks(&labels, map, ROWS, COLS, &seen);
    assert_int_equal(seen.count, 0);
    free(map);
}

/* --- scores ----------------------------------------------------------------------------------- */

static int position(const json_t *of, const char *key, const struct kiln_label_list *list)
{
    int found = kiln_label_find(list, json_string_value(json_object_get(of, key)));
    assert_true(found >= 0);
    return found;
}

static struct kiln_seen seen_by_python(const json_t *from)
{
    size_t i;
    json_t *thing;
    struct kiln_seen seen = {
        .background = position(from, "background", &labels.backgrounds),
        .first = position(from, "first", &labels.colours),
        .second = position(from, "second", &labels.colours),
        .style = position(from, "style", &labels.styles),
    };
    json_array_foreach(json_object_get(from, "things"), i, thing) seen.things[seen.count++] =
        (struct kiln_seen_thing){
            .x = json_real_value(json_object_get(thing, "x")),
            .y = json_real_value(json_object_get(thing, "y")),
            .shape = position(thing, "shape", &labels.shapes),
            .colour = position(thing, "colour", &labels.colours),
            .size = position(thing, "size", &labels.sizes),
        };
    return seen;
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
    if (kiln_requests_read("requests.jsonl", &labels, SIZE_MAX, ret, &err))
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
        struct kiln_seen seen = seen_by_python(json_object_get(one, "seen"));
        json_array_foreach(json_object_get(one, "scores"), k, score)
        {
            const json_t *want = json_object_get(score, "score");
            struct kiln_score got;
            kiln_judge_score(&labels, &request->asked, &seen, &got);
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

/* Six asked, six seen: every pairing is tried, and the right one found. */
static void pairs_six_things(void **state)
{
    (void)state;
    struct kiln_asked asked = {
        .thing_count = 6, .relation_count = 1, .count = true, .background = KILN_NOT_ASKED};
    struct kiln_seen seen = {.count = 6};
    struct kiln_score score;
    for (int i = 0; i < 6; i++) {
        asked.things[i].shape = i;
        asked.things[i].colour = asked.things[i].size = KILN_NOT_ASKED;
        asked.things[i].zone = i == 2 ? 8 : KILN_NOT_ASKED;
        seen.things[5 - i].shape = i;
        seen.things[5 - i].x = seen.things[5 - i].y = 0.9;
    }
    asked.relations[0].a = 5;
    asked.relations[0].b = 0;
    asked.relations[0].above = true;
    seen.things[0].y = 0.84; /* above by 0.06, which is more than 0.05 */
    kiln_judge_score(&labels, &asked, &seen, &score);
    assert_true(kiln_score_whole(&score));
    assert_int_equal(score.asked[KILN_SHAPE], 6);
    assert_int_equal(score.asked[KILN_RELATION], 1);
    seen.things[0].y = 0.86;
    kiln_judge_score(&labels, &asked, &seen, &score);
    assert_int_equal(score.right[KILN_RELATION], 0);
    assert_int_equal(score.right[KILN_SHAPE], 6);
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
        int code = kiln_requests_read("requests.jsonl", &labels, SIZE_MAX, &requests, &err);
        printf("%s\n", err.text);
        assert_int_equal(code, KILN_BAD_INPUT);
        assert_non_null(strstr(err.text, bad[i].says));
        assert_non_null(strstr(err.text, "requests.jsonl:2"));
        assert_int_equal(kiln_requests_read("requests.jsonl", &labels, 1, &requests, &err), 0);
        assert_int_equal(requests.count, 1); /* beyond the limit nothing is read */
        kiln_requests_release(&requests);
    }
}

static int open_cases(void **state)
{
    (void)state;
    char path[4096];
    struct kiln_error err;
    const char *source = getenv("KILN_SOURCE") ? getenv("KILN_SOURCE") : ".";
    snprintf(path, sizeof path, "%s/tests/golden/judge/cases.json", source);
    cases = json_load_file(path, 0, NULL);
    snprintf(path, sizeof path, "%s/pipeline/models/judge", source);
    if (cases && kiln_judge_labels_read(path, &labels, &err) == 0)
        return 0;
    printf("%s\n", cases ? err.text : "no cases.json");
    return -1;
}

static int close_cases(void **state)
{
    (void)state;
    json_decref(cases);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_peaks_and_their_names),
        cmocka_unit_test(keeps_the_six_hottest_in_order),
        cmocka_unit_test(scores_as_python_does),
        cmocka_unit_test(pairs_six_things),
        cmocka_unit_test(counts_over_many_pictures),
        cmocka_unit_test(refuses_bad_requests),
    };
    return cmocka_run_group_tests(tests, open_cases, close_cases);
}
