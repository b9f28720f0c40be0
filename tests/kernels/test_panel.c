/* test_panel.c - operands of products on the CPU, and their results, against what each value is. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/products/panel.h"
#include "tests/kernels/operands.h"

#define UNTOUCHED 0xabcdef01u

static void check_panel(int64_t n, int64_t lines, int64_t pitch)
{
    uint32_t *rows = malloc((size_t)(n * lines) * sizeof *rows);
    uint32_t *panel = malloc((size_t)(lines * pitch) * sizeof *panel);
    for (int64_t i = 0; i < n * lines; i++)
        rows[i] = (uint32_t)i;
    for (int64_t i = 0; i < lines * pitch; i++)
        panel[i] = UNTOUCHED;
    kiln_panel_of_rows(rows, n, lines, panel, pitch);
    for (int64_t line = 0; line < lines; line++)
        for (int64_t i = 0; i < pitch; i++)
            assert_int_equal(panel[line * pitch + i],
                             i < n ? (uint32_t)(i * lines + line) : UNTOUCHED);
    free(rows), free(panel);
}

static void a_panel_is_the_transpose_of_its_rows(void **state)
{
    (void)state;
    const int64_t counts[] = {1, 7, 8, 9, 37, 63, 64}, lines[] = {1, 7, 8, 24, 45, 120};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t j = 0; j < sizeof lines / sizeof *lines; j++) {
            check_panel(counts[i], lines[j], KILN_PANEL);
            check_panel(counts[i], lines[j], counts[i]);
        }
    check_panel(75, 45, 130);
    assert_int_equal(kiln_panel_lines(48, KILN_F32), 48);
    assert_int_equal(kiln_panel_lines(48, KILN_BF16), 24);
}

static void pairs_hold_two_rows_side_by_side(void **state)
{
    (void)state;
    enum { PAIRS = 3, MOST = 67 };
    uint16_t x[2 * PAIRS * MOST], out[2 * PAIRS * MOST];
    for (int64_t n = 1; n <= MOST; n += 11) {
        for (int64_t i = 0; i < 2 * PAIRS * n; i++)
            x[i] = (uint16_t)i;
        kiln_panel_pairs(x, PAIRS, n, out);
        for (int64_t i = 0; i < PAIRS; i++)
            for (int64_t c = 0; c < n; c++)
                for (int64_t odd = 0; odd < 2; odd++)
                    assert_int_equal(out[2 * (i * n + c) + odd], x[(2 * i + odd) * n + c]);
    }
}

static void check_store(struct test_random *random, int64_t n, int form, enum kiln_float f)
{
    const int64_t rows = 3, step = n + 2, pitch = n + 5;
    float *from = values(random, rows * step, KILN_F32), *scale = values(random, rows, KILN_F32);
    void *bias = values(random, n, f);
    void *to = rows_of(random, rows, n, pitch, 77, f);
    const struct kiln_panel_sums args = {.from = from,
                                         .to = to,
                                         .bias = form & 1 ? bias : NULL,
                                         .scale = form & 2 ? scale : NULL,
                                         .n = n,
                                         .step = step,
                                         .pitch = pitch,
                                         .format = f};
    kiln_panel_store(&args, rows);
    for (int64_t i = 0; i < rows * pitch; i++) {
        const int64_t row = i / pitch, column = i % pitch;
        if (column >= n) {
            assert_true(row == rows - 1 || at(to, i, f) == 77);
            continue;
        }
        const double want =
            (double)from[row * step + column] * (form & 2 ? (double)scale[row] : 1) +
            (form & 1 ? at(bias, column, f) : 0);
        assert_true(fabs(at(to, i, f) - want) <= (f == KILN_BF16 ? 0x1p-8 : 0x1p-22) * 8);
    }
    free(from), free(scale), free(bias), free(to);
}

static void results_are_scaled_biased_and_rounded(void **state)
{
    (void)state;
    struct test_random random = {11};
    for (int64_t n = 1; n <= KILN_PANEL; n += 9)
        for (int form = 0; form < 4; form++) {
            check_store(&random, n, form, KILN_F32);
            check_store(&random, n, form, KILN_BF16);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_panel_is_the_transpose_of_its_rows),
        cmocka_unit_test(pairs_hold_two_rows_side_by_side),
        cmocka_unit_test(results_are_scaled_biased_and_rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
