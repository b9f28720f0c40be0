/* test_encoder_rows.c - what encoders of the BERT class run on the CPU (dense, post_norm, gelu),
 * against their formulas in doubles. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/products/dense.h"
#include "kernels/rows/gelu.h"
#include "kernels/rows/post_norm.h"

#define UNTOUCHED 12345.0f

static uint64_t seed = 31;

/* From -1 to 1. */
static float random_value(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(seed >> 32) / 2147483648.0f;
}

static void fill(float *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        values[i] = random_value();
}

/* by_rows: the second operand is given as rows of k, else as lines of n. */
typedef void dense_fn(const struct kiln_dense *args, int64_t rows);

static void check_dense(dense_fn *dense, int64_t rows, int64_t k, int64_t n, int by_rows)
{
    const int64_t x_pitch = k + 3, y_pitch = n + 2, pitch = (by_rows ? k : n) + 1;
    float *x = malloc((size_t)(rows * x_pitch) * sizeof *x);
    float *b = malloc((size_t)((by_rows ? n : k) * pitch) * sizeof *b);
    float *packed = malloc((size_t)kiln_dense_packed(k, n) * sizeof *packed);
    float *y = malloc((size_t)(rows * y_pitch) * sizeof *y), bias[128];
    fill(x, rows * x_pitch);
    fill(b, (by_rows ? n : k) * pitch);
    fill(bias, n);
    for (int64_t i = 0; i < rows * y_pitch; i++)
        y[i] = UNTOUCHED;
    (by_rows ? kiln_dense_pack_rows : kiln_dense_pack_lines)(b, pitch, n, k, packed);
    dense(&(struct kiln_dense){.x = x,
                               .b = packed,
                               .bias = by_rows ? bias : NULL,
                               .y = y,
                               .k = k,
                               .n = n,
                               .x_pitch = x_pitch,
                               .y_pitch = y_pitch},
          rows);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < y_pitch; c++) {
            double sum = c < n && by_rows ? bias[c] : 0, size = 1;
            for (int64_t i = 0; i < k && c < n; i++) {
                const double term =
                    (double)x[r * x_pitch + i] * (by_rows ? b[c * pitch + i] : b[i * pitch + c]);
                sum += term;
                size += fabs(term);
            }
            assert_true(fabs((c < n ? sum : UNTOUCHED) - y[r * y_pitch + c]) <= size * 1e-6);
        }
    free(x);
    free(b);
    free(packed);
    free(y);
}

static void a_product_is_the_sum_over_k(void **state)
{
    (void)state;
    const int64_t counts[] = {1, 2, 3, 5, 6, 7, 13, 18}, columns[] = {1, 12, 16, 17, 32, 48, 100};
    dense_fn *const forms[] = {kiln_dense_ref, kiln_dense_narrow_ref};
    for (size_t f = 0; f < 2; f++) {
        for (size_t r = 0; r < sizeof counts / sizeof *counts; r++)
            for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
                check_dense(forms[f], counts[r], 1, columns[c], 0);
                check_dense(forms[f], counts[r], 37, columns[c], 1);
            }
        check_dense(forms[f], 6, 1536, 64, 1);
    }
}

static void a_norm_has_mean_and_variance_of_its_row(void **state)
{
    (void)state;
    const int64_t widths[] = {1, 5, 48, 384};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int with_sum = 0; with_sum < 2; with_sum++) {
            const int64_t n = widths[w], rows = 3;
            float x[3 * 384], was[3 * 384], y[3 * 384], gain[384], bias[384];
            fill(x, rows * n);
            fill(y, rows * n);
            fill(gain, n);
            fill(bias, n);
            memcpy(was, x, sizeof was);
            kiln_post_norm_ref(
                &(struct kiln_post_norm){x, with_sum ? y : NULL, gain, bias, n, 1e-5f}, rows);
            for (int64_t r = 0; r < rows; r++) {
                double mean = 0, variance = 0, s[384];
                for (int64_t i = 0; i < n; i++) {
                    s[i] = (double)was[r * n + i] + (with_sum ? y[r * n + i] : 0.0f);
                    mean += s[i] / (double)n;
                }
                for (int64_t i = 0; i < n; i++)
                    variance += (s[i] - mean) * (s[i] - mean) / (double)n;
                for (int64_t i = 0; i < n; i++)
                    assert_true(fabs((s[i] - mean) / sqrt(variance + 1e-5) * gain[i] + bias[i] -
                                     x[r * n + i]) < 1e-5);
            }
        }
}

static void gelu_is_close_to_its_formula(void **state)
{
    (void)state;
    for (int with_tanh = 0; with_tanh < 2; with_tanh++)
        for (double at = -20; at <= 20; at += 0.0078125) {
            float x = (float)at;
            kiln_gelu_ref(&x, 1, with_tanh);
            const double u = 0.7978845608028654 * (at + 0.044715 * at * at * at);
            const double expected = at * (with_tanh ? 1 + tanh(u) : 1 + erf(at * sqrt(0.5))) / 2;
            assert_true(fabs(expected - x) <= 1e-6 * (1 + fabs(expected)));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_is_the_sum_over_k),
        cmocka_unit_test(a_norm_has_mean_and_variance_of_its_row),
        cmocka_unit_test(gelu_is_close_to_its_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
