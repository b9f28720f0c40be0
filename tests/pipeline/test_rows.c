/* test_rows.c - rows in e4m3, the fused end of a sublayer, low-rank products and patches on the
 * CPU, each against its definition: what every device is compared with. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/fp8.h"
#include "pipeline/torch/low_rank.h"
#include "tests/support/random.h"

#define VALUES_MAX 8192

static float noise[VALUES_MAX], got[VALUES_MAX], want[VALUES_MAX];

static int fill(void **state)
{
    struct test_random random = {7};
    (void)state;
    for (int i = 0; i < VALUES_MAX; i++)
        noise[i] = (float)test_random_below(&random, 40001) / 10000.0f - 2.0f;
    return 0;
}

static void ok(const struct kt_scope *s)
{
    struct kiln_error err;
    if (kt_scope_check(s, &err))
        fail_msg("%s", err.text);
}

/* rows x cols of the noise from `at` on; cols 0: a vector. */
static kt part(struct kt_scope *s, enum kt_dtype dtype, int at, int64_t rows, int64_t cols)
{
    return kt_from_host(s, noise + at, KT_F32, dtype, cols ? 2 : 1, (int64_t[]){rows, cols});
}

static void read_into(struct kt_scope *s, kt x, float *out, size_t count)
{
    kt_to_host_f32(s, x, out, count);
    ok(s);
}

/* --- e4m3 ------------------------------------------------------------------------------------- */

static void rows_are_quantised_by_their_largest_value(void **state)
{
    enum { ROWS = 5, COLS = 37 };
    struct kt_scope *s = kt_scope_new(KT_CPU);
    uint8_t codes[COLS];
    float scale;
    (void)state;
    kt x = part(s, KT_F32, 0, ROWS, COLS), q = kt_quantise_rows(s, x);
    assert_int_equal(kt_dtype_of(q), KT_E4M3);
    assert_int_equal(kt_size(q, 1), COLS);
    read_into(s, q, got, ROWS * COLS);
    for (int row = 0; row < ROWS; row++) {
        kiln_quantise_row(noise + row * COLS, COLS, KILN_F32, 0, codes, &scale);
        for (int i = 0; i < COLS; i++)
            if (got[row * COLS + i] != scale * kiln_from_e4m3(codes[i]))
                fail_msg("row %d, value %d: %g, its code is %g", row, i,
                         (double)got[row * COLS + i], (double)(scale * kiln_from_e4m3(codes[i])));
    }
    read_into(s, kt_narrow(s, q, 0, 3, 2), want, 2 * COLS);
    assert_memory_equal(want, got + 3 * COLS, 2 * COLS * sizeof *got);
    read_into(s, kt_copy(s, q), want, ROWS * COLS);
    assert_memory_equal(want, got, ROWS * COLS * sizeof *got);
    assert_null(kt_narrow(s, q, 1, 0, 8));
    assert_int_equal(kt_scope_check(s, NULL), KILN_DEVICE);
    kt_scope_free(s);
}

static void products_take_quantised_rows_on_either_side(void **state)
{
    enum { M = 7, K = 48, N = 32 };
    (void)state;
    for (int form = 0; form < 8; form++) {
        struct kt_scope *s = kt_scope_new(KT_CPU);
        kt x = part(s, KT_F32, 0, M, K), w = part(s, KT_F32, M * K, N, K);
        kt bias = form & 2 ? part(s, KT_F32, 4000, N, 0) : NULL;
        kt qx = kt_quantise_rows(s, x), qw = kt_quantise_rows(s, w);
        /* A quantised weight wants quantised rows, which give bf16, or makes them of plain ones. */
        kt y = form & 1 ? kt_linear(s, x, qw, bias)
                        : kt_linear(s, qx, qw, bias ? kt_to(s, bias, KT_BF16) : NULL);
        read_into(s, y, got, M * N);
        read_into(s, kt_linear(s, kt_to(s, qx, KT_F32), kt_to(s, qw, KT_F32), bias), want, M * N);
        for (int i = 0; i < M * N; i++)
            /* 48 products of numbers that bf16 rounds once more */
            assert_true(fabsf(got[i] - want[i]) <= 1e-2f * fabsf(want[i]) + 0.1f);
        kt_scope_free(s);
    }
}

/* --- norms ------------------------------------------------------------------------------------ */

