/* test_caption_head.c - the head over caption features is that of Python, by
 * scripts/golden_caption_head.py; heads of another form are refused.
 */
#include "tests/embed/golden_files.h"

#include <math.h>

#include "pipeline/embed/captions/head.h"
#include "pipeline/embed/captions/token_rows.h"

enum { DIMS = 24 };

static const float *values_of(const struct kiln_st *st, const char *name, size_t *ret_count)
{
    return tensor(st, "", name, ret_count);
}

/* Rows of the head are those of the golden file, from features of so many tokens. */
static size_t compare_rows(const struct kiln_st *st, const struct kiln_caption_head *head,
                           enum kiln_head_use use, const char *name, float *rows)
{
    char of_rows[32];
    size_t values, expected_values;
    float features[KILN_TOKEN_ROWS_MAX * DIMS], expected[KILN_TOKEN_ROWS_MAX * DIMS];
    snprintf(of_rows, sizeof of_rows, "%s_rows", name);
    const void *from = values_of(st, name, &values), *to = values_of(st, of_rows, &expected_values);
    const size_t count = values / DIMS;
    assert_true(values <= sizeof features / sizeof *features);
    assert_int_equal(expected_values, count * head->row);
    memcpy(features, from, values * sizeof *features);
    memcpy(expected, to, expected_values * sizeof *expected);
    kiln_caption_head_apply(head, use, features, count, rows);
    for (size_t i = 0; i < expected_values; i++)
        assert_true(fabsf(rows[i] - expected[i]) < 1e-5f);
    return count;
}

static float value_at(const struct kiln_st *st, const char *name, size_t i)
{
    float value;
    size_t count;
    const void *values = values_of(st, name, &count);
    assert_true(i < count);
    memcpy(&value, (const char *)values + i * sizeof value, sizeof value);
    return value;
}

static void test_the_head_is_that_of_python(void **state)
{
    (void)state;
    enum { CAPTIONS = 3 };
    struct kiln_error err;
    struct kiln_caption_head head;
    struct kiln_st *st;
    struct kiln_token_query *q;
    float rows[KILN_TOKEN_ROWS_MAX * DIMS];
    uint8_t stored[CAPTIONS][4 + 9 * (8 + DIMS)];
    size_t sizes[CAPTIONS];
    if (kiln_caption_head_read(golden("caption_head.safetensors"), &head, &err) ||
        kiln_st_open(golden("caption_head.safetensors"), &st, &err))
        fail_msg("%s", err.text);
    assert_int_equal(head.dims, DIMS);
    assert_int_equal(head.row, 8);
    assert_string_equal(head.model, "abc");
    for (size_t i = 0; i < CAPTIONS; i++) {
        char name[16];
        snprintf(name, sizeof name, "caption%zu", i);
        const size_t count = compare_rows(st, &head, KILN_HEAD_STORED, name, rows);
        sizes[i] = kiln_token_rows_size(count, head.row);
        assert_true(sizes[i] <= sizeof stored[i]);
        kiln_token_rows_encode(rows, count, head.row, stored[i]);
    }
    compare_rows(st, &head, KILN_HEAD_VAGUE, "vague", rows);
    const size_t count = compare_rows(st, &head, KILN_HEAD_QUERY, "query", rows);
    assert_int_equal(kiln_token_query_new(rows, count, head.row, &q, &err), 0);
    for (size_t i = 0; i < CAPTIONS; i++)
        assert_true(fabsf(kiln_token_query_score(q, stored[i], sizes[i]) -
                          value_at(st, "query_scores", i)) < 0.01f);
    kiln_token_query_free(q);
    for (size_t i = 0; i < CAPTIONS; i++) {
        assert_int_equal(kiln_token_query_of(stored[i], sizes[i], head.row, &q, &err), 0);
        for (size_t k = 0; k < CAPTIONS; k++)
            assert_true(fabsf(kiln_token_query_score(q, stored[k], sizes[k]) -
                              value_at(st, "caption_scores", i * CAPTIONS + k)) < 0.01f);
        kiln_token_query_free(q);
    }
    const float nothing[2 * DIMS] = {[DIMS] = NAN};
    kiln_caption_head_apply(&head, KILN_HEAD_QUERY, nothing, 2, rows);
    for (size_t i = 0; i < 2 * head.row; i++)
        assert_true(rows[i] == 0);
    kiln_st_close(st);
    kiln_caption_head_release(&head);
}

