/* test_row_forms.c - what the row kernels have learned for the GPU: e4m3, rows quantised in the
 * same pass, the next norm in the same pass, heads of batches; against definitions in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/attention/qkv_rope.h"
#include "kernels/fp8.h"
#include "kernels/rows/layer_norm.h"
#include "kernels/rows/quantise.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/rows/swiglu.h"
#include "kernels/tails.h"
#include "tests/kernels/operands.h"

#define ROWS 3
#define ONCE_ROUNDED 3.95e-3 /* to bf16: half of 2^-7, and what fp32 adds */

/* --- e4m3 ------------------------------------------------------------------------------------- */

/* The value of a code by the definition: sign, 4 bits of exponent about 7, 3 of fraction. */
static double meaning(int code)
{
    const int exponent = code >> 3 & 15, fraction = code & 7;
    const double size =
        exponent ? (1 + fraction / 8.0) * pow(2, exponent - 7) : fraction / 8.0 * pow(2, -6);
    return code & 0x80 ? -size : size;
}

static void every_code_comes_back(void **state)
{
    (void)state;
    for (int code = 0; code < 256; code++) {
        if ((code & 0x7f) == 0x7f) {
            assert_true(isnan(kiln_from_e4m3((uint8_t)code)));
            continue;
        }
        assert_true((double)kiln_from_e4m3((uint8_t)code) == meaning(code));
        assert_int_equal(kiln_to_e4m3((float)meaning(code)), code);
    }
}

/* Half-way between neighbours to the even code, a little to either side to the nearer one. */
static void e4m3_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (int code = 0; code < 0x7e; code++) {
        const float half = (float)((meaning(code) + meaning(code + 1)) / 2);
        assert_int_equal(kiln_to_e4m3(half), code + (code & 1));
        assert_int_equal(kiln_to_e4m3(nextafterf(half, 0)), code);
        assert_int_equal(kiln_to_e4m3(nextafterf(half, 1000)), code + 1);
        assert_int_equal(kiln_to_e4m3(-half), 0x80 | (code + (code & 1)));
    }
    assert_int_equal(kiln_to_e4m3(1e30f), 0x7e);
    assert_int_equal(kiln_to_e4m3(-INFINITY), 0xfe);
    assert_int_equal(kiln_to_e4m3(NAN), 0x7f);
}

/* Codes times their scale are the row again, to half a step of e4m3: a 16th of the value, or half
 * of the smallest step. */
static void check_codes(const void *row, int64_t n, enum kiln_float f, const uint8_t *codes,
                        float scale)
{
    double top = 0;
    for (int64_t i = 0; i < n; i++)
        top = fmax(top, fabs(at(row, i, f)));
    assert_true(fabs((double)scale * 448 - fmax(top, 1e-12)) <= 1e-6 * fmax(top, 1e-12));
    for (int64_t i = 0; i < n; i++) {
        const double got = (double)kiln_from_e4m3(codes[i]) * (double)scale, want = at(row, i, f);
        if (!(fabs(got - want) <= fabs(want) / 16 * 1.0001 + (double)scale / 1023))
            fail_msg("value %lld of %lld: %.9g for %.9g", (long long)i, (long long)n, got, want);
    }
}

static void rows_that_are_not_ordinary(void **state)
{
    (void)state;
    uint8_t codes[4];
    float scale = 0;
    const float zeros[4] = {0}, tiny[4] = {1e-20f, -1e-20f, 0, 0}, bad[4] = {1, NAN, 2, -2};
    const float infinite[4] = {1, INFINITY, 2, -2};
    kiln_quantise_row(zeros, 4, KILN_F32, 0, codes, &scale);
    check_codes(zeros, 4, KILN_F32, codes, scale);
    kiln_quantise_row(tiny, 4, KILN_F32, 0, codes, &scale);
    assert_true(isfinite(scale) && scale > 0 && codes[0] == 0);
    kiln_quantise_row(bad, 4, KILN_F32, 0, codes, &scale);
    assert_true(codes[1] == 0x7f && codes[2] == 0x7e && isfinite(scale));
    kiln_quantise_row(infinite, 4, KILN_F32, 0, codes, &scale);
    assert_true(codes[1] == 0x7f && isinf(scale));
}