static void the_fused_end_is_the_two_norms_bit_for_bit(void **state)
{
    enum { ROWS = 9 };
    static const enum kt_dtype dtypes[] = {KT_F32, KT_BF16};
    (void)state;
    for (int form = 0; form < 8; form++) {
        struct kt_scope *s = kt_scope_new(KT_CPU);
        const enum kt_dtype dtype = dtypes[form & 1];
        const int64_t n = form & 2 ? 192 : 193; /* of which one is for tails */
        struct kt_residual_norm a = {.x = part(s, dtype, 0, ROWS, n),
                                     .y = part(s, dtype, 2000, ROWS, n),
                                     .gain = part(s, KT_F32, 4000, n, 0),
                                     .eps = 1e-5};
        a.x = kt_with_tails(s, a.x);
        const int64_t columns = kt_size(a.x, 1);
        assert_int_equal(columns, form & 2 && form & 1 ? n + n / 4 : n);
        kt x, next, same, none;
        kt_add_rms_norm(s, &a, &same, &none);
        assert_null(none);
        a.next_gain = part(s, KT_F32, 5000, 1, n);
        a.next_form.e4m3 = form & 4;
        kt_add_rms_norm(s, &a, &x, &next);
        assert_int_equal(kt_size(x, 1), columns);
        read_into(s, x, got, (size_t)(ROWS * columns));
        read_into(s, same, want, (size_t)(ROWS * columns));
        assert_memory_equal(got, want, (size_t)(ROWS * columns) * sizeof *got);
        kt alone = kt_rms_norm(s, same, a.next_gain, 1e-5, KT_PLAIN);
        if (form & 4)
            alone = kt_quantise_rows(s, alone);
        read_into(s, next, got, (size_t)(ROWS * n));
        read_into(s, alone, want, (size_t)(ROWS * n));
        assert_memory_equal(got, want, (size_t)(ROWS * n) * sizeof *got);
        assert_int_equal(kt_dtype_of(next), form & 4 ? KT_E4M3 : dtype);
        kt_scope_free(s);
    }
}

/* --- products of low rank --------------------------------------------------------------------- */

static void a_low_rank_product_is_added(void **state)
{
    enum { M = 6, K = 20, N = 12, R = 3 };
    struct kt_scope *s = kt_scope_new(KT_CPU);
    const float *x = noise, *down = noise + 1000, *up = noise + 2000, *y = noise + 3000;
    (void)state;
    kt target = part(s, KT_F32, 3000, M, N);
    kt low = kt_linear(s, part(s, KT_F32, 0, M, K), part(s, KT_F32, 1000, R, K), NULL);
    kt_add_product(s, target, low, part(s, KT_F32, 2000, N, R));
    read_into(s, target, got, M * N);
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            double sum = (double)y[m * N + n];
            for (int r = 0; r < R; r++)
                for (int k = 0; k < K; k++)
                    sum += (double)up[n * R + r] * (double)down[r * K + k] * (double)x[m * K + k];
            assert_true(fabs((double)got[m * N + n] - sum) < 1e-4);
        }
    kt_scope_free(s);
}

/* Changes x: what there is behind its rows is no number from the column `from` of them on. */
static void damage(struct kt_scope *s, kt x, int64_t from)
{
    const int64_t n = kt_size(x, 1), columns = kt_room(x) - from;
    kt behind = kt_narrow(s, kt_widened(s, x, kt_room(x)), 1, n + from, columns);
    kt_copy_into(s, behind, kt_affine(s, behind, 0, NAN));
}

/* The product of both against the two one after the other, without room, with all of it and with
 * more; what lies behind is not read. */
static void a_product_takes_a_low_rank_one_along(void **state)
{
    enum { M = 6, K = 20, N = 12, R = 3 };
    (void)state;
    for (int room = 0; room <= R + 2; room += room ? 2 : R) {
        struct kt_scope *s = kt_scope_new(KT_CPU);
        kt x = part(s, KT_F32, 0, M, K), down = part(s, KT_F32, 1000, R, K);
        kt up = part(s, KT_F32, 2000, N, R), weight = part(s, KT_F32, 3000, N, K);
        kt_make_room(s, weight, R + 1);
        assert_int_equal(kt_room(weight), R + 1);
        assert_int_equal(kt_room(kt_narrow(s, weight, 1, 0, K - 4)), 0); /* somebody's columns */
        assert_int_equal(kt_room(kt_copy(s, weight)), 0);
        kt both = kt_widened(s, weight, R);
        damage(s, weight, R);
        kt_put_beside(s, both, NULL, up, down);
        kt y = kt_linear(s, x, weight, NULL);
        kt_add_product(s, y, kt_linear(s, x, down, NULL), up);
        read_into(s, y, want, M * N);
        kt wide = kt_copy(s, x);
        if (room) {
            kt_make_room(s, wide, room);
            damage(s, wide, 0);
        }
        read_into(s, kt_linear(s, kt_beside(s, wide, down), both, NULL), got, M * N);
        for (int i = 0; i < M * N; i++)
            assert_true(fabsf(got[i] - want[i]) < 1e-4f);
        read_into(s, wide, got, M * K);
        assert_memory_equal(got, noise, M * K * sizeof *got);
        kt_scope_free(s);
    }
}

