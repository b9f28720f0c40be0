/* test_text_rows.c - the text encoder with 8-bit weights beside itself without, on the CPU: what a
 * trained encoder's features lose, and that products by blocks are products.
 *
 * The arithmetic is that of a GPU up to the order of sums: codes made plain numbers, then
 * multiplied.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/text/encoder_parts.h"
#include "pipeline/text/tokenizer.h"

static const char *sketch(const char *folder)
{
    static char path[4200];
    const char *root = getenv("KILN_SOURCE");
    snprintf(path, sizeof path, "%s/pipeline/models/sketch%s%s", root ? root : ".",
             *folder ? "/" : "", folder);
    return path;
}

static void ok(const struct kt_scope *s)
{
    struct kiln_error err;
    if (kt_scope_check(s, &err))
        fail_msg("%s", err.text);
}

static struct kiln_text_encoder *load(struct kt_scope *s, const char *dir,
                                      const struct kiln_text_config *config, enum kt_dtype dtype)
{
    struct kiln_text_encoder *te = NULL;
    struct kiln_error err;
    if (kiln_text_encoder_load(dir, config, s, dtype, NULL, &te, &err))
        fail_msg("%s", err.text);
    return te;
}

/* How far v is from want, relative to it, as vectors. */
static double relative(const float *v, const float *want, size_t count)
{
    double off = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        off += ((double)v[i] - (double)want[i]) * ((double)v[i] - (double)want[i]);
        all += (double)want[i] * (double)want[i];
    }
    return sqrt(off / all);
}

static float *features(struct kt_scope *s, const struct kiln_text_encoder *te, const int32_t *ids,
                       size_t count, size_t *ret_count)
{
    kt x = kiln_text_encoder_run(te, s, ids, count);
    *ret_count = (size_t)(kt_size(x, 0) * kt_size(x, 1));
    float *v = malloc((*ret_count + 1) * sizeof *v);
    assert_non_null(v);
    kt_to_host_f32(s, x, v, *ret_count);
    ok(s);
    return v;
}

static const char *const prompts[] = {"two red stars above a blue circle at sunset",
                                      "a large yellow ring at night",
                                      "a purple heart, a green triangle and a white square"};

static void trained_features_survive_eight_bits(void **state)
{
    struct kiln_model_config config;
    struct kiln_tokenizer *tokenizer;
    struct kiln_error err;
    (void)state;
    if (kiln_model_config_read(sketch(""), &config, &err) ||
        kiln_tokenizer_open(sketch("tokenizer"), &tokenizer, &err))
        fail_msg("%s", err.text);
    struct kt_scope *s = kt_scope_new(KT_CPU);
    const char *dir = sketch("text_encoder");
    struct kiln_text_encoder *wide = load(s, dir, &config.text, KT_F32);
    struct kiln_text_encoder *plain = load(s, dir, &config.text, KT_BF16);
    struct kiln_text_encoder *rows = load(s, dir, &config.text, KT_E4M3);
    assert_int_equal(kt_dtype_of(rows->layers[0].down), KT_E4M3);
    assert_int_equal(kt_dtype_of(rows->layers[0].q_norm), KT_BF16);
    assert_int_equal(kt_dtype_of(rows->layers[0].norm_ffn), KT_F32);
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        int32_t *ids;
        size_t n, count;
        if (kiln_tokenizer_encode(tokenizer, prompts[i], strlen(prompts[i]), false, &ids, &n, &err))
            fail_msg("%s", err.text);
        float *want = features(s, wide, ids, n, &count), *b = features(s, plain, ids, n, &count);
        float *e = features(s, rows, ids, n, &count);
        const double in_bf16 = relative(b, want, count), in_e4m3 = relative(e, want, count);
        printf("%zu tokens: relative error %.2e in bf16, %.2e with 8-bit weights\n", n, in_bf16,
               in_e4m3);
        assert_true(in_bf16 <= 2e-2);
        assert_true(in_e4m3 > in_bf16 && in_e4m3 <= 8e-2);
        free(want);
        free(b);
        free(e);
        free(ids);
    }
    kiln_text_encoder_free(wide);
    kiln_text_encoder_free(plain);
    kiln_text_encoder_free(rows);
    kiln_tokenizer_free(tokenizer);
    kt_scope_free(s);
}

/* Of 35 layers two stay plain at either end. */
static void ends_stay_plain(void **state)
{
    const struct kiln_text_config config = {.vocab = 64,
                                            .width = 32,
                                            .layers = 36,
                                            .heads = 2,
                                            .kv_heads = 1,
                                            .head_dim = 16,
                                            .ffn = 48,
                                            .norm_eps = 1e-6,
                                            .rope_theta = 1e6};
    struct kt_scope *s = kt_scope_new(KT_CPU);
    (void)state;
    struct kiln_text_encoder *te = load(s, NULL, &config, KT_E4M3);
    for (int i = 0; i < 35; i++) {
        const struct kiln_text_layer *l = &te->layers[i];
        const enum kt_dtype want = i < 2 || i > 32 ? KT_BF16 : KT_E4M3;
        const kt matrices[] = {l->qkv, l->out, l->gate_up, l->down};
        for (int k = 0; k < 4; k++)
            assert_int_equal(kt_dtype_of(matrices[k]), want);
        assert_int_equal(l->form.e4m3, want == KT_E4M3);
    }
    kiln_text_encoder_free(te);
    kt_scope_free(s);
}

