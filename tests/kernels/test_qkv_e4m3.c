/* test_qkv_e4m3.c - packed rows in e4m3: q and k against the definition in double and against what
 * qkv_rope makes of them, v against its one scale, and rows that are not ordinary. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/attention/qkv_e4m3.h"
#include "kernels/attention/qkv_rope.h"
#include "kernels/fp8.h"
#include "tests/support/random.h"

enum { ROWS = 5, HEADS = 3, KV_HEADS = 2, PARTS = HEADS + 2 * KV_HEADS, DIM_MAX = 128 };

/* Three roundings to bf16, of which each is 2^-9 of a value. */
#define BF16_SHARE 8e-3

struct example {
    struct kiln_qkv_e4m3 args;
    uint16_t qkv[ROWS * PARTS * DIM_MAX], q_norm[DIM_MAX], k_norm[DIM_MAX];
    float cosine[ROWS * DIM_MAX / 2], sine[ROWS * DIM_MAX / 2];
    uint8_t codes[ROWS * PARTS * DIM_MAX];
    float scale[ROWS], to_codes;
};

static void fill(uint16_t *p, size_t count, struct test_random *random, float size)
{
    for (size_t i = 0; i < count; i++)
        p[i] = kiln_to_bf16(((float)test_random_below(random, 4001) / 2000.0f - 1.0f) * size);
}

static void make(struct example *e, int d, bool rotated, bool interleaved)
{
    struct test_random random = {(uint64_t)d};
    fill(e->qkv, ROWS * PARTS * (size_t)d, &random, 5);
    fill(e->q_norm, (size_t)d, &random, 2), fill(e->k_norm, (size_t)d, &random, 2);
    for (int i = 0; i < ROWS * d / 2; i++)
        e->cosine[i] = cosf((float)i), e->sine[i] = sinf((float)i);
    memset(e->codes, 0xa5, sizeof e->codes);
    e->scale[0] = e->to_codes = -1;
    e->args = (struct kiln_qkv_e4m3){.qkv = e->qkv,
                                     .q_norm = e->q_norm,
                                     .k_norm = e->k_norm,
                                     .cos = rotated ? e->cosine : NULL,
                                     .sin = rotated ? e->sine : NULL,
                                     .codes = e->codes,
                                     .scale = e->scale,
                                     .to_codes = &e->to_codes,
                                     .rows = ROWS,
                                     .heads = HEADS,
                                     .kv_heads = KV_HEADS,
                                     .head_dim = d,
                                     .interleaved = interleaved,
                                     .eps = 1e-5f};
}

/* Where value i of a packed head is. */
static int64_t place_of(const struct example *e, int64_t row, int part, int i)
{
    return (row * PARTS + part) * e->args.head_dim + i;
}

static double value_at(const struct example *e, int64_t place)
{
    return (double)kiln_from_bf16(e->qkv[place]);
}

/* Value i of a head of q or k by the definition. */
static double turned(const struct example *e, int64_t row, int part, int i)
{
    const int d = e->args.head_dim, half = d / 2;
    const uint16_t *norm = part < HEADS ? e->q_norm : e->k_norm;
    const int other = e->args.interleaved ? i ^ 1 : (i + half) % d;
    const int pair = e->args.interleaved ? i / 2 : i % half;
    const bool first = e->args.interleaved ? i % 2 == 0 : i < half;
    double sum = 0;
    for (int j = 0; j < d; j++)
        sum += pow(value_at(e, place_of(e, row, part, j)), 2);
    const double inverse = 1 / sqrt(sum / d + (double)e->args.eps);
    const double x =
        value_at(e, place_of(e, row, part, i)) * inverse * (double)kiln_from_bf16(norm[i]);
    const double y =
        value_at(e, place_of(e, row, part, other)) * inverse * (double)kiln_from_bf16(norm[other]);
    if (!e->args.cos)
        return x;
    const double c = (double)e->cosine[row * half + pair], s = (double)e->sine[row * half + pair];
    return x * c + (first ? -y : y) * s;
}

/* A code is within half a step of e4m3, a 16th of the value or half of the smallest step, and of
 * what the value may be off before. */
static void check_code(const struct example *e, int64_t place, double want, double scale,
                       double off)
{
    const double got = (double)kiln_from_e4m3(e->codes[place]) * scale;
    if (!(fabs(got - want) <= fabs(want) / 16 * 1.0001 + scale / 1023 + off))
        fail_msg("value %lld: %.9g for %.9g", (long long)place, got, want);
}

static void check_values(const struct example *e)
{
    const int d = e->args.head_dim;
    double top = 0;
    for (int64_t row = 0; row < ROWS; row++)
        for (int i = 0; i < KV_HEADS * d; i++)
            top = fmax(top, fabs(value_at(e, place_of(e, row, HEADS + KV_HEADS, i))));
    top = fmax(top, 1e-12);
    const double code_max = e->args.code_max ? (double)e->args.code_max : 448;
    /* A mean of v's codes, times what each means, is the result; by its scale, a code of it. */
    assert_true(fabs((double)e->to_codes * (double)e->scale[0] * 448 / code_max - 1) < 1e-6);
    for (int64_t row = 0; row < ROWS; row++) {
        assert_true(fabs((double)e->scale[row] * code_max / top - 1) < 1e-6);
        for (int i = 0; i < KV_HEADS * d; i++) {
            const int64_t place = place_of(e, row, HEADS + KV_HEADS, i);
            check_code(e, place, value_at(e, place), top / 448, 0);
        }
    }
}