/* The same in codes: what comes along is as far off as codes are, whatever it is beside the
 * product, and nothing where up is.  A row of the weight that is smaller than the others, or zeros,
 * takes nothing from them. */
static void codes_take_a_low_rank_product_along(void **state)
{
    enum { M = 6, K = 256, N = 24, R = 3 };
    static const double strengths[] = {0, 1e-4, 3e-3, 0.03, 3}, firsts[] = {1, 0.1, 0};
    const size_t count = sizeof strengths / sizeof *strengths;
    (void)state;
    for (size_t i = 0; i < 3 * count; i++) {
        const double strength = strengths[i % count], first = firsts[i / count];
        struct kt_scope *s = kt_scope_new(KT_CPU);
        struct kiln_error err;
        kt ones = kt_affine(s, kt_zeros(s, KT_F32, 1, &(int64_t){K}), 1, 1);
        const struct kt_form form = {.e4m3 = true, .room = 16};
        kt x = kt_rms_norm(s, part(s, KT_BF16, 0, M, K), ones, 1e-5, form);
        kt down = part(s, KT_BF16, 50, R, K);
        kt up = kt_affine(s, part(s, KT_BF16, 500, N, R), strength, 0);
        kt up_1 = kt_narrow(s, up, 1, 1, 1);
        kt_copy_into(s, up_1, kt_affine(s, up_1, 0, 0));
        kt weight = part(s, KT_BF16, 1000, N, K), row_0 = kt_narrow(s, weight, 0, 0, 1);
        kt_copy_into(s, row_0, kt_affine(s, row_0, first, 0));
        weight = kt_quantise_rows(s, weight);
        kt codes = kt_quantise_rows(s, down), bare = kt_copy(s, weight);
        kt_make_room(s, weight, 16);
        kt both = kt_widened(s, weight, R);
        kt_put_beside(s, both, codes, up, down);
        kt y = kt_linear(s, kt_to(s, x, KT_F32), kt_to(s, bare, KT_F32), NULL);
        kt low = kt_linear(s, kt_to(s, x, KT_F32), kt_to(s, down, KT_F32), NULL);
        read_into(s, y, want, M * N);
        kt moved = kt_linear(s, kt_beside(s, x, codes), both, NULL);
        assert_int_equal(kt_dtype_of(moved), KT_BF16);
        read_into(s, kt_add(s, kt_to(s, moved, KT_F32), kt_affine(s, y, -1, 0)), got, M * N);
        kt added = kt_linear(s, low, kt_to(s, up, KT_F32), NULL);
        float *along = want + M * N;
        read_into(s, added, along, M * N);
        double off = 0, size = 0, rounded = 0;
        for (int j = 0; j < M * N; j++) {
            assert_true(isfinite(got[j]));
            if (j % N == 0)
                continue;
            off += pow((double)(got[j] - along[j]), 2);
            size += pow((double)along[j], 2);
            rounded += pow((double)want[j] / 256, 2); /* of the sum, to bf16 */
        }
        if (strength < 1)
            assert_true(sqrt(off) <= 0.06 * sqrt(size) + sqrt(rounded));
        else /* more than codes hold, which stop at the largest one */
            assert_true(isfinite(off) && off < size);
        read_into(s, kt_to(s, weight, KT_F32), got, N * K);
        read_into(s, kt_to(s, bare, KT_F32), want, N * K);
        assert_memory_equal(got, want, N * K * sizeof *got);
        assert_int_equal(kt_scope_check(s, &err), KILN_OK);
        assert_null(kt_beside(s, x, down)); /* plain beside codes */
        assert_int_not_equal(kt_scope_check(s, &err), KILN_OK);
        kt_scope_free(s);
    }
}

