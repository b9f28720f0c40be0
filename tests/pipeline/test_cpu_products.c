/* test_cpu_products.c - products and attention on the CPU against the definition in double: odd
 * shapes, both dtypes, and the same bits for any number of threads and whatever rows are beside:
 * few rows are the second operand, many the first. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/torch/tensor.h"
#include "tests/support/random.h"

#define VALUES_MAX (1 << 19)

static float noise[VALUES_MAX], got[VALUES_MAX], other[VALUES_MAX];

static int fill(void **state)
{
    struct test_random random = {5};
    struct kiln_error err;
    (void)state;
    for (int i = 0; i < VALUES_MAX; i++)
        noise[i] = (float)test_random_below(&random, 4001) / 2000.0f - 1.0f;
    return kt_device_open(KT_CPU, &err);
}

static void read_into(struct kt_scope *s, kt x, float *out, size_t count)
{
    struct kiln_error err;
    kt_to_host_f32(s, x, out, count);
    if (kt_scope_check(s, &err))
        fail_msg("%s", err.text);
}

/* rows x cols of the noise from `at` on; cols 0: a vector. */
static kt part(struct kt_scope *s, enum kt_dtype dtype, int at, int64_t rows, int64_t cols)
{
    return kt_from_host(s, noise + at, KT_F32, dtype, cols ? 2 : 1, (int64_t[]){rows, cols});
}

/* The value that part() has there. */
static double value(enum kt_dtype dtype, int at)
{
    float x = noise[at];
    if (dtype == KT_BF16) {
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        bits = (bits + 0x7fffu + ((bits >> 16) & 1)) & 0xffff0000u;
        memcpy(&x, &bits, sizeof x);
    }
    return (double)x;
}

static double tolerance(enum kt_dtype dtype)
{
    return dtype == KT_BF16 ? 1e-2 : 1e-5;
}

enum { WEIGHT = 200000, BIAS = 400000 };

static void check_linear(enum kt_dtype dtype, int64_t rows, int64_t n, int64_t k)
{
    struct kt_scope *s = kt_scope_new(KT_CPU);
    kt x = part(s, dtype, 0, rows, k), w = part(s, dtype, WEIGHT, n, k);
    read_into(s, kt_linear(s, x, w, part(s, dtype, BIAS, n, 0)), got, (size_t)(rows * n));
    for (int64_t i = 0; i < rows * n; i += 13) {
        double sum = value(dtype, BIAS + (int)(i % n)), size = 1;
        for (int64_t j = 0; j < k; j++) {
            const double term =
                value(dtype, (int)(i / n * k + j)) * value(dtype, WEIGHT + (int)(i % n * k + j));
            sum += term, size += fabs(term);
        }
        if (fabs((double)got[i] - sum) > tolerance(dtype) * size)
            fail_msg("%lld x %lld x %lld, value %lld: got %g, want %g", (long long)rows,
                     (long long)n, (long long)k, (long long)i, (double)got[i], sum);
    }
    kt_scope_free(s);
}

static void products_are_what_they_say(void **state)
{
    (void)state;
    const int64_t shapes[][3] = {{1, 5, 8},     {15, 64, 32},   {16, 1, 2},     {17, 63, 34},
                                 {65, 65, 240}, {300, 130, 48}, {64, 70, 1026}, {33, 64, 600},
                                 {1, 5, 98},    {7, 63, 162},   {17, 200, 290}, {50, 17, 514},
                                 {3, 1, 98},    {16, 65, 98}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_linear(KT_F32, shapes[i][0], shapes[i][1], shapes[i][2]);
        check_linear(KT_BF16, shapes[i][0], shapes[i][1], shapes[i][2]);
    }
    check_linear(KT_F32, 40, 9, 7);
    check_linear(KT_BF16, 40, 9, 7);
}

