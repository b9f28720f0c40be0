/* low_rank_codes.c - a LoRA's pair in codes, beside a weight in codes. */
#include "kernels/products/low_rank_codes.h"

#include <math.h>
#include <string.h>

#include "tests/gpu/kernels/twin.h"

#define BETWEEN 0x55 /* what lies between the rows of up_codes */

struct codes_case {
    int64_t n, k, rank, gap; /* gap: behind the rows of up_codes */
    float small;             /* every fifth factor, beside 1/4 .. 5/4 */
    bool odd;                /* with zeros, NaN and infinities in it, and 4 bytes off any border */
};

/* A column of up of zeros, a row of down of zeros, and in other pairs what is no number. */
static void make_odd(const struct codes_case *c, struct twin *up, struct twin *down)
{
    for (int64_t i = 0; i < c->n; i++)
        kiln_store(up->host, i * c->rank, 0, KILN_BF16);
    for (int64_t i = 0; i < c->k; i++)
        kiln_store(down->host, (c->rank - 1) * c->k + i, 0, KILN_BF16);
    kiln_store(up->host, c->rank + 1, NAN, KILN_BF16);
    kiln_store(up->host, 2 * c->rank + 2, INFINITY, KILN_BF16);
    kiln_store(down->host, 3 * c->k, NAN, KILN_BF16);
}

/* Not a byte between the rows of codes has changed. */
static void check_between(const struct codes_case *c, const struct twin *codes)
{
    const int64_t pitch = c->rank + c->gap;
    for (int64_t i = 0; i < c->n * pitch; i++)
        if (i % pitch >= c->rank && codes->back[i] != BETWEEN) {
            complain("up_codes: byte %lld behind row %lld was written",
                     (long long)(i % pitch - c->rank), (long long)(i / pitch));
            return;
        }
}

/* Sums in another order move a value across a rounding border now and then. */
static void check_codes(struct codes_case c)
{
    struct twins set = {.shift = c.odd ? 4 : 0};
    struct test_random random = {(uint64_t)(c.n * c.k + c.rank)};
    struct kiln_error err;
    describe("%lld rows of rank %lld, gaps of %lld, and %lld values; factors of %g%s",
             (long long)c.n, (long long)c.rank, (long long)c.gap, (long long)c.k, (double)c.small,
             c.odd ? "; odd ones" : "");
    struct twin *up = twins_add_bf16(&set, "up", c.n * c.rank, &random, 1);
    struct twin *down = twins_add_bf16(&set, "down", c.rank * c.k, &random, 50);
    struct twin *factor = twins_add(&set, "factor", (size_t)c.n * sizeof(float));
    struct twin *up_codes = twins_add(&set, "up_codes", (size_t)(c.n * (c.rank + c.gap)));
    struct twin *down_codes = twins_add(&set, "down_codes", (size_t)(c.rank * c.k));
    struct twin *scale = twins_add(&set, "down_scale", (size_t)c.rank * sizeof(float));
    for (int64_t i = 0; i < c.n; i++)
        kiln_store(factor->host, i,
                   i % 5 == 4 ? c.small : 0.25f + (float)test_random_below(&random, 1001) / 1000,
                   KILN_F32);
    memset(up_codes->host, BETWEEN, up_codes->bytes);
    if (c.odd)
        make_odd(&c, up, down);
    twins_push(&set);
    struct kiln_low_rank_codes args[2];
    for (int side = 0; side < 2; side++)
        args[side] = (struct kiln_low_rank_codes){.up = twin_side(up, side),
                                                  .down = twin_side(down, side),
                                                  .factor = twin_side(factor, side),
                                                  .up_codes = twin_side(up_codes, side),
                                                  .down_codes = twin_side(down_codes, side),
                                                  .down_scale = twin_side(scale, side),
                                                  .pitch = c.rank + c.gap,
                                                  .n = c.n,
                                                  .k = c.k,
                                                  .rank = c.rank,
                                                  .format = KILN_BF16};
    if (launched(kiln_low_rank_codes_launch(&args[1], NULL, &err), &err)) {
        kiln_low_rank_codes_ref(&args[0], 0, c.rank);
        twins_pull(&set);
        compare_bytes(up_codes, 1, 0.01);
        check_between(&c, up_codes);
        compare_bytes(down_codes, 1, 0.01);
        compare_f32(scale, 1e-5, 0);
        compare_untouched(up), compare_untouched(down), compare_untouched(factor);
    }
    twins_free(&set);
}

static void low_rank_codes(void)
{
    static const int64_t sizes[] = {1, 40, 511, 513, 3840}, ranks[] = {1, 3, 16, 48, 192};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < sizeof ranks / sizeof *ranks; j++)
            check_codes((struct codes_case){.n = sizes[i],
                                            .k = sizes[(i + j) % 5],
                                            .rank = ranks[j],
                                            .gap = (i + j) % 3 ? 40 : 0,
                                            .small = j % 2 ? 1 : 1e-4f});
}

static void low_rank_codes_of_odd_values(void)
{
    for (int i = 0; i < 4; i++)
        check_codes((struct codes_case){.n = i & 1 ? 513 : 40,
                                        .k = i & 2 ? 700 : 64,
                                        .rank = 16,
                                        .gap = 3,
                                        .small = 1e-12f / 448,
                                        .odd = true});
}

/* Of rank 0 there is nothing to be done. */
static void low_rank_codes_refuse(void)
{
    struct kiln_error err;
    uint8_t codes[64];
    float scale;
    const struct kiln_low_rank_codes good = {.up = codes,
                                             .down = codes,
                                             .factor = &scale,
                                             .up_codes = codes,
                                             .down_codes = codes,
                                             .down_scale = &scale,
                                             .pitch = 8,
                                             .n = 4,
                                             .k = 4,
                                             .rank = 0,
                                             .format = KILN_BF16};
    struct kiln_low_rank_codes args = good;
    describe("arguments");
    refused(kiln_low_rank_codes_launch(&args, NULL, &err), KILN_OK, &err);
    args.rank = 9;
    refused(kiln_low_rank_codes_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args = good, args.rank = 8, args.n = 0;
    refused(kiln_low_rank_codes_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args = good, args.rank = 8, args.down_scale = NULL;
    refused(kiln_low_rank_codes_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args = good, args.rank = 8, args.factor = NULL;
    refused(kiln_low_rank_codes_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args = good, args.rank = 8, args.format = KILN_F32;
    refused(kiln_low_rank_codes_launch(&args, NULL, &err), KILN_UNSUPPORTED, &err);
}

const struct kernel_test low_rank_codes_tests[] = {
    {"low_rank_codes", low_rank_codes},
    {"low_rank_codes_of_odd_values", low_rank_codes_of_odd_values},
    {"low_rank_codes_refuse", low_rank_codes_refuse},
    {NULL, NULL},
};