/* In one call what two make of the same rows, whose handle is gone then. */
static void a_gate_follows_its_product(void **state)
{
    enum { M = 6, K = 20, N = 12 };
    (void)state;
    for (int form = 0; form < 4; form++) {
        struct kt_scope *s = kt_scope_new(KT_CPU);
        struct kiln_error err;
        const enum kt_dtype dtype = form & 1 ? KT_BF16 : KT_F32;
        const struct kt_form as = {.e4m3 = form & 2};
        kt x = part(s, dtype, 0, M, K), weight = part(s, dtype, 1000, 2 * N, K);
        kt both = kt_swiglu(s, kt_linear(s, x, weight, NULL), as);
        read_into(s, kt_to(s, both, KT_F32), want, M * N);
        kt y = kt_linear_swiglu(s, x, weight, 1, as);
        assert_int_equal(kt_dtype_of(y), as.e4m3 ? KT_E4M3 : dtype);
        read_into(s, kt_to(s, y, KT_F32), got, M * N);
        assert_memory_equal(got, want, M * N * sizeof *got);
        assert_int_equal(kt_scope_check(s, &err), KILN_OK);
        assert_null(kt_linear_swiglu(s, part(s, dtype, 0, M, K + 1), weight, 1, as));
        assert_int_not_equal(kt_scope_check(s, &err), KILN_OK);
        kt_scope_free(s);
    }
}

/* Copies and merges of a matrix with room are those of one without, in words of 16 bytes or not. */
static void room_changes_no_value(void **state)
{
    enum { N = 12, R = 3 };
    static const int64_t widths[] = {20, 24};
    (void)state;
    for (int i = 0; i < 8; i++) {
        struct kt_scope *s = kt_scope_new(KT_CPU);
        const enum kt_dtype dtype = i & 1 ? KT_BF16 : KT_F32;
        const int64_t k = widths[i >> 1 & 1];
        const size_t count = (size_t)(N * k);
        kt dense = part(s, dtype, 0, N, k), wide = kt_copy(s, dense);
        kt up = part(s, dtype, 1000, N, R), down = part(s, dtype, 2000, R, k), merged[2];
        kt_make_room(s, wide, i & 4 ? 8 : 3);
        read_into(s, dense, want, count);
        read_into(s, kt_copy(s, wide), got, count);
        assert_memory_equal(got, want, count * sizeof *got);
        for (int room = 0; room < 2; room++) {
            merged[room] = kt_copy(s, dense);
            kt_merge_low_rank(s, merged[room], room ? wide : dense, up, down);
        }
        read_into(s, merged[0], want, count);
        read_into(s, merged[1], got, count);
        assert_memory_equal(got, want, count * sizeof *got);
        kt codes = kt_quantise_rows(s, kt_zeros(s, dtype, 2, (int64_t[]){N, k}));
        kt_copy_into(s, codes, wide);
        read_into(s, kt_quantise_rows(s, dense), want, count);
        read_into(s, codes, got, count);
        assert_memory_equal(got, want, count * sizeof *got);
        kt_scope_free(s);
    }
}

/* --- patches ---------------------------------------------------------------------------------- */

enum { C = 4, H = 6, W = 10, TOKENS = H / 2 * (W / 2), LATENT = C * H * W };

/* Where value (c, y, x) of the latent is among the tokens. */
static int token_of(int c, int y, int x)
{
    return ((y / 2 * (W / 2) + x / 2) * 4 + y % 2 * 2 + x % 2) * C + c;
}

static kt latent_of(struct kt_scope *s)
{
    return kt_reshape(s, part(s, KT_F32, 0, C, H * W), 3, (int64_t[]){C, H, W});
}

static void patches_hold_the_latent(void **state)
{
    struct kt_scope *s = kt_scope_new(KT_CPU);
    (void)state;
    read_into(s, kt_patchify(s, latent_of(s), 2, KT_F32), got, LATENT);
    for (int i = 0; i < LATENT; i++)
        assert_float_equal(got[token_of(i / (H * W), i / W % H, i % W)], noise[i], 0);
    assert_null(kt_patchify(s, latent_of(s), 4, KT_F32)); /* 6 lines */
    kt_scope_free(s);
}

