/* test_gated_product.c - the gate's two products and what becomes of them against the definition in
 * double: odd shapes, pitches, both formats, and what lies between the rows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/products/gated_product.h"
#include "tests/kernels/operands.h"

#define GAP NAN /* between the rows: read, it is in every sum of its row */

/* A product, and in *ret_off by how much it may be another: the sum in fp32, one rounding. */
static double product(const struct kiln_gated_product *a, int64_t row, int64_t column,
                      double *ret_off)
{
    double sum = 0, size = 0;
    for (int64_t i = 0; i < a->k; i++) {
        const double term = at(a->x, row * a->x_pitch + i, a->format) *
                            at(a->weight, column * a->weight_pitch + i, a->format);
        sum += term, size += fabs(term);
    }
    *ret_off = (double)(a->k + 1) * 0x1p-24 * size;
    if (a->format == KILN_BF16)
        *ret_off += 0x1p-8 * fabs(sum);
    return sum;
}

static void check_value(const struct kiln_gated_product *a, int64_t row, int64_t i)
{
    const double unit = a->format == KILN_BF16 ? 0x1p-8 : 0x1p-20; /* a rounding; kiln_exp() */
    double gate_off, up_off;
    const double gate = product(a, row, i, &gate_off), up = product(a, row, a->n + i, &up_off);
    const double silu = gate / (1 + exp(-gate));
    /* silu is nowhere steeper than 1.1. */
    const double silu_off = 1.1 * gate_off + unit * (fabs(silu) + 1.1 * gate_off);
    const double limit = (silu_off * (fabs(up) + up_off) + fabs(silu) * up_off) * (1 + unit) +
                         unit * fabs(silu * up);
    const double got = at(a->y, row * a->pitch + i, a->format);
    if (!(fabs(got - silu * up) <= limit))
        fail_msg("row %lld, value %lld of %lld, k %lld: got %.9g, want %.9g", (long long)row,
                 (long long)i, (long long)a->n, (long long)a->k, got, silu * up);
}

/* A value of lora, of y as it is stored: the sum in fp32, one rounding. */
static void check_low(const struct kiln_gated_product *a, int64_t row, int64_t i)
{
    double sum = 0, size = 0;
    for (int64_t j = 0; j < a->n; j++) {
        const double term =
            at(a->y, row * a->pitch + j, a->format) * at(a->down, i * a->n + j, a->format);
        sum += term, size += fabs(term);
    }
    const double limit =
        (double)(a->n + 1) * 0x1p-24 * size + (a->format == KILN_BF16 ? 0x1p-8 * fabs(sum) : 0);
    const double got = at(a->lora, row * a->lora_pitch + i, a->format);
    if (!(fabs(got - sum) <= limit))
        fail_msg("row %lld, lora %lld: got %.9g, want %.9g", (long long)row, (long long)i, got,
                 sum);
}

static void check(int64_t rows, int64_t k, int64_t n, int64_t gap, enum kiln_float f)
{
    struct test_random random = {(uint64_t)(rows * n + k)};
    const int64_t rank = gap; /* behind y's rows, where there is a gap */
    struct kiln_gated_product args = {.x = rows_of(&random, rows, k, k + gap, GAP, f),
                                      .weight = rows_of(&random, 2 * n, k, k + 2 * gap, GAP, f),
                                      .y = rows_of(&random, rows, 0, n + 3 * gap, GAP, f),
                                      .x_pitch = k + gap,
                                      .weight_pitch = k + 2 * gap,
                                      .pitch = n + 3 * gap,
                                      .n = n,
                                      .k = k,
                                      .format = f,
                                      .rank = rank,
                                      .down = values(&random, (rank + 1) * n, f),
                                      .lora_pitch = n + 3 * gap};
    args.lora = (char *)args.y + n * (f == KILN_BF16 ? 2 : 4);
    kiln_gated_product_ref(&args, 0, rows / 2);
    kiln_gated_product_ref(&args, rows / 2, rows);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t i = 0; i < n; i++)
            check_value(&args, row, i);
        for (int64_t i = 0; i < rank; i++)
            check_low(&args, row, i);
        for (int64_t i = n + rank; i < args.pitch; i++)
            if (!isnan(at(args.y, row * args.pitch + i, f)))
                fail_msg("row %lld: what follows it was written", (long long)row);
    }
    free((void *)args.x), free((void *)args.weight), free(args.y);
    free((void *)args.down);
}

static void products_are_gated(void **state)
{
    static const int64_t depths[] = {1, 7, 64, 129}, widths[] = {1, 3, 40};
    (void)state;
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
        for (size_t j = 0; j < sizeof widths / sizeof *widths; j++)
            for (int form = 0; form < 4; form++)
                check(j % 2 ? 1 : 5, depths[i], widths[j], form & 1 ? 3 : 0,
                      form & 2 ? KILN_BF16 : KILN_F32);
}

/* One value in bf16 of the gate's and the up's sums, of a + b each. */
static float gated(float gate_a, float gate_b, float up_a, float up_b)
{
    const uint16_t x[2] = {kiln_to_bf16(1), kiln_to_bf16(1)};
    const uint16_t weight[4] = {kiln_to_bf16(gate_a), kiln_to_bf16(gate_b), kiln_to_bf16(up_a),
                                kiln_to_bf16(up_b)};
    uint16_t y = 0;
    const struct kiln_gated_product args = {.x = x,
                                            .weight = weight,
                                            .y = &y,
                                            .x_pitch = 2,
                                            .weight_pitch = 2,
                                            .pitch = 1,
                                            .n = 1,
                                            .k = 2,
                                            .format = KILN_BF16};
    kiln_gated_product_ref(&args, 0, 1);
    return kiln_from_bf16(y);
}

/* Far to the right silu is what it is given, so that what is lost is lost by the sums' rounding. */
static void products_are_rounded_first(void **state)
{
    (void)state;
    assert_true(gated(64, 0, 1, 0) == 64);
    assert_true(gated(64, 0.25f, 1, 0) == 64);  /* a tie, to even */
    assert_true(gated(64, 0.25f, 4, 0) == 256); /* 257 is between 256 and 258, too */
    assert_true(gated(64, 0.25f, 1, 0x1p-7f) == 64.5f);
    assert_true(gated(64, 0.25f, 1, 0x1p-8f) == 64); /* not 64.5: up is 1 by then */
    assert_true(gated(64.5f, 0, 1, 0x1p-8f) == 64.5f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_gated),
        cmocka_unit_test(products_are_rounded_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