static void check_by_definition(int d, bool rotated, bool interleaved)
{
    struct example e;
    make(&e, d, rotated, interleaved);
    kiln_qkv_e4m3_ref(&e.args);
    for (int64_t row = 0; row < ROWS; row++)
        for (int part = 0; part < HEADS + KV_HEADS; part++)
            for (int i = 0; i < d; i++) {
                const double want = turned(&e, row, part, i);
                check_code(&e, place_of(&e, row, part, i), want, 1, BF16_SHARE * (fabs(want) + 2));
            }
    check_values(&e);
}

static void rows_by_definition(void **state)
{
    (void)state;
    const int dims[] = {2, 6, 64, 128};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (int form = 0; form < 4; form++)
            check_by_definition(dims[i], form & 1, form & 2);
}

/* The bf16 of qkv_rope's own pass over the rows, then codes. */
static void q_and_k_are_those_of_qkv_rope(void **state)
{
    (void)state;
    struct example e;
    make(&e, 64, true, true);
    kiln_qkv_e4m3_ref(&e.args);
    const struct kiln_qkv_rope rope = {.qkv = e.qkv,
                                       .q_norm = e.q_norm,
                                       .k_norm = e.k_norm,
                                       .cos = e.cosine,
                                       .sin = e.sine,
                                       .q = e.qkv,
                                       .k = e.qkv + HEADS * 64,
                                       .rows = ROWS,
                                       .heads = HEADS,
                                       .kv_heads = KV_HEADS,
                                       .head_dim = 64,
                                       .interleaved = 1,
                                       .eps = e.args.eps,
                                       .format = KILN_BF16,
                                       .in_place = 1};
    kiln_qkv_rope_ref(&rope, 0, ROWS);
    for (int64_t row = 0; row < ROWS; row++)
        for (int i = 0; i < (HEADS + KV_HEADS) * 64; i++) {
            const int64_t place = place_of(&e, row, 0, i);
            assert_int_equal(e.codes[place], kiln_to_e4m3(kiln_from_bf16(e.qkv[place])));
        }
}

static void large_q_and_k_stop_at_448(void **state)
{
    (void)state;
    struct example e;
    make(&e, 6, false, false);
    for (int i = 0; i < 6; i++) {
        e.q_norm[i] = kiln_to_bf16(1e4f), e.k_norm[i] = kiln_to_bf16(-1e30f);
        for (int row = 0; row < ROWS; row++)
            for (int part = 0; part < PARTS; part++)
                e.qkv[place_of(&e, row, part, i)] = kiln_to_bf16(part == 1 ? -3.0f : 3.0f);
    }
    kiln_qkv_e4m3_ref(&e.args);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(e.codes[place_of(&e, 2, 0, i)], 0x7e);
        assert_int_equal(e.codes[place_of(&e, 2, 1, i)], 0xfe);
        assert_int_equal(e.codes[place_of(&e, 2, HEADS, i)], 0xfe);
    }
    check_values(&e);
}

static void nan_in_v_stays_alone(void **state)
{
    (void)state;
    struct example e, plain;
    make(&e, 6, true, false), make(&plain, 6, true, false);
    const int64_t place = place_of(&e, 1, PARTS - 1, 3);
    plain.qkv[place] = 0, e.qkv[place] = 0x7fc0;
    kiln_qkv_e4m3_ref(&e.args), kiln_qkv_e4m3_ref(&plain.args);
    assert_int_equal(e.codes[place], 0x7f);
    e.codes[place] = plain.codes[place];
    assert_memory_equal(e.codes, plain.codes, sizeof e.codes);
    assert_memory_equal(e.scale, plain.scale, sizeof e.scale);
    assert_true(isfinite(e.to_codes));
}

static void infinity_in_v_is_seen_everywhere(void **state)
{
    (void)state;
    struct example e;
    make(&e, 6, true, false);
    const int64_t place = place_of(&e, 1, PARTS - 1, 3);
    e.qkv[place] = 0xff80;
    kiln_qkv_e4m3_ref(&e.args);
    assert_int_equal(e.codes[place], 0x7f);
    assert_true(isinf(e.scale[0]) && isinf(e.scale[ROWS - 1]) && e.to_codes == 0);
}

static void v_of_zeros(void **state)
{
    (void)state;
    struct example e;
    make(&e, 6, true, true);
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < KV_HEADS * 6; i++)
            e.qkv[place_of(&e, row, HEADS + KV_HEADS, i)] = 0;
    kiln_qkv_e4m3_ref(&e.args);
    check_values(&e);
    assert_true(e.scale[0] > 0 && isfinite(e.to_codes));
    assert_int_equal(e.codes[place_of(&e, 3, PARTS - 1, 5)], 0);
}

static void a_result_that_leaves_codes_free(void **state)
{
    (void)state;
    struct example e, all;
    make(&e, 6, true, true), make(&all, 6, true, true);
    e.args.code_max = KILN_E4M3_BESIDE_MAX;
    kiln_qkv_e4m3_ref(&e.args), kiln_qkv_e4m3_ref(&all.args);
    check_values(&e);
    assert_memory_equal(e.codes, all.codes, sizeof e.codes);
    assert_true(e.scale[0] == 16 * all.scale[0]);
}

static void no_rows(void **state)
{
    (void)state;
    struct example e;
    make(&e, 6, true, false);
    e.args.rows = 0;
    kiln_qkv_e4m3_ref(&e.args);
    assert_true(e.codes[0] == 0xa5 && e.scale[0] == -1 && e.to_codes == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_by_definition),
        cmocka_unit_test(q_and_k_are_those_of_qkv_rope),
        cmocka_unit_test(large_q_and_k_stop_at_448),
        cmocka_unit_test(nan_in_v_stays_alone),
        cmocka_unit_test(infinity_in_v_is_seen_everywhere),
        cmocka_unit_test(v_of_zeros),
        cmocka_unit_test(a_result_that_leaves_codes_free),
        cmocka_unit_test(no_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
