/* test_low_rank_down.c - the first half of a LoRA against the definition in double: odd shapes,
 * pitches, all three formats, lora behind the rows of x, and how sums are rounded. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/fp8.h"
#include "kernels/products/low_rank_down.h"
#include "tests/kernels/operands.h"

#define GAP NAN /* between the rows: read, it is in every sum of its row */

static double value_at(const struct kiln_low_rank_down *a, const void *p, int64_t i)
{
    return a->e4m3 ? (double)kiln_from_e4m3(((const uint8_t *)p)[i]) : at(p, i, a->format);
}

static void check_value(const struct kiln_low_rank_down *a, int64_t row, int64_t r)
{
    const double factor = a->factor ? (double)a->factor[r] : 1;
    double sum = 0, size = 0;
    for (int64_t i = 0; i < a->k; i++) {
        const double term =
            value_at(a, a->x, row * a->x_pitch + i) * value_at(a, a->down, r * a->k + i);
        sum += term, size += fabs(term);
    }
    const double want = sum * factor, got = value_at(a, a->lora, row * a->lora_pitch + r);
    /* The sum and the factor in fp32, then half a step: e4m3 ends at 448, and its least is 2^-9. */
    double limit = (double)(a->k + 2) * 0x1p-24 * size * fabs(factor);
    if (a->e4m3)
        limit = limit * 1.1 + 0x1p-4 * fabs(want) + 0x1p-10;
    else if (a->format == KILN_BF16)
        limit += 0x1p-8 * fabs(want);
    const double bounded = a->e4m3 ? fmax(fmin(want, 448), -448) : want;
    if (!(fabs(got - bounded) <= limit))
        fail_msg("row %lld, value %lld, k %lld: got %.9g, want %.9g", (long long)row, (long long)r,
                 (long long)a->k, got, want);
}

/* --- rows ------------------------------------------------------------------------------------- */

enum form { F32, BF16, E4M3, FORMS };

/* Rows of n values with NaN in between; of codes one by one from those of fp32. */
static void *make_rows(struct test_random *random, int64_t rows, int64_t n, int64_t pitch,
                       enum form form)
{
    if (form != E4M3)
        return rows_of(random, rows, n, pitch, GAP, form == BF16 ? KILN_BF16 : KILN_F32);
    float *from = rows_of(random, rows, n, pitch, GAP, KILN_F32);
    uint8_t *codes = (uint8_t *)(void *)from;
    for (int64_t i = 0; i < rows * pitch; i++)
        codes[i] = kiln_to_e4m3(from[i]);
    return codes;
}

static void check(int64_t rows, int64_t k, int64_t rank, int64_t gap, enum form form, bool behind)
{
    struct test_random random = {(uint64_t)(rows * k + rank)};
    const int64_t x_pitch = k + gap + (behind ? rank : 0), size = (int64_t[]){4, 2, 1}[form];
    void *x = make_rows(&random, rows, k, x_pitch, form);
    void *down = make_rows(&random, rank, k, k, form);
    void *lora = behind ? x : make_rows(&random, rows, 0, rank + 2 * gap, form);
    float *factor = values(&random, rank, KILN_F32);
    struct kiln_low_rank_down args = {.x = x,
                                      .down = down,
                                      .factor = gap ? factor : NULL,
                                      .lora = (char *)lora + (behind ? k * size : 0),
                                      .x_pitch = x_pitch,
                                      .lora_pitch = behind ? x_pitch : rank + 2 * gap,
                                      .k = k,
                                      .rank = rank,
                                      .format = form == BF16 ? KILN_BF16 : KILN_F32,
                                      .e4m3 = form == E4M3};
    kiln_low_rank_down_ref(&args, 0, rows / 2);
    kiln_low_rank_down_ref(&args, rows / 2, rows);
    const int64_t left = behind ? x_pitch - k : args.lora_pitch; /* of a row, from lora on */
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t r = 0; r < rank; r++)
            check_value(&args, row, r);
        for (int64_t r = rank; r < left; r++)
            if (!isnan(value_at(&args, args.lora, row * args.lora_pitch + r)))
                fail_msg("row %lld: what follows it was written", (long long)row);
    }
    free(x), free(down), free(factor);
    if (!behind)
        free(lora);
}