static void rows_of_their_own(void **state)
{
    (void)state;
    uint8_t rows[2 * 3];
    float scales[2] = {0};
    const float two[2 * 3] = {1, 2, 3, -0.5f, 0, 0.25f};
    struct kiln_quantise args = {
        .x = two, .quantised = rows, .row_scale = scales, .n = 3, .format = KILN_F32};
    kiln_quantise_ref(&args, 0, 1);
    kiln_quantise_ref(&args, 1, 2);
    check_codes(two, 3, KILN_F32, rows, scales[0]);
    check_codes(two + 3, 3, KILN_F32, rows + 3, scales[1]);
}

/* Codes that leave room for 16 times the largest value, and places behind the rows. */
static void rows_with_more_behind_them(void **state)
{
    (void)state;
    uint8_t rows[2 * 5];
    float scales[2] = {0};
    const float two[2 * 3] = {1, 2, 3.5f, -0.5f, 0, 0.25f};
    const struct kiln_quantise args = {.x = two,
                                       .quantised = rows,
                                       .row_scale = scales,
                                       .code_max = KILN_E4M3_BESIDE_MAX,
                                       .n = 3,
                                       .pitch = 5,
                                       .format = KILN_F32};
    memset(rows, 0x55, sizeof rows);
    kiln_quantise_ref(&args, 0, 2);
    assert_true(scales[0] == 3.5f / 28 && scales[1] == 0.5f / 28);
    const float codes[2 * 3] = {8, 16, 28, -28, 0, 14};
    for (int i = 0; i < 6; i++)
        assert_true(kiln_from_e4m3(rows[i / 3 * 5 + i % 3]) == codes[i]);
    assert_true(rows[3] == 0x55 && rows[4] == 0x55 && rows[8] == 0x55 && rows[9] == 0x55);
    assert_true(16 * 3.5f / scales[0] == KILN_E4M3_MAX);
}

/* --- the passes ------------------------------------------------------------------------------- */

/* Rows of the last result apart, in both forms, behind which nothing is written; y lies as it did.
 */
static void check_room(const struct kiln_rms_norm *args, const void *next)
{
    const int64_t n = args->n, size = kiln_float_size(args->format), pitch = n + 5;
    const size_t all = (size_t)(ROWS * n), room = (size_t)(ROWS * pitch * size);
    struct kiln_rms_norm apart = *args;
    const size_t code_room = (size_t)(ROWS * pitch);
    float row_scale[ROWS];
    uint8_t *places = malloc(room), *y = malloc(all * (size_t)size), *codes = malloc(code_room);
    assert_true(places && y && codes);
    memset(places, 0x55, room);
    memset(codes, 0x55, code_room);
    apart.next = places, apart.pitch = pitch;
    apart.y = y, apart.quantised = codes, apart.row_scale = row_scale;
    kiln_rms_norm_ref(&apart, 0, 1);
    kiln_rms_norm_ref(&apart, 1, ROWS);
    assert_memory_equal(y, args->y, all * (size_t)size);
    assert_memory_equal(row_scale, args->row_scale, sizeof row_scale);
    for (int64_t row = 0; row < ROWS; row++) {
        const uint8_t *at_row = places + row * pitch * size;
        assert_memory_equal(at_row, (const char *)next + row * n * size, (size_t)(n * size));
        for (int64_t i = n * size; i < pitch * size; i++)
            assert_int_equal(at_row[i], 0x55);
        assert_memory_equal(codes + row * pitch, args->quantised + row * n, (size_t)n);
        for (int64_t i = n; i < pitch; i++)
            assert_int_equal(codes[row * pitch + i], 0x55);
    }
    free(places), free(y), free(codes);
}

/* Norm, residual, next norm and quantising at once give what they give one after another. */
static void check_passes(int64_t n, enum kiln_float f)
{
    struct test_random random = {(uint64_t)n};
    void *x = values(&random, ROWS * n, f), *add = values(&random, ROWS * n, f);
    void *gain = values(&random, n, KILN_F32), *next_gain = values(&random, n, KILN_F32);
    void *y = values(&random, ROWS * n, f), *next = values(&random, ROWS * n, f);
    uint8_t *codes = malloc((size_t)(ROWS * n));
    float row_scale[ROWS];
    struct kiln_rms_norm all = {.x = x,
                                .gain = gain,
                                .add = add,
                                .y = y,
                                .n = n,
                                .eps = 1e-5f,
                                .format = f,
                                .next_gain = next_gain,
                                .quantised = codes,
                                .row_scale = row_scale};
    kiln_rms_norm_ref(&all, 0, ROWS);
    /* The same in two calls, the first of which the older tests hold to the definition. */
    void *once = values(&random, ROWS * n, f);
    struct kiln_rms_norm first = all;
    first.next_gain = NULL, first.quantised = NULL, first.y = once;
    kiln_rms_norm_ref(&first, 0, ROWS);
    const struct kiln_rms_norm second = {
        .x = once, .gain = next_gain, .y = next, .n = n, .eps = 1e-5f, .format = f};
    kiln_rms_norm_ref(&second, 0, ROWS);
    assert_memory_equal(y, once, (size_t)(ROWS * n * kiln_float_size(f)));
    for (int row = 0; row < ROWS; row++)
        check_codes((char *)next + row * n * kiln_float_size(f), n, f, codes + row * n,
                    row_scale[row]);
    all.next = once;
    kiln_rms_norm_ref(&all, 0, ROWS);
    assert_memory_equal(next, once, (size_t)(ROWS * n * kiln_float_size(f)));
    check_room(&all, next);
    free(x), free(add), free(gain), free(next_gain);
    free(y), free(next), free(codes), free(once);
}