static void write_head(const float *map, int64_t map_dims, int64_t vague_rows, int64_t uses,
                       const char *format)
{
    static const float values[3 * DIMS] = {1, 2, [DIMS] = 3, [2 * DIMS] = 4};
    const struct kiln_st_tensor tensors[] = {
        {"map", KILN_ST_F32, 2, {2, map_dims}, map, (size_t)map_dims * 2 * 4},
        {"vague_map",
         KILN_ST_F32,
         2,
         {vague_rows, map_dims},
         map,
         (size_t)(vague_rows * map_dims) * 4},
        {"shift", KILN_ST_F32, 1, {uses}, values, (size_t)uses * 4},
        {"weight", KILN_ST_F32, 2, {uses, DIMS}, values, (size_t)uses * DIMS * 4}};
    const char *const metadata[] = {"format", format, "model", "abc", NULL};
    struct kiln_error err;
    assert_int_equal(kiln_st_write("head.safetensors", tensors, 4, metadata, &err), 0);
}

static void test_heads_of_another_form_are_refused(void **state)
{
    (void)state;
    struct kiln_caption_head head;
    struct kiln_error err;
    float map[2 * DIMS] = {1};
    write_head(map, DIMS, 2, 3, "kiln-caption-head-2");
    assert_int_equal(kiln_caption_head_read("head.safetensors", &head, &err), 0);
    kiln_caption_head_release(&head);
    write_head(map, DIMS - 1, 2, 3, "kiln-caption-head-2");
    assert_int_equal(kiln_caption_head_read("head.safetensors", &head, &err), KILN_CORRUPT);
    write_head(map, DIMS, 2, 2, "kiln-caption-head-2");
    assert_int_equal(kiln_caption_head_read("head.safetensors", &head, &err), KILN_CORRUPT);
    write_head(map, DIMS, 1, 3, "kiln-caption-head-2");
    assert_int_equal(kiln_caption_head_read("head.safetensors", &head, &err), KILN_CORRUPT);
    write_head(map, DIMS, 2, 3, "kiln-caption-head-1");
    assert_int_equal(kiln_caption_head_read("head.safetensors", &head, &err), KILN_CORRUPT);
    write_head(map, DIMS, 2, 3, "kiln-captions-1");
    assert_int_equal(kiln_caption_head_read("head.safetensors", &head, &err), KILN_CORRUPT);
    map[3] = INFINITY;
    write_head(map, DIMS, 2, 3, "kiln-caption-head-2");
    assert_int_equal(kiln_caption_head_read("head.safetensors", &head, &err), KILN_CORRUPT);
    assert_int_equal(kiln_caption_head_read("none", &head, &err), KILN_NOT_FOUND);
}

static void test_vague_queries_are_as_all_to_a_head_of_format_1(void **state)
{
    (void)state;
    struct kiln_caption_head head;
    struct kiln_error err;
    const float map[2 * DIMS] = {1, [DIMS + 1] = 2}, x[DIMS] = {3, 4};
    float query[2], vague[2], stored[2];
    write_head(map, DIMS, 1, 2, "kiln-caption-head-1"); /* its "vague_map" is passed over */
    if (kiln_caption_head_read("head.safetensors", &head, &err))
        fail_msg("%s", err.text);
    kiln_caption_head_apply(&head, KILN_HEAD_QUERY, x, 1, query);
    kiln_caption_head_apply(&head, KILN_HEAD_VAGUE, x, 1, vague);
    kiln_caption_head_apply(&head, KILN_HEAD_STORED, x, 1, stored);
    assert_memory_equal(vague, query, sizeof query);
    assert_true(query[0] > 0 && query[1] > 0 && query[0] != stored[0]);
    kiln_caption_head_release(&head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_head_is_that_of_python),
        cmocka_unit_test(test_heads_of_another_form_are_refused),
        cmocka_unit_test(test_vague_queries_are_as_all_to_a_head_of_format_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