/* Rows from the middle, alone and with one or all threads, have the bits that they have in x. */
static void compare_parts(enum kt_dtype dtype, int64_t rows, int64_t n, int64_t k)
{
    const int64_t some[] = {1, 5, 16, 33, 64, 65}, from = rows / 2;
    struct kt_scope *s = kt_scope_new(KT_CPU);
    kt x = part(s, dtype, 0, rows, k), w = part(s, dtype, WEIGHT, n, k);
    kt_threads_set(1);
    read_into(s, kt_linear(s, x, w, NULL), got, (size_t)(rows * n));
    kt_threads_set(0);
    read_into(s, kt_linear(s, x, w, NULL), other, (size_t)(rows * n));
    assert_memory_equal(got, other, (size_t)(rows * n) * sizeof *got);
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        for (int threads = 0; threads < 2; threads++) {
            const size_t values = (size_t)(some[i] * n);
            kt_threads_set(threads);
            read_into(s, kt_linear(s, kt_narrow(s, x, 0, from, some[i]), w, NULL), other, values);
            assert_memory_equal(got + from * n, other, values * sizeof *got);
        }
    kt_threads_set(0);
    kt_scope_free(s);
}

static void a_row_has_the_same_bits_with_any_threads_and_neighbours(void **state)
{
    const enum kt_dtype dtypes[] = {KT_F32, KT_BF16};
    (void)state;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        compare_parts(dtypes[i], 600, 200, 240);
        compare_parts(dtypes[i], 600, 200, 278);
        compare_parts(dtypes[i], 180, 150, 1030);
    }
}

static void a_gated_product_has_the_bits_of_its_two_steps(void **state)
{
    (void)state;
    const int64_t shapes[][3] = {{16, 1, 8},   {70, 65, 48}, {600, 96, 240},
                                 {1, 65, 102}, {17, 33, 98}, {40, 70, 386}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const enum kt_dtype dtype = bf16 ? KT_BF16 : KT_F32;
            const int64_t rows = shapes[i][0], n = shapes[i][1], k = shapes[i][2];
            struct kt_scope *s = kt_scope_new(KT_CPU);
            kt x = part(s, dtype, 0, rows, k), w = part(s, dtype, WEIGHT, 2 * n, k);
            read_into(s, kt_swiglu(s, kt_linear(s, x, w, NULL), KT_PLAIN), got, (size_t)(rows * n));
            read_into(s, kt_linear_swiglu(s, x, w, 1, KT_PLAIN), other, (size_t)(rows * n));
            assert_memory_equal(got, other, (size_t)(rows * n) * sizeof *got);
            kt_scope_free(s);
        }
}

/* Value i of head `head` of a query row, without norms and rotation. */
static double attended(enum kt_dtype dtype, const struct kt_attention_args *a, int64_t rows,
                       int64_t row, int64_t head, int64_t i)
{
    const int64_t d = a->head_dim, width = (a->heads + 2 * a->kv_heads) * d;
    const int64_t kv = a->heads + head / (a->heads / a->kv_heads);
    const int64_t keys = a->causal ? row + 1 : rows;
    double top = -INFINITY, sum = 0, result = 0;
    static double scores[4096];
    for (int64_t key = 0; key < keys; key++) {
        scores[key] = 0;
        for (int64_t j = 0; j < d; j++)
            scores[key] += value(dtype, (int)(row * width + head * d + j)) *
                           value(dtype, (int)(key * width + kv * d + j)) / sqrt((double)d);
        top = fmax(top, scores[key]);
    }
    for (int64_t key = 0; key < keys; key++) {
        const double p = exp(scores[key] - top);
        sum += p;
        result += p * value(dtype, (int)(key * width + (kv + a->kv_heads) * d + i));
    }
    return result / sum;
}

static void check_attention(enum kt_dtype dtype, int64_t rows, struct kt_attention_args a)
{
    struct kt_scope *s = kt_scope_new(KT_CPU);
    const int64_t d = a.head_dim, out = a.heads * d;
    a.qkv = part(s, dtype, 0, rows, (a.heads + 2 * a.kv_heads) * d);
    read_into(s, kt_attention(s, &a), got, (size_t)(rows * out));
    const int64_t step = rows > 1000 ? 97 : 17;
    for (int64_t i = 0; i < rows * out; i += step) {
        const double want = attended(dtype, &a, rows, i / out, i % out / d, i % d);
        if (fabs((double)got[i] - want) > tolerance(dtype))
            fail_msg("%lld rows, head of %lld, causal %d, value %lld: got %g, want %g",
                     (long long)rows, (long long)d, a.causal, (long long)i, (double)got[i], want);
    }
    kt_scope_free(s);
}

