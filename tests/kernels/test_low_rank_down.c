/* test_low_rank_down.c - the first half of a LoRA, behind its rows; against sums in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/low_rank_down.h"
#include "tests/support/random.h"

/* What rounding to the format may change, as a share of the value. */
#define BF16_SHARE 0x1p-8
#define F32_SHARE 0x1p-23

static void *values(struct test_random *random, int64_t count, enum kiln_float f)
{
    void *p = calloc((size_t)count, sizeof(float));
    assert_non_null(p);
    for (int64_t i = 0; i < count; i++)
        kiln_store(p, i, (float)test_random_below(random, 4001) / 1000.0f - 2.0f, f);
    return p;
}

struct low_case {
    int64_t rows, n, rank, pitch;
    enum kiln_float format;
};

/* One row of the result; `before` is what was in its place. */
static void check_row(const struct low_case *c, const void *down, const char *x, const char *before)
{
    const int64_t size = kiln_float_size(c->format), end = c->n + c->rank;
    assert_memory_equal(x, before, (size_t)(c->n * size));
    assert_memory_equal(x + end * size, before + end * size, (size_t)((c->pitch - end) * size));
    for (int64_t i = 0; i < c->rank; i++) {
        double want = 0, size_of_sum = 0;
        for (int64_t k = 0; k < c->n; k++) {
            const double term = (double)kiln_load(x, k, c->format) *
                                (double)kiln_load(down, i * c->n + k, c->format);
            want += term, size_of_sum += fabs(term);
        }
        const double got = (double)kiln_load(x, c->n + i, c->format);
        const double share = c->format == KILN_BF16 ? BF16_SHARE : F32_SHARE;
        if (!(fabs(got - want) <= share * fabs(want) + 0x1p-24 * (double)c->n * size_of_sum))
            fail_msg("%lld wide, low %lld: %.9g for %.9g", (long long)c->n, (long long)i, got,
                     want);
    }
}

static void check_low(const struct low_case *c)
{
    struct test_random random = {(uint64_t)(c->n * 1000 + c->rank)};
    const int64_t row_size = c->pitch * kiln_float_size(c->format), half = c->rows / 2;
    char *x = values(&random, c->rows * c->pitch, c->format);
    char *before = values(&random, c->rows * c->pitch, c->format);
    void *down = values(&random, c->rank * c->n, c->format);
    memcpy(before, x, (size_t)(c->rows * row_size));
    const struct kiln_low_rank_down args = {x, c->pitch, down, c->n, c->rank, c->format};
    kiln_low_rank_down_ref(&args, 0, half);
    assert_memory_equal(x + half * row_size, before + half * row_size,
                        (size_t)((c->rows - half) * row_size));
    kiln_low_rank_down_ref(&args, half, c->rows);
    for (int64_t row = 0; row < c->rows; row++)
        check_row(c, down, x + row * row_size, before + row * row_size);
    free(x), free(before), free(down);
}

static void check_forms(int64_t rows, int64_t n, int64_t rank)
{
    for (int64_t gap = 0; gap <= 5; gap += 5) {
        check_low(&(struct low_case){rows, n, rank, n + rank + gap, KILN_F32});
        check_low(&(struct low_case){rows, n, rank, n + rank + gap, KILN_BF16});
    }
}

static void low_behind_its_rows(void **state)
{
    (void)state;
    check_forms(1, 1, 1);
    check_forms(3, 7, 2);
    check_forms(5, 193, 16);
    check_forms(2, 3840, 48);
    check_forms(3, 10240, 3);
}

/* Of the definition: a row of `down` with a single 1 takes a value out of x, the same bits. */
static void ones_pick_values(void **state)
{
    (void)state;
    enum { N = 5, RANK = 2 };
    float x[N + RANK] = {1.5f, -2.25f, 0x1p-30f, 3e30f, -0.0f};
    const float down[RANK * N] = {[2] = 1, [N + 3] = 1};
    const struct kiln_low_rank_down args = {x, N + RANK, down, N, RANK, KILN_F32};
    kiln_low_rank_down_ref(&args, 0, 1);
    assert_true(x[N] == 0x1p-30f && x[N + 1] == 3e30f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(low_behind_its_rows),
        cmocka_unit_test(ones_pick_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
