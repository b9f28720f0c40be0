/* test_onednn_limit.c - oneDNN kept below the processor (ONEDNN_MAX_CPU_ISA): bf16 is chosen only
 * where oneDNN may use it, and whoever chooses it all the same gets the results; every choice has
 * the same bits with one thread and with several.
 *
 * oneDNN reads the limit once, so the program runs itself for each of them.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/torch/load.h"
#include "pipeline/torch/tensor.h"
#include "tests/support/random.h"

enum {
    CHANNELS = 32,
    SIDE = 24,
    VALUES = CHANNELS * SIDE * SIDE,
    WEIGHTS = 9 * CHANNELS * CHANNELS
};
static const struct limit {
    const char *name;
    bool bf16, amx; /* whether oneDNN may use them then, where the processor has them */
} limits[] = {
    {"SSE41", false, false},           {"AVX2", false, false},
    {"avx2_vnni", false, false},       {"AVX512_CORE", false, false},
    {"AVX512_CORE_BF16", true, false}, {"AVX512_CORE_FP16", true, false},
    {"AVX512_CORE_AMX", true, true},
};
enum { LIMITS = sizeof limits / sizeof *limits };

/* Rows and the columns of two products: few rows may take another way than many. */
enum { FEW = 5, DEEP = 6 * CHANNELS, MANY = VALUES / DEEP, WIDE = WEIGHTS / DEEP };

static float noise[VALUES];

enum work { CONVOLUTION, PRODUCT, FEW_ROWS, MANY_ROWS, ATTENTION, WORKS };

static int fill(void **state)
{
    struct test_random random = {3};
    struct kiln_error err;
    (void)state;
    for (int i = 0; i < VALUES; i++)
        noise[i] = (float)test_random_below(&random, 2001) / 1000.0f - 1.0f;
    return kt_device_open(KT_CPU, &err);
}

static kt convolve(struct kt_scope *s, enum kt_dtype dtype)
{
    const int64_t picture[] = {1, CHANNELS, SIDE, SIDE}, filter[] = {CHANNELS, CHANNELS, 3, 3};
    return kt_conv2d(
        s, &(struct kt_conv_args){.x = kt_from_host(s, noise, KT_F32, dtype, 4, picture),
                                  .weight = kt_from_host(s, noise, KT_F32, dtype, 4, filter),
                                  .stride = 1,
                                  .pad_before = 1,
                                  .pad_after = 1});
}

static kt multiply(struct kt_scope *s, enum kt_dtype dtype, int64_t rows, int64_t n, int64_t k)
{
    const int64_t all[] = {rows, k}, weight[] = {n, k};
    const float *weights = noise + 7; /* no row of x, whose product with itself would be large */
    return kt_linear(s, kt_from_host(s, noise, KT_F32, dtype, 2, all),
                     kt_from_host(s, weights, KT_F32, dtype, 2, weight), NULL);
}

static kt attend(struct kt_scope *s, enum kt_dtype dtype)
{
    const int64_t rows[] = {VALUES / (3 * CHANNELS), 3 * CHANNELS};
    return kt_attention(
        s, &(struct kt_attention_args){.qkv = kt_from_host(s, noise, KT_F32, dtype, 2, rows),
                                       .heads = 2,
                                       .kv_heads = 2,
                                       .head_dim = CHANNELS / 2});
}

/* Returns the number of values. */
static int compute(enum work work, enum kt_dtype dtype, int threads, float *out)
{
    const int counts[] = {VALUES, VALUES, FEW * WIDE, MANY * WIDE, VALUES / 3};
    struct kt_scope *s = kt_scope_new(KT_CPU);
    struct kiln_error err;
    kt_threads_set(threads);
    kt y = work == CONVOLUTION ? convolve(s, dtype)
           : work == ATTENTION ? attend(s, dtype)
           : work == PRODUCT   ? multiply(s, dtype, SIDE * SIDE, CHANNELS, CHANNELS)
                               : multiply(s, dtype, work == FEW_ROWS ? FEW : MANY, WIDE, DEEP);
    kt_to_host_f32(s, y, out, (size_t)counts[work]);
    if (kt_scope_check(s, &err))
        fail_msg("%s", err.text);
    kt_scope_free(s);
    return counts[work];
}

static void every_choice_is_right_and_always_the_same(void **state)
{
    static float want[VALUES], got[VALUES], again[VALUES];
    (void)state;
    for (enum work work = 0; work < WORKS; work++) {
        int count = compute(work, KT_F32, 1, want);
        compute(work, KT_F32, 0, again);
        assert_memory_equal(want, again, (size_t)count * sizeof *want);
        compute(work, KT_BF16, 1, got);
        compute(work, KT_BF16, 0, again);
        assert_memory_equal(got, again, (size_t)count * sizeof *got);
        for (int i = 0; i < count; i++)
            if (!(fabsf(got[i] - want[i]) <= 0.2f))
                fail_msg("work %d, value %d: got %g, want %g", (int)work, i, (double)got[i],
                         (double)want[i]);
    }
}

/* A row has the same bits among few and among many, where Kiln multiplies. */
static void few_rows_have_the_bits_of_many(void **state)
{
    static float many[VALUES], few[VALUES];
    const enum kt_dtype dtypes[] = {KT_F32, KT_BF16};
    char text[256];
    (void)state;
    kt_describe(text, sizeof text);
    const bool here[] = {strstr(text, "Kiln multiplies") != NULL, kt_cpu_likes_bf16()};
    for (int i = 0; i < 2; i++) {
        if (!here[i])
            continue;
        compute(MANY_ROWS, dtypes[i], 0, many);
        const int count = compute(FEW_ROWS, dtypes[i], 0, few);
        assert_memory_equal(few, many, (size_t)count * sizeof *few);
    }
}

/* What is said of a limit is what may be used under it. */
static void bf16_is_chosen_where_it_may_be_used(void **state)
{
    const struct limit *limit = *state;
    char text[256];
    kt_describe(text, sizeof text);
    assert_true(limit->bf16 || !kt_cpu_likes_bf16());
    assert_true(limit->amx || !strstr(text, "AMX"));
    assert_int_equal(kt_cpu_likes_bf16(), strstr(text, "bf16") != NULL);
}

static int with_the_limit(const struct limit *limit)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(bf16_is_chosen_where_it_may_be_used, (void *)limit),
        cmocka_unit_test(every_choice_is_right_and_always_the_same),
        cmocka_unit_test(few_rows_have_the_bits_of_many),
    };
    setenv("ONEDNN_MAX_CPU_ISA", limit->name, 1); /* read by the first operation */
    return cmocka_run_group_tests_name(limit->name, tests, fill, NULL);
}

static void each_limit(void **state)
{
    const char *program = *state;
    for (int i = 0; i < LIMITS; i++) {
        char number[16];
        int status;
        snprintf(number, sizeof number, "%d", i);
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            execl(program, program, number, (char *)NULL);
            _exit(127);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status != 0)
            fail_msg("ONEDNN_MAX_CPU_ISA=%s: status %d", limits[i].name, status);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return with_the_limit(&limits[atoi(argv[1]) % LIMITS]);
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(each_limit, argv[0])};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