static void a_step_moves_the_latent_and_marks_what_is_not_finite(void **state)
{
    const float stride = -0.25f, guidance = 1.5f;
    (void)state;
    for (int form = 0; form < 8; form++) {
        struct kt_scope *s = kt_scope_new(KT_CPU);
        const bool guided = form & 1, broken = form & 2;
        float mark = -1;
        kt with = part(s, KT_F32, 1000, TOKENS, 4 * C);
        const struct kt_euler_step step = {
            .latent = latent_of(s),
            .with = broken ? kt_affine(s, with, INFINITY, 0) : with,
            .without = guided ? part(s, KT_F32, 2000, TOKENS, 4 * C) : NULL,
            .stride = kt_from_host(s, &stride, KT_F32, KT_F32, 1, (int64_t[]){1}),
            .bad = kt_zeros(s, KT_I32, 1, (int64_t[]){1}),
            .guidance = (double)guidance,
            .patch = 2};
        kt_euler_step(s, &step);
        read_into(s, step.bad, &mark, 1);
        assert_float_equal(mark, broken, 0);
        read_into(s, step.latent, got, LATENT);
        for (int i = 0; i < LATENT && !broken; i++) {
            const int at = token_of(i / (H * W), i / W % H, i % W);
            float out = noise[1000 + at];
            out += guided ? guidance * (out - noise[2000 + at]) : 0;
            assert_true(fabsf(got[i] - (noise[i] - stride * out)) < 1e-5f);
        }
        kt_scope_free(s);
    }
}

/* --- items ------------------------------------------------------------------------------------ */

/* Of two items a step moves each by its own stride and marks the one that is not finite. */
static void patches_of_several_items_are_those_of_each(void **state)
{
    const float strides[2] = {-0.25f, -0.75f};
    (void)state;
    struct kt_scope *s = kt_scope_new(KT_CPU);
    float marks[2];
    const int64_t shape[4] = {2, C, H, W};
    kt latents = kt_reshape(s, part(s, KT_F32, 0, 2 * C, H * W), 4, shape);
    kt with = part(s, KT_F32, 1000, 2 * TOKENS, 4 * C);
    kt_copy_into(s, kt_narrow(s, with, 0, 2 * TOKENS - 1, 1),
                 kt_affine(s, kt_narrow(s, with, 0, 0, 1), INFINITY, 0));
    const struct kt_euler_step both = {
        .latent = kt_copy(s, latents),
        .with = with,
        .stride = kt_from_host(s, strides, KT_F32, KT_F32, 1, (int64_t[]){2}),
        .bad = kt_zeros(s, KT_I32, 1, (int64_t[]){2}),
        .patch = 2};
    kt tokens = kt_patchify(s, latents, 2, KT_F32);
    kt_euler_step(s, &both);
    read_into(s, both.bad, marks, 2);
    assert_true(marks[0] == 0 && marks[1] == 1);
    for (int i = 0; i < 2; i++) {
        kt one = kt_copy(s, kt_reshape(s, kt_narrow(s, latents, 0, i, 1), 3, shape + 1));
        read_into(s, kt_patchify(s, one, 2, KT_F32), want, LATENT);
        read_into(s, kt_narrow(s, tokens, 0, i * TOKENS, TOKENS), got, LATENT);
        assert_memory_equal(got, want, LATENT * sizeof *got);
        const struct kt_euler_step alone = {.latent = one,
                                            .with = kt_narrow(s, with, 0, i * TOKENS, TOKENS),
                                            .stride = kt_narrow(s, both.stride, 0, i, 1),
                                            .patch = 2};
        kt_euler_step(s, &alone);
        read_into(s, one, want, LATENT);
        read_into(s, kt_narrow(s, both.latent, 0, i, 1), got, LATENT);
        assert_memory_equal(got, want, LATENT * sizeof *got);
    }
    struct kt_euler_step short_of_one = both;
    short_of_one.stride = kt_narrow(s, both.stride, 0, 0, 1);
    kt_euler_step(s, &short_of_one);
    struct kiln_error err;
    assert_int_not_equal(kt_scope_check(s, &err), 0); /* one stride for two items */
    kt_scope_free(s);
}