static void attention_sees_all_rows_or_those_before(void **state)
{
    (void)state;
    const int64_t rows[] = {1, 2, 31, 64, 65, 129, 200};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int form = 0; form < 8; form++) {
            const struct kt_attention_args args = {.heads = form & 1 ? 4 : 2,
                                                   .kv_heads = 2,
                                                   .head_dim = form & 2 ? 48 : 16,
                                                   .causal = form & 4};
            check_attention(KT_F32, rows[i], args);
            check_attention(KT_BF16, rows[i], args);
        }
}

/* So many rows that a block has fewer, and that these do not divide them. */
static void attention_takes_many_rows(void **state)
{
    (void)state;
    const struct kt_attention_args args = {.heads = 1, .kv_heads = 1, .head_dim = 16};
    check_attention(KT_F32, 3000, args);
    check_attention(KT_BF16, 3001, args);
}

static void attention_has_the_same_bits_with_any_threads(void **state)
{
    (void)state;
    struct kt_scope *s = kt_scope_new(KT_CPU);
    const struct kt_attention_args args = {
        .qkv = part(s, KT_BF16, 0, 333, 6 * 48), .heads = 2, .kv_heads = 2, .head_dim = 48};
    kt_threads_set(1);
    read_into(s, kt_attention(s, &args), got, 333 * 96);
    kt_threads_set(0);
    read_into(s, kt_attention(s, &args), other, 333 * 96);
    assert_memory_equal(got, other, 333 * 96 * sizeof *got);
    kt_scope_free(s);
}

/* MB of this process that have an address. */
static long mapped_mb(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &pages), 1);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE) >> 20;
}

/* oneDNN makes a kernel for each shape and keeps it: prompts of many lengths may not fill memory
 * with them. */
static void many_lengths_need_few_kernels(void **state)
{
    (void)state;
    long before = 0;
    kt_threads_set(2); /* each thread has kernels of its own */
    for (int64_t rows = 1; rows <= 384; rows++) {
        struct kt_scope *s = kt_scope_new(KT_CPU);
        struct kt_attention_args args = {
            .heads = 2, .kv_heads = 2, .head_dim = 16, .causal = rows % 2 == 0};
        kt x = part(s, KT_F32, 0, rows, 48);
        args.qkv = kt_linear(s, x, part(s, KT_F32, WEIGHT, 96, 48), NULL);
        read_into(s, kt_attention(s, &args), got, (size_t)(rows * 32));
        kt_scope_free(s);
        if (rows == 64)
            before = mapped_mb();
    }
    const long more = mapped_mb() - before;
    if (more > 50)
        fail_msg("320 lengths took %ld MB more", more);
    kt_threads_set(0);
}

/* Memory is taken and given back in every order; no tensor may lie in another's. */
static void tensors_keep_their_values_while_others_come_and_go(void **state)
{
    (void)state;
    enum { SLOTS = 12, TURNS = 400 };
    struct kt_scope *s = kt_scope_new(KT_CPU);
    struct test_random random = {9};
    kt slots[SLOTS] = {NULL};
    int64_t sizes[SLOTS] = {0};
    for (int turn = 0; turn < TURNS; turn++) {
        const int i = (int)test_random_below(&random, SLOTS);
        if (slots[i]) {
            read_into(s, slots[i], got, (size_t)sizes[i]);
            assert_memory_equal(got, noise + i, (size_t)sizes[i] * sizeof *got);
            kt_drop(s, slots[i]);
        }
        sizes[i] = 1000 + (int64_t)test_random_below(&random, 200000);
        slots[i] = part(s, KT_F32, i, sizes[i], 0);
        if (turn % 50 == 49)
            kt_device_trim(KT_CPU);
    }
    kt_scope_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_what_they_say),
        cmocka_unit_test(a_row_has_the_same_bits_with_any_threads_and_neighbours),
        cmocka_unit_test(a_gated_product_has_the_bits_of_its_two_steps),
        cmocka_unit_test(attention_sees_all_rows_or_those_before),
        cmocka_unit_test(attention_takes_many_rows),
        cmocka_unit_test(attention_has_the_same_bits_with_any_threads),
        cmocka_unit_test(many_lengths_need_few_kernels),
        cmocka_unit_test(tensors_keep_their_values_while_others_come_and_go),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
