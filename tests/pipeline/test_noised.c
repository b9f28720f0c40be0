/* test_noised.c - kt_noised on the CPU: what torch computes for other sizes
 * (tests/golden/enlarge.safetensors), the mix with noise, and shapes that are refused. */
#include "pipeline/torch/tensor.h"
#include "storage/formats/safetensors.h"
#include "tests/pipeline/abi.h"

static float *values_of(const struct kiln_st_tensor *t)
{
    float *values = malloc(t->size);
    assert_true(values && t->ndim == 3 && t->dtype == KILN_ST_F32);
    memcpy(values, t->data, t->size);
    return values;
}

static void check_pair(const struct kiln_st_tensor *in, const struct kiln_st_tensor *out)
{
    struct kt_scope *s = kt_scope_new(KT_CPU);
    struct kiln_error err;
    const size_t n = out->size / sizeof(float);
    float *clean = values_of(in), *want = values_of(out), *got = malloc(out->size);
    float *noise = malloc(out->size);
    kt a = kt_from_host(s, clean, KT_F32, KT_F32, 3, in->shape);
    kt e = kt_randn(s, 1, 3, out->shape);
    kt_to_host_f32(s, e, noise, n);
    static const float sigmas[] = {0, 0.75f, 1};
    for (int k = 0; k < 3; k++) {
        const float sigma = sigmas[k];
        kt_to_host_f32(s, kt_noised(s, a, e, (double)sigma), got, n);
        if (kt_scope_check(s, &err))
            fail_msg("%s", err.text);
        for (size_t i = 0; i < n; i++)
            assert_float_equal(got[i], (1 - sigma) * want[i] + sigma * noise[i], 4e-6);
    }
    free(clean);
    free(want);
    free(got);
    free(noise);
    kt_scope_free(s);
}

static void other_sizes_are_those_of_torch(void **state)
{
    (void)state;
    struct kiln_st *st;
    struct kiln_error err;
    char name[32];
    if (kiln_st_open(golden("enlarge.safetensors"), &st, &err))
        fail_msg("%s", err.text);
    assert_true(kiln_st_count(st) >= 18);
    for (size_t i = 0; i < kiln_st_count(st) / 2; i++) {
        snprintf(name, sizeof name, "in%zu", i);
        const struct kiln_st_tensor *in = kiln_st_find(st, name);
        snprintf(name, sizeof name, "out%zu", i);
        const struct kiln_st_tensor *out = kiln_st_find(st, name);
        assert_true(in && out);
        check_pair(in, out);
    }
    kiln_st_close(st);
}

static void expect_refusal(enum kt_dtype dtype, int dims, const int64_t *clean,
                           const int64_t *noise, double sigma)
{
    struct kt_scope *s = kt_scope_new(KT_CPU);
    struct kiln_error err;
    assert_null(
        kt_noised(s, kt_zeros(s, dtype, dims, clean), kt_zeros(s, KT_F32, 3, noise), sigma));
    assert_int_not_equal(kt_scope_check(s, &err), 0);
    assert_non_null(strstr(err.text, "a start of shape"));
    kt_scope_free(s);
}

static void shapes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    expect_refusal(KT_F32, 3, (int64_t[]){3, 4, 4}, (int64_t[]){2, 4, 4}, 0.5);
    expect_refusal(KT_F32, 2, (int64_t[]){4, 4}, (int64_t[]){4, 4, 4}, 0.5);
    expect_refusal(KT_F32, 3, (int64_t[]){2, 0, 4}, (int64_t[]){2, 4, 4}, 0.5);
    expect_refusal(KT_BF16, 3, (int64_t[]){2, 4, 4}, (int64_t[]){2, 4, 4}, 0.5);
    expect_refusal(KT_F32, 3, (int64_t[]){2, 4, 4}, (int64_t[]){2, 4, 4}, 1.5);
    expect_refusal(KT_F32, 3, (int64_t[]){2, 4, 4}, (int64_t[]){2, 4, 4}, NAN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_sizes_are_those_of_torch),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
