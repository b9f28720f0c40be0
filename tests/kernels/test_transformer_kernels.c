/* test_transformer_kernels.c - norm, gate, softmax and rotation against the definitions in double,
 * over odd widths, both formats and the ends of the number range. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/attention/qkv_rope.h"
#include "kernels/attention/softmax.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/rows/swiglu.h"
#include "kernels/tails.h"
#include "tests/kernels/operands.h"

/* One bf16 rounding is 2^-8 of the value at most; few chains of three are above twice that. */
#define BF16_SHARE 8e-3
#define ONCE_ROUNDED 3.95e-3 /* half of 2^-7, and what fp32 adds */
#define F32_SHARE 2e-6

static const int64_t widths[] = {1, 2, 3, 15, 16, 17, 64, 193};
static const enum kiln_float formats[] = {KILN_F32, KILN_BF16};

static double share_of(enum kiln_float f)
{
    return f == KILN_BF16 ? BF16_SHARE : F32_SHARE;
}

static void check(double got, double want, double scale, enum kiln_float f)
{
    if (!(fabs(got - want) <= share_of(f) * (fabs(want) + scale)))
        fail_msg("got %.9g, want %.9g", got, want);
}

/* A place for rows that lie `pitch` values apart, which nobody has written to. */
static void *place(int64_t rows, int64_t pitch, enum kiln_float f)
{
    const size_t bytes = (size_t)(rows * pitch * kiln_float_size(f));
    void *p = malloc(bytes);
    assert_non_null(p);
    memset(p, 0x55, bytes);
    return p;
}

/* Nobody has written behind a row's n values. */
static void check_room(const void *p, int64_t rows, int64_t n, int64_t pitch, enum kiln_float f)
{
    const uint8_t *bytes = p;
    const int64_t size = kiln_float_size(f);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = (row * pitch + n) * size; i < (row + 1) * pitch * size; i++)
            assert_int_equal(bytes[i], 0x55);
}

static void check_rms(struct test_random *random, int64_t n, enum kiln_float f, int form)
{
    const int64_t rows = 3, pitch = form & 2 ? n + 3 : n;
    void *x = values(random, rows * n, f), *gain = values(random, n, KILN_F32);
    void *add = values(random, rows * n, f), *y = place(rows, pitch, f);
    const struct kiln_rms_norm args = {.x = x,
                                       .gain = gain,
                                       .add = form & 1 ? add : NULL,
                                       .y = y,
                                       .n = n,
                                       .eps = 1e-5f,
                                       .format = f,
                                       .pitch = form & 2 ? pitch : 0};
    kiln_rms_norm_ref(&args, 0, 2);
    kiln_rms_norm_ref(&args, 2, rows);
    for (int64_t row = 0; row < rows; row++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += at(x, row * n + i, f) * at(x, row * n + i, f);
        for (int64_t i = 0; i < n; i++) {
            double v = at(x, row * n + i, f) / sqrt(sum / (double)n + 1e-5) * at(gain, i, KILN_F32);
            v += form & 1 ? at(add, row * n + i, f) : 0;
            const double got = at(y, row * pitch + i, f);
            if (f == KILN_F32)
                check(got, v, 2, f);
            else if (!(fabs(got - v) <= ONCE_ROUNDED * (fabs(v) + 1e-2)))
                fail_msg("got %.9g, want %.9g", got, v);
        }
    }
    check_room(y, rows, n, pitch, f);
    free(x), free(gain), free(add), free(y);
}

/* A value of a row with tails is within half a unit of its 20 bits. */
#define TAILED_SHARE (1.0 / 4096 + 1e-6)