static void passes_at_once(void **state)
{
    (void)state;
    static const int64_t widths[] = {1, 3, 64, 193, KILN_ROW_MAX};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        check_passes(widths[i], KILN_BF16);
        check_passes(widths[i], KILN_F32);
    }
}

static void swiglu_quantised(void **state)
{
    (void)state;
    struct test_random random = {6};
    const int64_t n = 77;
    void *x = values(&random, ROWS * 2 * n, KILN_BF16), *y = values(&random, ROWS * n, KILN_BF16);
    uint8_t both[ROWS * 77], alone[ROWS * 77];
    float row_scale[ROWS];
    struct kiln_swiglu args = {.gate_up = x,
                               .y = y,
                               .n = n,
                               .format = KILN_BF16,
                               .quantised = both,
                               .row_scale = row_scale};
    kiln_swiglu_ref(&args, 0, ROWS);
    for (int row = 0; row < ROWS; row++)
        check_codes((uint16_t *)y + row * n, n, KILN_BF16, both + row * n, row_scale[row]);
    args.y = NULL, args.quantised = alone;
    kiln_swiglu_ref(&args, 0, ROWS);
    assert_memory_equal(both, alone, sizeof both);
    free(x), free(y);
}

/* Of rows with tails the same as of what they stand for. */
static void check_layer_norm_of_tails(int64_t n)
{
    struct test_random random = {(uint64_t)n};
    float *x = values(&random, ROWS * n, KILN_F32), *scale = values(&random, n, KILN_F32);
    uint16_t *rows = malloc((size_t)(ROWS * KILN_TAILED(n)) * sizeof *rows);
    uint16_t *y = values(&random, ROWS * n, KILN_BF16);
    float *want = values(&random, ROWS * n, KILN_F32);
    assert_non_null(rows);
    for (int64_t row = 0; row < ROWS; row++) {
        kiln_pack_tailed(x + row * n, n, rows + row * KILN_TAILED(n));
        kiln_unpack_tailed(rows + row * KILN_TAILED(n), n, x + row * n);
    }
    const struct kiln_layer_norm wide = {
        .x = x, .scale = scale, .y = want, .n = n, .eps = 1e-6f, .format = KILN_F32};
    const struct kiln_layer_norm args = {.x = rows,
                                         .scale = scale,
                                         .y = y,
                                         .n = n,
                                         .eps = 1e-6f,
                                         .format = KILN_BF16,
                                         .tails = true};
    kiln_layer_norm_ref(&wide, 0, ROWS);
    kiln_layer_norm_ref(&args, 0, 2);
    kiln_layer_norm_ref(&args, 2, ROWS);
    for (int64_t i = 0; i < ROWS * n; i++)
        assert_true(kiln_load(y, i, KILN_BF16) == kiln_rounded(want[i], KILN_BF16));
    free(x), free(scale), free(rows), free(y), free(want);
}

static void check_layer_norm(int64_t n, enum kiln_float f, double offset)
{
    struct test_random random = {(uint64_t)n};
    void *x = values(&random, ROWS * n, f), *scale = values(&random, n, KILN_F32);
    void *y = values(&random, ROWS * n, f);
    for (int64_t i = 0; i < ROWS * n; i++)
        kiln_store(x, i, kiln_load(x, i, f) + (float)offset, f);
    const struct kiln_layer_norm args = {
        .x = x, .scale = scale, .y = y, .n = n, .eps = 1e-6f, .format = f};
    kiln_layer_norm_ref(&args, 0, 2);
    kiln_layer_norm_ref(&args, 2, ROWS);
    for (int64_t row = 0; row < ROWS; row++) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n; i++)
            mean += at(x, row * n + i, f) / (double)n;
        for (int64_t i = 0; i < n; i++)
            variance += pow(at(x, row * n + i, f) - mean, 2) / (double)n;
        for (int64_t i = 0; i < n; i++) {
            const double want =
                (at(x, row * n + i, f) - mean) / sqrt(variance + 1e-6) * at(scale, i, KILN_F32);
            const double got = at(y, row * n + i, f);
            const double share = f == KILN_BF16 ? ONCE_ROUNDED : 5e-6 * (1 + offset);
            if (!(fabs(got - want) <= share * (fabs(want) + 1)))
                fail_msg("%lld wide about %g: %.9g for %.9g", (long long)n, offset, got, want);
        }
    }
    free(x), free(scale), free(y);
}