static void rows_are_multiplied(void **state)
{
    static const int64_t depths[] = {1, 7, 64, 129}, ranks[] = {1, 3, 16, 48};
    (void)state;
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
        for (size_t j = 0; j < sizeof ranks / sizeof *ranks; j++)
            for (enum form form = 0; form < FORMS; form++)
                for (int layout = 0; layout < 4; layout++)
                    check(j % 2 ? 1 : 5, depths[i], ranks[j], layout & 1 ? 3 : 0, form, layout & 2);
}

/* --- one value -------------------------------------------------------------------------------- */

/* The code of factor * (x0 down0 + x1 down1). */
static uint8_t code_of(float x0, float down0, float x1, float down1, float factor)
{
    const uint8_t x[] = {kiln_to_e4m3(x0), kiln_to_e4m3(x1)};
    const uint8_t down[] = {kiln_to_e4m3(down0), kiln_to_e4m3(down1)};
    uint8_t lora = 0;
    const struct kiln_low_rank_down args = {.x = x,
                                            .down = down,
                                            .factor = &factor,
                                            .lora = &lora,
                                            .x_pitch = 2,
                                            .lora_pitch = 1,
                                            .k = 2,
                                            .rank = 1,
                                            .e4m3 = 1};
    kiln_low_rank_down_ref(&args, 0, 1);
    return lora;
}

static void codes_are_rounded_once_and_saturate(void **state)
{
    (void)state;
    assert_int_equal(code_of(1, 1, 0, 0, 1), 0x38);
    assert_int_equal(code_of(16, 1, 1, 1, 1), kiln_to_e4m3(16)); /* 17, a tie, to even */
    assert_int_equal(code_of(16, 1, 1, 1, 2), kiln_to_e4m3(32)); /* 34, too */
    assert_int_equal(code_of(18, 1, 1, 1, 1), kiln_to_e4m3(20)); /* and 19 */
    /* 17.125: the sum itself is not rounded before the factor. */
    assert_int_equal(code_of(16, 1, 1.125f, 1, 1), kiln_to_e4m3(18));
    assert_int_equal(code_of(448, 448, 0, 0, 1), 0x7e);
    assert_int_equal(code_of(448, -448, 0, 0, 1), 0xfe);
    assert_int_equal(code_of(448, 448, 0, 0, 0x1p-9f), kiln_to_e4m3(392)); /* not 448 before */
    assert_int_equal(code_of(0x1p-9f, 1, 0, 0, 0.5f), 0);                  /* a tie, to zero */
}

static void nan_stays_nan(void **state)
{
    (void)state;
    assert_int_equal(code_of(NAN, 1, 1, 1, 1), 0x7f);
    assert_int_equal(code_of(1, 1, 1, NAN, 1), 0x7f);
    assert_int_equal(code_of(1, 1, 1, 1, NAN), 0x7f);
}

/* 1 + 2^-8 is between two bf16, and 2^-8 more is not: neither term, nor the sum before the factor,
 * is rounded on the way. */
static void bf16_is_rounded_once(void **state)
{
    (void)state;
    const uint16_t x[] = {kiln_to_bf16(1), kiln_to_bf16(0x1p-8f), kiln_to_bf16(0x1p-8f)};
    const uint16_t one = kiln_to_bf16(1), down[] = {one, one, one};
    const float factor = 3;
    uint16_t lora = 0;
    struct kiln_low_rank_down args = {.x = x,
                                      .down = down,
                                      .lora = &lora,
                                      .x_pitch = 3,
                                      .lora_pitch = 1,
                                      .k = 3,
                                      .rank = 1,
                                      .format = KILN_BF16};
    kiln_low_rank_down_ref(&args, 0, 1);
    assert_true(kiln_from_bf16(lora) == 1 + 0x1p-7f);
    args.k = 2, args.factor = &factor;
    kiln_low_rank_down_ref(&args, 0, 1);
    assert_true(kiln_from_bf16(lora) == 3 + 0x1p-6f); /* of 3 + 3 * 2^-8 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_multiplied),
        cmocka_unit_test(codes_are_rounded_once_and_saturate),
        cmocka_unit_test(nan_stays_nan),
        cmocka_unit_test(bf16_is_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
