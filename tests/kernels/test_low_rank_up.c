/* test_low_rank_up.c - the second half of a LoRA against the definition in double: odd numbers of
 * rows, pitches, both formats, and what lies between the rows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/low_rank_up.h"
#include "tests/kernels/operands.h"

#define GAP 12345.0f /* between the rows; a bf16, too: 12352 */

/* What value i of a row becomes; *ret_size: of what sums are rounded. */
static double wanted(const struct kiln_low_rank_up *a, const void *y, int64_t row, int64_t i,
                     double *ret_size)
{
    double sum = at(y, row * a->pitch + i, a->format);
    *ret_size = fabs(sum);
    for (int64_t k = 0; k < a->rank; k++) {
        const int64_t own = i / (a->n / a->parts) * a->rank + k;
        const double product = at(a->low, row * a->low_pitch + own, a->format) *
                               at(a->up, i * a->parts * a->rank + own, a->format);
        sum += product, *ret_size += fabs(product);
    }
    return sum;
}

static void check(int64_t rows, int64_t n, int64_t rank, int64_t parts, int64_t gap,
                  enum kiln_float f)
{
    struct test_random random = {(uint64_t)(rows * n + rank)};
    const int64_t pitch = n + gap, width = rank * parts, low_pitch = width + gap;
    void *y = rows_of(&random, rows, n, pitch, GAP, f),
         *low = rows_of(&random, rows, width, low_pitch, GAP, f);
    void *up = values(&random, n * width, f);
    const size_t bytes = (size_t)(rows * pitch * kiln_float_size(f));
    void *before = malloc(bytes);
    assert_non_null(before);
    memcpy(before, y, bytes);
    const struct kiln_low_rank_up args = {.y = y,
                                          .pitch = pitch,
                                          .low = low,
                                          .low_pitch = low_pitch,
                                          .up = up,
                                          .n = n,
                                          .rank = rank,
                                          .parts = parts,
                                          .format = f};
    kiln_low_rank_up_ref(&args, 0, rows / 2);
    kiln_low_rank_up_ref(&args, rows / 2, rows);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < pitch; i++) {
            const double got = at(y, row * pitch + i, f), old = at(before, row * pitch + i, f);
            double size = 0, want = i < n ? wanted(&args, before, row, i, &size) : old;
            /* The sums in fp32, then one rounding to bf16: 2^-9 of the value. */
            const double limit =
                (double)(rank + 1) * 0x1p-24 * size + (f == KILN_BF16 ? 0x1p-8 * fabs(want) : 0);
            if (!(fabs(got - want) <= (i < n ? limit : 0)))
                fail_msg("row %lld, value %lld of %lld, rank %lld: got %.9g, want %.9g",
                         (long long)row, (long long)i, (long long)n, (long long)rank, got, want);
        }
    free(y), free(low), free(up), free(before);
}

static void products_are_added(void **state)
{
    static const int64_t ranks[] = {1, 3, 16, 48, 80}, widths[] = {1, 7, 32, 193};
    (void)state;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        for (size_t k = 0; k < sizeof widths / sizeof *widths; k++)
            for (int form = 0; form < 4; form++)
                check(k % 2 ? 1 : 5, widths[k], ranks[i], 1, form & 1 ? 5 : 0,
                      form & 2 ? KILN_BF16 : KILN_F32);
    check(5, 12, 3, 3, 2, KILN_F32);
    check(5, 64, 16, 2, 0, KILN_BF16);
}

/* 1 + 2^-8 is between two bf16, 2^-8 + 2^-8 less so: a sum that was rounded on the way is another.
 */
static void the_result_is_rounded_once(void **state)
{
    (void)state;
    uint16_t y = kiln_to_bf16(1), low[2], up[2] = {kiln_to_bf16(1), kiln_to_bf16(1)};
    low[0] = low[1] = kiln_to_bf16(0x1p-8f);
    const struct kiln_low_rank_up args = {.y = &y,
                                          .pitch = 1,
                                          .low = low,
                                          .low_pitch = 2,
                                          .up = up,
                                          .n = 1,
                                          .rank = 2,
                                          .parts = 1,
                                          .format = KILN_BF16};
    kiln_low_rank_up_ref(&args, 0, 1);
    assert_true(kiln_from_bf16(y) == 1 + 0x1p-7f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_added),
        cmocka_unit_test(the_result_is_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