/* The stream of rows with tails is summed up in them and normed from them. */
static void check_tails(struct test_random *random, int64_t n)
{
    enum { ROWS = 3, STEPS = 40 };
    const int64_t pitch = KILN_TAILED(n);
    float *gain = values(random, n, KILN_F32), *next_gain = values(random, n, KILN_F32);
    uint16_t *stream = place(ROWS, pitch, KILN_BF16);
    void *next = place(ROWS, n, KILN_BF16), *alone = place(ROWS, n, KILN_BF16);
    double *want = calloc((size_t)(ROWS * n), sizeof *want);
    assert_non_null(want);
    memset(stream, 0, (size_t)(ROWS * pitch) * sizeof *stream);
    for (int step = 0; step < STEPS; step++) {
        void *x = values(random, ROWS * n, KILN_BF16);
        const struct kiln_rms_norm args = {.x = x,
                                           .gain = gain,
                                           .add = stream,
                                           .y = stream,
                                           .n = n,
                                           .eps = 1e-5f,
                                           .format = KILN_BF16,
                                           .tails = true,
                                           .next_gain = next_gain,
                                           .next = next};
        kiln_rms_norm_ref(&args, 0, 1);
        kiln_rms_norm_ref(&args, 1, ROWS);
        for (int64_t i = 0; i < ROWS * n; i++) {
            const void *row = (const uint16_t *)x + i / n * n;
            double sum = 0;
            for (int64_t k = 0; k < n; k++)
                sum += pow(at(row, k, KILN_BF16), 2);
            want[i] += at(x, i, KILN_BF16) / sqrt(sum / (double)n + 1e-5) * (double)gain[i % n];
        }
        free(x);
    }
    double largest = 0;
    for (int64_t i = 0; i < ROWS * n; i++)
        largest = fmax(largest, fabs(want[i]));
    float got_row[240];
    for (int64_t i = 0; i < ROWS * n; i++) {
        if (i % n == 0)
            kiln_unpack_tailed(stream + i / n * pitch, n, got_row);
        const double got = (double)got_row[i % n];
        if (!(fabs(got - want[i]) <= STEPS * TAILED_SHARE * largest / 4))
            fail_msg("%lld wide, value %lld: %.9g for %.9g", (long long)n, (long long)i, got,
                     want[i]);
    }
    const struct kiln_rms_norm first = {.x = stream,
                                        .gain = next_gain,
                                        .y = alone,
                                        .n = n,
                                        .eps = 1e-5f,
                                        .format = KILN_BF16,
                                        .tails = true};
    kiln_rms_norm_ref(&first, 0, ROWS);
    assert_memory_equal(next, alone, (size_t)(ROWS * n) * sizeof *stream);
    free(gain), free(next_gain), free(stream), free(next), free(alone), free(want);
}

static void rms_norm_with_tails(void **state)
{
    (void)state;
    struct test_random random = {7};
    check_tails(&random, 32);
    check_tails(&random, 240);
}

/* Twenty bits of every value, the ends of the range and what is no number among them. */
static void tails_round(void **state)
{
    (void)state;
    static const float values_in[] = {0.0f,       -0.0f,         1.0f,     -1.0f,
                                      1.0009765f, -3.14159265f,  1e-38f,   -1e-45f,
                                      3.0e38f,    3.4028234e38f, INFINITY, -INFINITY};
    enum { N = sizeof values_in / sizeof *values_in, WIDTH = 32 };
    float values[WIDTH] = {0}, back[WIDTH];
    uint16_t row[KILN_TAILED(WIDTH)];
    for (size_t i = 0; i < N; i++)
        values[2 * i] = values_in[i], values[2 * i + 1] = -values_in[i];
    values[2 * N] = NAN, values[2 * N + 1] = -NAN;
    kiln_pack_tailed(values, WIDTH, row);
    kiln_unpack_tailed(row, WIDTH, back);
    for (size_t i = 0; i < 2 * N; i++) {
        const double value = (double)values[i], got = (double)back[i];
        assert_true(!signbit(got) == !signbit(value));
        if (isinf(got))
            assert_true(fabs(value) > 3.4e38);
        else
            assert_true(fabs(got - value) <= fabs(value) / 4096 + 1e-41);
        if (kiln_rounded(values[i], KILN_BF16) == values[i])
            assert_true(got == value);
    }
    assert_true(isnan(back[2 * N]) && isnan(back[2 * N + 1]));
    for (size_t i = 2 * N + 2; i < WIDTH; i++)
        assert_true(back[i] == 0);
}

static void rms_norm(void **state)
{
    (void)state;
    struct test_random random = {1};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int f = 0; f < 2; f++)
            for (int form = 0; form < 4; form++)
                check_rms(&random, widths[i], formats[f], form);
}

