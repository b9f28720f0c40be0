/* test_onednn_limit.c - oneDNN kept below the processor (ONEDNN_MAX_CPU_ISA): bf16 is not chosen,
 * and whoever chooses it gets the results all the same. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pipeline/torch/tensor.h"
#include "tests/support/random.h"

enum { CHANNELS = 32, SIDE = 24, VALUES = CHANNELS * SIDE * SIDE, WEIGHTS = 9 * CHANNELS * CHANNELS };

static float noise[VALUES];

static int fill(void **state)
{
    struct test_random random = {3};
    struct kiln_error err;
    (void)state;
    for (int i = 0; i < VALUES; i++)
        noise[i] = (float)test_random_below(&random, 2001) / 1000.0f - 1.0f;
    return kt_device_open(KT_CPU, &err);
}

static void compute(enum kt_dtype dtype, bool convolve, float *out)
{
    const int64_t picture[] = {1, CHANNELS, SIDE, SIDE}, filter[] = {CHANNELS, CHANNELS, 3, 3};
    const int64_t rows[] = {SIDE * SIDE, CHANNELS}, weight[] = {CHANNELS, CHANNELS};
    struct kt_scope *s = kt_scope_new(KT_CPU);
    struct kiln_error err;
    kt x = kt_from_host(s, noise, KT_F32, dtype, convolve ? 4 : 2, convolve ? picture : rows);
    kt w = kt_from_host(s, noise, KT_F32, dtype, convolve ? 4 : 2, convolve ? filter : weight);
    kt y = convolve ? kt_conv2d(s, &(struct kt_conv_args){
                                       .x = x, .weight = w, .stride = 1, .pad_before = 1,
                                       .pad_after = 1})
                    : kt_linear(s, x, w, NULL);
    kt_to_host_f32(s, y, out, VALUES);
    if (kt_scope_check(s, &err))
        fail_msg("%s", err.text);
    kt_scope_free(s);
}

static void bf16_is_not_chosen_and_yet_computed(void **state)
{
    static float want[VALUES], got[VALUES];
    (void)state;
    assert_false(kt_cpu_likes_bf16());
    for (int convolve = 0; convolve < 2; convolve++) {
        compute(KT_F32, convolve, want);
        compute(KT_BF16, convolve, got);
        for (int i = 0; i < VALUES; i++)
            if (fabsf(got[i] - want[i]) > 0.2f)
                fail_msg("value %d: got %g, want %g", i, (double)got[i], (double)want[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bf16_is_not_chosen_and_yet_computed)};
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1); /* read by the first operation */
    return cmocka_run_group_tests(tests, fill, NULL);
}
