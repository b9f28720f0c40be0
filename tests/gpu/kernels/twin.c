/* twin.c - see twin.h. */
#include "tests/gpu/kernels/twin.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/fp8.h"

#define GUARD 256
#define GUARD_BYTE 0xA5

/* One unit in the last place of a bf16, as a share of the value. */
#define BF16_UNIT (1.0 / 128)
#define STRAY_SHARE 0.02
/* A row's largest value one unit off moves its scale, and with it one code in sixteen. */
#define STRAY_CODES 0.1

static char place[256]; /* the running case */

/* A device that has failed once fails for good: the case that did it is the last one. */
static void must(cudaError_t code, const char *what)
{
    if (code == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s: %s (%s)\n", place, what, cudaGetErrorName(code),
            cudaGetErrorString(code));
    exit(1);
}

/* --- memory ----------------------------------------------------------------------------------- */

struct twin *twins_add(struct twins *set, const char *what, size_t bytes)
{
    if (set->count == TWINS_MAX) {
        fprintf(stderr, "more than %d twins\n", TWINS_MAX);
        exit(1);
    }
    struct twin *t = &set->list[set->count++];
    *t = (struct twin){.what = what, .bytes = bytes};
    t->host = calloc(1, bytes + 1);
    t->back = calloc(1, bytes + set->shift + 2 * GUARD);
    if (!t->host || !t->back) {
        fprintf(stderr, "no memory for %zu bytes of %s\n", bytes, what);
        exit(1);
    }
    void *raw = NULL;
    must(cudaMalloc(&raw, bytes + set->shift + 2 * GUARD), "cudaMalloc");
    t->raw = raw;
    t->device = t->raw + GUARD + set->shift;
    return t;
}

void twins_push(struct twins *set)
{
    for (int i = 0; i < set->count; i++) {
        struct twin *t = &set->list[i];
        must(cudaMemset(t->raw, GUARD_BYTE, t->bytes + set->shift + 2 * GUARD), "cudaMemset");
        must(cudaMemcpy(t->device, t->host, t->bytes, cudaMemcpyHostToDevice), "to the device");
    }
}

void twins_pull(struct twins *set)
{
    must(cudaDeviceSynchronize(), "the kernel");
    for (int i = 0; i < set->count; i++) {
        struct twin *t = &set->list[i];
        const size_t all = t->bytes + set->shift + 2 * GUARD, before = GUARD + set->shift;
        must(cudaMemcpy(t->back, t->raw, all, cudaMemcpyDeviceToHost), "from the device");
        for (size_t k = 0; k < all; k++)
            if ((k < before || k >= before + t->bytes) && t->back[k] != GUARD_BYTE) {
                complain("%s: byte %lld of %zu was written", t->what,
                         (long long)k - (long long)before, t->bytes);
                break;
            }
        memmove(t->back, t->back + before, t->bytes);
    }
}

void twins_free(struct twins *set)
{
    for (int i = 0; i < set->count; i++) {
        free(set->list[i].host);
        free(set->list[i].back);
        must(cudaFree(set->list[i].raw), "cudaFree");
    }
    set->count = 0;
}

/* --- values ----------------------------------------------------------------------------------- */

static float value_within(struct test_random *random, float size)
{
    return ((float)test_random_below(random, 8001) / 4000.0f - 1.0f) * size;
}

void spoil_gaps(struct twin *t, int64_t n, int64_t pitch)
{
    const uint16_t not_a_number = 0x7fc0;
    for (int64_t i = 0; i < (int64_t)t->bytes / 2; i++)
        if (i % pitch >= n)
            ((uint16_t *)(void *)t->host)[i] = not_a_number;
}

void fill_bf16(struct twin *t, struct test_random *random, float size)
{
    for (size_t i = 0; i < t->bytes / 2; i++)
        kiln_store(t->host, (int64_t)i, value_within(random, size), KILN_BF16);
}

struct twin *twins_add_bf16(struct twins *set, const char *what, int64_t count,
                            struct test_random *random, float size)
{
    struct twin *t = twins_add(set, what, (size_t)count * 2);
    if (random)
        fill_bf16(t, random, size);
    return t;
}

void fill_f32(struct twin *t, struct test_random *random, float size)
{
    for (size_t i = 0; i < t->bytes / 4; i++)
        kiln_store(t->host, (int64_t)i, value_within(random, size), KILN_F32);
}

static bool same(double a, double b)
{
    return a == b || (a != a && b != b);
}

static void compare_values(const struct twin *t, enum kiln_float f, double share, double scale,
                           double stray)
{
    const int64_t count = (int64_t)t->bytes / kiln_float_size(f);
    int64_t other = 0;
    for (int64_t i = 0; i < count; i++) {
        double want = (double)kiln_load(t->host, i, f), got = (double)kiln_load(t->back, i, f);
        if (same(want, got))
            continue;
        other++;
        if (!(fabs(got - want) <= share * (fabs(want) + scale))) {
            complain("%s[%lld]: %.9g, the reference has %.9g", t->what, (long long)i, got, want);
            return;
        }
    }
    if ((double)other > stray * (double)count + 2)
        complain("%s: %lld of %lld values differ from the reference", t->what, (long long)other,
                 (long long)count);
}

void compare_bf16(const struct twin *t, int stages, float scale)
{
    compare_values(t, KILN_BF16, stages * BF16_UNIT, (double)scale, STRAY_SHARE);
}

void compare_f32(const struct twin *t, double share, double scale)
{
    compare_values(t, KILN_F32, share, scale, 1.0);
}