static void swiglu(void **state)
{
    (void)state;
    struct test_random random = {2};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int k = 0; k < 4; k++) {
            enum kiln_float f = formats[k % 2];
            int64_t n = widths[w], pitch = k / 2 ? n + 3 : n;
            void *x = values(&random, 2 * 2 * n, f), *y = place(2, pitch, f);
            const struct kiln_swiglu args = {
                .gate_up = x, .y = y, .n = n, .pitch = k / 2 ? pitch : 0, .format = f};
            kiln_swiglu_ref(&args, 0, 2);
            for (int64_t i = 0; i < 2 * n; i++) {
                double g = at(x, i / n * 2 * n + i % n, f), u = at(x, i / n * 2 * n + n + i % n, f);
                check(at(y, i / n * pitch + i % n, f), g / (1 + exp(-g)) * u, 1e-3, f);
            }
            check_room(y, 2, n, pitch, f);
            free(x), free(y);
        }
}

static void swiglu_at_the_ends(void **state)
{
    (void)state;
    const float x[8] = {-1e30f, -200.0f, 200.0f, 1e30f, 1, 1, 1, 1};
    float y[4];
    const struct kiln_swiglu args = {.gate_up = x, .y = y, .n = 4};
    kiln_swiglu_ref(&args, 0, 1);
    assert_true(fabsf(y[1]) < 1e-30f);
    assert_float_equal(y[2], 200.0f, 1e-3);
    assert_float_equal(y[3] / 1e30f, 1.0f, 1e-6);
    assert_true(isfinite(y[0]));
}

/* Rows of n scores, far out, in place or apart; whole, or with the inverse of their sums apart. */
static void check_softmax(struct test_random *random, int64_t n, enum kiln_float f, bool apart)
{
    float *x = values(random, 2 * n, KILN_F32), inverse[2];
    for (int64_t i = 0; i < n; i++)
        x[i] *= 50;
    float *copy = malloc((size_t)(2 * n) * sizeof *copy);
    void *y = malloc((size_t)(2 * n) * sizeof(float));
    memcpy(copy, x, (size_t)(2 * n) * sizeof *copy);
    const struct kiln_softmax args = {.scores = x,
                                      .y = f == KILN_F32 ? x : y,
                                      .n = n,
                                      .format = f,
                                      .inverse = apart ? inverse : NULL};
    kiln_softmax_ref(&args, 0, 2);
    for (int64_t row = 0; row < 2; row++) {
        double top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++)
            top = fmax(top, (double)copy[row * n + i]);
        for (int64_t i = 0; i < n; i++)
            sum += exp((double)copy[row * n + i] - top);
        if (apart)
            assert_true(fabs((double)inverse[row] * sum - 1) < 1e-5);
        for (int64_t i = 0; i < n; i++)
            check(at(args.y, row * n + i, f),
                  exp((double)copy[row * n + i] - top) / (apart ? 1 : sum), 1e-2, f);
    }
    free(x), free(y), free(copy);
}

static void softmax(void **state)
{
    (void)state;
    struct test_random random = {3};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int k = 0; k < 4; k++)
            check_softmax(&random, widths[w], formats[k % 2], k / 2);
}

/* q head 0 and the k head of row `row`, value i, by the definition. */
static double turned(const struct kiln_qkv_rope *a, int64_t row, int64_t from, const void *norm,
                     int i)
{
    const int d = a->head_dim, half = d / 2;
    const int64_t base = row * (a->heads + 2 * a->kv_heads) * d + from;
    int other = a->interleaved ? i ^ 1 : (i + half) % d;
    int pair = a->interleaved ? i / 2 : i % half;
    bool first = a->interleaved ? i % 2 == 0 : i < half;
    double sum = 0;
    for (int j = 0; j < d; j++)
        sum += at(a->qkv, base + j, a->format) * at(a->qkv, base + j, a->format);
    double inverse = norm ? 1 / sqrt(sum / d + (double)a->eps) : 1;
    double x = at(a->qkv, base + i, a->format) * inverse;
    double y = at(a->qkv, base + other, a->format) * inverse;
    x *= norm ? at(norm, i, a->format) : 1;
    y *= norm ? at(norm, other, a->format) : 1;
    double c = a->cos ? (double)a->cos[row * half + pair] : 1;
    double s = a->cos ? (double)a->sin[row * half + pair] : 0;
    return first ? x * c - y * s : x * c + y * s;
}