static void attention_stays_within_an_item(void **state)
{
    enum { ROWS = 6, HEADS = 2, D = 8, ITEMS = 3, WIDTH = 3 * HEADS * D };
    (void)state;
    struct kt_scope *s = kt_scope_new(KT_CPU);
    struct kt_attention_args args = {.qkv = part(s, KT_F32, 0, ITEMS * ROWS, WIDTH),
                                     .q_norm = part(s, KT_F32, 1000, D, 0),
                                     .k_norm = part(s, KT_F32, 1100, D, 0),
                                     .cos = part(s, KT_F32, 1200, ROWS, D / 2),
                                     .sin = part(s, KT_F32, 1300, ROWS, D / 2),
                                     .heads = HEADS,
                                     .kv_heads = HEADS,
                                     .head_dim = D,
                                     .eps = 1e-5,
                                     .items = ITEMS};
    const kt all = args.qkv;
    kt together = kt_attention(s, &args);
    args.form = (struct kt_form){.room = 16};
    assert_int_equal(kt_room(kt_attention(s, &args)), 0); /* a GPU leaves it */
    args.form.e4m3 = true;
    assert_int_equal(kt_room(kt_attention(s, &args)), 16);
    args.form.room = 0;
    kt codes = kt_attention(s, &args), of = kt_quantise_rows(s, together);
    assert_int_equal(kt_dtype_of(codes), KT_E4M3);
    read_into(s, codes, got, ITEMS * ROWS * HEADS * D);
    read_into(s, of, want, ITEMS * ROWS * HEADS * D);
    assert_memory_equal(got, want, ITEMS * ROWS * HEADS * D * sizeof *got);
    args.form = KT_PLAIN;
    args.items = 1;
    for (int i = 0; i < ITEMS; i++) {
        args.qkv = kt_narrow(s, all, 0, i * ROWS, ROWS);
        read_into(s, kt_attention(s, &args), want, ROWS * HEADS * D);
        read_into(s, kt_narrow(s, together, 0, i * ROWS, ROWS), got, ROWS * HEADS * D);
        assert_memory_equal(got, want, ROWS * HEADS * D * sizeof *got);
    }
    args.qkv = all, args.items = 4;
    assert_null(kt_attention(s, &args)); /* 18 rows */
    kt_scope_free(s);
}

static void products_of_items_are_those_of_each(void **state)
{
    enum { ROWS = 4, K = 20, N = 12, ITEMS = 3 };
    (void)state;
    struct kt_scope *s = kt_scope_new(KT_CPU);
    kt x = part(s, KT_F32, 0, ITEMS * ROWS, K), weight = part(s, KT_F32, 1000, N, K);
    read_into(s, kt_linear(s, x, weight, NULL), want, ITEMS * ROWS * N);
    read_into(s, kt_linear_items(s, x, weight, NULL, ITEMS), got, ITEMS * ROWS * N);
    for (int i = 0; i < ITEMS * ROWS * N; i++)
        assert_true(fabsf(got[i] - want[i]) < 1e-4f);
    kt quantised = kt_quantise_rows(s, weight), rows = kt_quantise_rows(s, x);
    read_into(s, kt_linear(s, rows, quantised, NULL), want, ITEMS * ROWS * N);
    read_into(s, kt_linear_items(s, rows, quantised, NULL, ITEMS), got, ITEMS * ROWS * N);
    for (int i = 0; i < ITEMS * ROWS * N; i++)
        assert_true(fabsf(got[i] - want[i]) < 0.02f * (1 + fabsf(want[i])));
    assert_null(kt_linear_items(s, x, weight, NULL, 5)); /* 12 rows */
    kt_scope_free(s);
    s = kt_scope_new(KT_CPU);
    x = part(s, KT_F32, 0, ITEMS * ROWS, K);
    assert_null(kt_linear_items(s, x, part(s, KT_F32, 1000, N, K), NULL, 0));
    kt_scope_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_quantised_by_their_largest_value),
        cmocka_unit_test(products_take_quantised_rows_on_either_side),
        cmocka_unit_test(the_fused_end_is_the_two_norms_bit_for_bit),
        cmocka_unit_test(a_low_rank_product_is_added),
        cmocka_unit_test(a_product_takes_a_low_rank_one_along),
        cmocka_unit_test(codes_take_a_low_rank_product_along),
        cmocka_unit_test(a_gate_follows_its_product),
        cmocka_unit_test(room_changes_no_value),
        cmocka_unit_test(patches_hold_the_latent),
        cmocka_unit_test(a_step_moves_the_latent_and_marks_what_is_not_finite),
        cmocka_unit_test(patches_of_several_items_are_those_of_each),
        cmocka_unit_test(attention_stays_within_an_item),
        cmocka_unit_test(products_of_items_are_those_of_each),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