static void layer_norm(void **state)
{
    (void)state;
    static const int64_t widths[] = {2, 3, 17, 64, 193, 3840};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int f = 0; f < 2; f++) {
            check_layer_norm(widths[i], f ? KILN_BF16 : KILN_F32, 0);
            check_layer_norm(widths[i], f ? KILN_BF16 : KILN_F32, 100);
        }
    check_layer_norm_of_tails(8);
    check_layer_norm_of_tails(240);
}

/* --- heads of batches ------------------------------------------------------------------------- */

enum { ITEMS = 3, TOKENS = 4, HEADS = 3, KV_HEADS = 2, DIM = 6 };

/* A batch holds what each item gives alone. */
static void check_batch(enum kiln_float f)
{
    struct test_random random = {9};
    const int64_t width = (HEADS + 2 * KV_HEADS) * DIM, rows = ITEMS * TOKENS;
    void *qkv = values(&random, rows * width, f), *norm = values(&random, DIM, f);
    float *cosine = values(&random, TOKENS * DIM / 2, KILN_F32);
    float *sine = values(&random, TOKENS * DIM / 2, KILN_F32);
    void *q = values(&random, rows * HEADS * DIM, KILN_F32);
    void *k = values(&random, rows * KV_HEADS * DIM, KILN_F32);
    void *v = values(&random, rows * KV_HEADS * DIM, KILN_F32);
    struct kiln_qkv_rope args = {.qkv = qkv,
                                 .q_norm = norm,
                                 .k_norm = norm,
                                 .cos = cosine,
                                 .sin = sine,
                                 .q = q,
                                 .k = k,
                                 .v = v,
                                 .rows = rows,
                                 .heads = HEADS,
                                 .kv_heads = KV_HEADS,
                                 .head_dim = DIM,
                                 .interleaved = 1,
                                 .eps = 1e-5f,
                                 .format = f,
                                 .tokens = TOKENS};
    kiln_qkv_rope_ref(&args, 0, 5);
    kiln_qkv_rope_ref(&args, 5, rows);
    for (int item = 0; item < ITEMS; item++) {
        float one_q[HEADS * TOKENS * DIM], one_k[KV_HEADS * TOKENS * DIM];
        float one_v[KV_HEADS * TOKENS * DIM]; /* room for either format */
        struct kiln_qkv_rope one = args;
        one.qkv = (char *)qkv + item * TOKENS * width * kiln_float_size(f);
        one.q = one_q, one.k = one_k, one.v = one_v;
        one.rows = TOKENS, one.tokens = 0;
        kiln_qkv_rope_ref(&one, 0, TOKENS);
        for (int i = 0; i < HEADS * TOKENS * DIM; i++)
            assert_true(at(q, item * HEADS * TOKENS * DIM + i, f) == at(one_q, i, f));
        for (int i = 0; i < KV_HEADS * TOKENS * DIM; i++) {
            assert_true(at(k, item * KV_HEADS * TOKENS * DIM + i, f) == at(one_k, i, f));
            assert_true(at(v, item * KV_HEADS * TOKENS * DIM + i, f) == at(one_v, i, f));
        }
    }
    free(qkv), free(norm), free(cosine), free(sine), free(q), free(k), free(v);
}

static void heads_of_a_batch(void **state)
{
    (void)state;
    check_batch(KILN_F32);
    check_batch(KILN_BF16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_comes_back),      cmocka_unit_test(e4m3_rounds_to_nearest_even),
        cmocka_unit_test(rows_that_are_not_ordinary), cmocka_unit_test(rows_of_their_own),
        cmocka_unit_test(rows_with_more_behind_them), cmocka_unit_test(passes_at_once),
        cmocka_unit_test(swiglu_quantised),           cmocka_unit_test(layer_norm),
        cmocka_unit_test(heads_of_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