static void check_split(struct test_random *random, int d, enum kiln_float f, int form)
{
    const int64_t rows = 5, h = 4, g = 2, width = (h + 2 * g) * d;
    void *qkv = values(random, rows * width, f), *norm = values(random, d, f);
    float *cosine = malloc((size_t)(rows * d) * sizeof *cosine);
    float *sine = malloc((size_t)(rows * d) * sizeof *sine);
    for (int64_t i = 0; i < rows * d / 2; i++) {
        cosine[i] = cosf((float)i);
        sine[i] = sinf((float)i);
    }
    void *q = malloc((size_t)(h * rows * d) * sizeof(float));
    void *k = malloc((size_t)(g * rows * d) * sizeof(float));
    void *v = malloc((size_t)(g * rows * d) * sizeof(float));
    const struct kiln_qkv_rope args = {.qkv = qkv,
                                       .q_norm = form & 1 ? norm : NULL,
                                       .k_norm = form & 1 ? norm : NULL,
                                       .cos = form & 2 ? cosine : NULL,
                                       .sin = form & 2 ? sine : NULL,
                                       .q = q,
                                       .k = k,
                                       .v = v,
                                       .rows = rows,
                                       .heads = (int)h,
                                       .kv_heads = (int)g,
                                       .head_dim = d,
                                       .interleaved = form & 4,
                                       .eps = 1e-5f,
                                       .format = f};
    kiln_qkv_rope_ref(&args, 0, rows);
    for (int64_t row = 0; row < rows; row++)
        for (int i = 0; i < d; i++) {
            check(at(q, (1 * rows + row) * d + i, f), turned(&args, row, d, args.q_norm, i), 2, f);
            check(at(k, (1 * rows + row) * d + i, f),
                  turned(&args, row, (h + 1) * d, args.k_norm, i), 2, f);
            assert_true(at(v, (1 * rows + row) * d + i, f) ==
                        at(qkv, row * width + (h + g + 1) * d + i, f));
        }
    free(qkv), free(norm), free(cosine), free(sine), free(q), free(k), free(v);
}

static void qkv_rope(void **state)
{
    (void)state;
    struct test_random random = {4};
    const int dims[] = {2, 6, 16, 64, 130};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (int f = 0; f < 2; f++)
            for (int form = 0; form < 8; form++)
                check_split(&random, dims[i], formats[f], form);
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    const uint32_t cases[][2] = {/* fp32 bits, bf16 bits */
                                 {0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82},
                                 {0x3f808001, 0x3f81}, {0x7f7fffff, 0x7f80}, {0xff800000, 0xff80},
                                 {0x7fc00001, 0x7fc0}, {0x7f800001, 0x7fc0}, {0x80000000, 0x8000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float value;
        memcpy(&value, &cases[i][0], sizeof value);
        assert_int_equal(kiln_to_bf16(value), cases[i][1]);
    }
}

static void exp_is_exp(void **state)
{
    (void)state;
    for (double x = -87; x < 88; x += 0.00731)
        assert_true(fabs((double)kiln_exp((float)x) / exp((double)(float)x) - 1) < 3e-7);
    assert_true(kiln_exp(-1e30f) < 1e-37f && kiln_exp(-1e30f) >= 0);
    assert_true(isfinite(kiln_exp(1e30f)) && kiln_exp(1e30f) > 1e38f);
    volatile float nan = NAN; /* not before the program runs */
    assert_true(isnan(kiln_exp(nan)) && isnan(kiln_exp(-nan)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rms_norm),           cmocka_unit_test(rms_norm_with_tails),
        cmocka_unit_test(tails_round),        cmocka_unit_test(swiglu),
        cmocka_unit_test(swiglu_at_the_ends), cmocka_unit_test(softmax),
        cmocka_unit_test(qkv_rope),           cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(exp_is_exp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