void compare_e4m3(const struct twin *codes, const struct twin *scales, int64_t n, int stages,
                  float scale)
{
    const double before = stages * BF16_UNIT;
    int64_t other = 0;
    for (int64_t i = 0; i < (int64_t)codes->bytes; i++) {
        const double want_scale = (double)kiln_load(scales->host, i / n, KILN_F32);
        const double got_scale = (double)kiln_load(scales->back, i / n, KILN_F32);
        if (!same(want_scale, got_scale) &&
            !(fabs(got_scale - want_scale) <= BF16_UNIT * want_scale)) {
            complain("%s[%lld]: %.9g, the reference has %.9g", scales->what, (long long)(i / n),
                     got_scale, want_scale);
            return;
        }
        const double want = (double)kiln_from_e4m3(codes->host[i]) * want_scale;
        const double got = (double)kiln_from_e4m3(codes->back[i]) * got_scale;
        other += codes->host[i] != codes->back[i];
        const double step = fabs(want) / 8 + want_scale / 512;
        if (!same(want, got) &&
            !(fabs(got - want) <= step + before * (fabs(want) + (double)scale))) {
            complain("%s[%lld]: %.9g, the reference has %.9g", codes->what, (long long)i, got,
                     want);
            return;
        }
    }
    if ((double)other > STRAY_CODES * (double)codes->bytes + 2)
        complain("%s: %lld of %zu codes differ from the reference", codes->what, (long long)other,
                 codes->bytes);
}

void compare_bytes(const struct twin *t, int step, double stray)
{
    size_t other = 0;
    for (size_t i = 0; i < t->bytes; i++) {
        other += t->host[i] != t->back[i];
        if (abs(t->host[i] - t->back[i]) > step) {
            complain("%s[%zu]: %d, the reference has %d", t->what, i, t->back[i], t->host[i]);
            return;
        }
    }
    if ((double)other > stray * (double)t->bytes)
        complain("%s: %zu of %zu bytes differ from the reference", t->what, other, t->bytes);
}

void compare_untouched(const struct twin *t)
{
    if (memcmp(t->host, t->back, t->bytes) != 0)
        complain("%s: an operand was changed", t->what);
}

/* `count` rows from `from` on are those of `all`; the others are as they were pushed. */
static void compare_some_rows(const struct twin *t, const unsigned char *all, int64_t row_bytes,
                              int64_t from, int64_t count)
{
    const size_t bytes = (size_t)row_bytes;
    for (int64_t row = 0; row < (int64_t)(t->bytes / bytes); row++) {
        const bool asked = row >= from && row < from + count;
        const size_t at = (size_t)row * bytes;
        if (memcmp(t->back + at, (asked ? all : t->host) + at, bytes) != 0) {
            complain("row %lld of %lld from %lld on %s", (long long)row, (long long)count,
                     (long long)from, asked ? "is another alone" : "was written");
            return;
        }
    }
}

void compare_company(struct twins *set, const struct twin *t, int64_t row_bytes,
                     const int64_t *counts, size_t count, launch_rows *launch,
                     const void *test_case)
{
    const int64_t rows = (int64_t)t->bytes / row_bytes;
    unsigned char *all = malloc(t->bytes);
    twins_push(set);
    if (all && launch(test_case, 0, rows)) {
        twins_pull(set);
        memcpy(all, t->back, t->bytes);
        for (size_t i = 0; i < count; i++) {
            const int64_t from = i % 2 ? rows - counts[i] : 37;
            twins_push(set);
            if (!launch(test_case, from, counts[i]))
                break;
            twins_pull(set);
            compare_some_rows(t, all, row_bytes, from, counts[i]);
        }
    }
    free(all);
}

/* --- running ---------------------------------------------------------------------------------- */

static int complaints;

void describe(const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    vsnprintf(place, sizeof place, fmt, list);
    va_end(list);
}

void complain(const char *fmt, ...)
{
    complaints++;
    if (complaints > 10)
        return; /* one wrong kernel fails in every shape */
    va_list list;
    va_start(list, fmt);
    printf("  %s: ", place);
    vprintf(fmt, list);
    printf("\n");
    va_end(list);
}

bool launched(int code, const struct kiln_error *err)
{
    if (code != KILN_OK)
        complain("not launched: %s", err->text);
    return code == KILN_OK;
}

void refused(int code, int want, const struct kiln_error *err)
{
    if (code != want)
        complain("%s instead of %s", code ? err->text : "launched", kiln_code_name(want));
}

static bool is_hopper(void)
{
#ifdef KILN_HOST_CUDA_RUNTIME_API_H
    return false;
#else
    int major = 0, minor = 0;
    return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess &&
           cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0) == cudaSuccess &&
           major == 9 && minor == 0;
#endif
}

bool launched_on_hopper(int code, const struct kiln_error *err)
{
    if (is_hopper())
        return launched(code, err);
    refused(code, KILN_UNSUPPORTED, err);
    return false;
}

int run_tests(const struct kernel_test *tests, const char *filter, int *ran)
{
    int failed = 0;
    for (; tests->name; tests++) {
        if (!strstr(tests->name, filter))
            continue;
        ++*ran;
        printf("[ RUN      ] %s\n", tests->name);
        fflush(stdout);
        complaints = 0;
        describe("%s", tests->name);
        tests->run();
        if (complaints > 10)
            printf("  and %d more\n", complaints - 10);
        printf(complaints ? "[  FAILED  ] %s\n" : "[       OK ] %s\n", tests->name);
        failed += complaints > 0;
    }
    return failed;
}