/* --- products by blocks ----------------------------------------------------------------------- */

enum { ROWS = 12, K = 32, N = 16 };

static void expect_block(struct kt_scope *s, const struct kt_block_linear *args, int64_t at,
                         int64_t rows, kt onto, kt all)
{
    float got[ROWS * N], want[ROWS * N];
    const size_t count = (size_t)rows * N;
    kt y = kt_linear(s, kt_narrow(s, args->x, 0, at, rows), args->weight, args->bias);
    if (onto)
        y = kt_add(s, kt_narrow(s, onto, 0, at, rows), y);
    kt_to_host_f32(s, kt_narrow(s, all, 0, at, rows), got, count);
    kt_to_host_f32(s, y, want, count);
    ok(s);
    assert_true(relative(got, want, count) <= 4e-3);
}

/* Plain and quantised weights, rows quantised before or here, with and without something to add to:
 * each block is the product of its rows. */
static void blocks_are_products_of_their_rows(void **state)
{
    static const int64_t two[] = {8, 4}, one[] = {ROWS};
    (void)state;
    for (int way = 0; way < 24; way++) {
        const int how = way / 2;
        const int64_t *blocks = way & 1 ? one : two;
        const size_t count = way & 1 ? 1 : 2;
        struct kt_scope *s = kt_scope_new(KT_CPU);
        kt x = kt_to(s, kt_randn(s, 1, 2, (int64_t[]){ROWS, K}), KT_BF16);
        kt w = kt_to(s, kt_randn(s, 2, 2, (int64_t[]){N, K}), KT_BF16);
        kt sum = kt_to(s, kt_randn(s, 3, 2, (int64_t[]){ROWS, N}), KT_BF16);
        kt bias = how & 1 ? kt_to(s, kt_randn(s, 4, 1, (int64_t[]){N}), KT_BF16) : NULL;
        kt into = how & 2 ? kt_copy(s, sum) : NULL;
        const struct kt_block_linear args = {.x = how >= 8 ? kt_quantise_rows(s, x) : x,
                                             .weight = how >= 4 ? kt_quantise_rows(s, w) : w,
                                             .bias = bias,
                                             .into = into,
                                             .blocks = blocks,
                                             .count = count};
        kt y = kt_linear_blocks(s, &args);
        assert_int_equal(kt_dtype_of(y), KT_BF16);
        for (size_t i = 0; i < count; i++)
            expect_block(s, &args, i ? blocks[0] : 0, blocks[i], into ? sum : NULL, y);
        if (into)
            expect_block(s, &args, 0, ROWS, sum, into);
        kt_scope_free(s);
    }
}

enum { LARGE = 512, LARGE_ROWS = 2 * LARGE + 8 };

/* Blocks that are large enough to go together: whether they do or not, the bits are those of each
 * alone, the first time and from then on. */
static void large_blocks_together_are_each_alone(void **state)
{
    static const int64_t blocks[] = {LARGE, LARGE, LARGE_ROWS - 2 * LARGE};
    static float got[LARGE_ROWS * N], want[LARGE_ROWS * N];
    (void)state;
    for (int way = 0; way < 16; way++) {
        const enum kt_dtype dtype = way & 1 ? KT_BF16 : KT_F32;
        struct kt_scope *s = kt_scope_new(KT_CPU);
        kt x = kt_to(s, kt_randn(s, 1, 2, (int64_t[]){LARGE_ROWS, K}), dtype);
        kt w = kt_to(s, kt_randn(s, 2, 2, (int64_t[]){N, K}), dtype);
        kt sum = kt_to(s, kt_randn(s, 3, 2, (int64_t[]){LARGE_ROWS, N}), dtype);
        kt bias = way & 2 ? kt_to(s, kt_randn(s, 4, 1, (int64_t[]){N}), dtype) : NULL;
        struct kt_block_linear args = {.x = x,
                                       .weight = w,
                                       .bias = bias,
                                       .into = way & 4 ? kt_copy(s, sum) : NULL,
                                       .blocks = blocks,
                                       .count = 3};
        kt_to_host_f32(s, kt_linear_blocks(s, &args), got, LARGE_ROWS * N);
        int64_t row = 0;
        args.count = 1;
        for (int i = 0; i < 3; i++) {
            args.blocks = &blocks[i];
            args.x = kt_narrow(s, x, 0, row, blocks[i]);
            args.into = way & 4 ? kt_copy(s, kt_narrow(s, sum, 0, row, blocks[i])) : NULL;
            kt_to_host_f32(s, kt_linear_blocks(s, &args), want + row * N, (size_t)blocks[i] * N);
            row += blocks[i];
        }
        ok(s);
        assert_memory_equal(got, want, sizeof got);
        kt_scope_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trained_features_survive_eight_bits),
        cmocka_unit_test(ends_stay_plain),
        cmocka_unit_test(blocks_are_products_of_their_rows),
        cmocka_unit_test(large_blocks_together_are_each_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
