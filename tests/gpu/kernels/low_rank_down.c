/* low_rank_down.c - the first half of a LoRA, where the card has the kernel. */
#include <math.h>

#include "kernels/fp8.h"
#include "kernels/products/low_rank_down.h"
#include "tests/gpu/kernels/twin.h"

struct down_case {
    struct twins set;
    struct twin *x, *down, *factor, *lora; /* factor may be NULL; lora may be x */
    int64_t rows, k, rank;
    int64_t gap; /* behind the rows, a multiple of 16: NaN, which sums would show and which stays */
    bool e4m3;   /* codes, not bf16 */
    bool behind; /* lora has its place behind the rows of x, also NaN before */
    bool factors; /* other than 1 */
};

static int64_t x_pitch(const struct down_case *c)
{
    return c->k + c->gap + (c->behind ? c->rank : 0);
}

static int64_t lora_pitch(const struct down_case *c)
{
    return c->behind ? x_pitch(c) : c->rank + c->gap;
}

/* --- operands --------------------------------------------------------------------------------- */

static struct twin *add_rows(struct down_case *c, const char *what, int64_t rows, int64_t pitch)
{
    return twins_add(&c->set, what, (size_t)(rows * pitch * (c->e4m3 ? 1 : 2)));
}

static void fill_codes(struct twin *t, struct test_random *random, float size)
{
    for (size_t i = 0; i < t->bytes; i++)
        t->host[i] = kiln_to_e4m3(((float)test_random_below(random, 8001) / 4000.0f - 1.0f) * size);
}

/* -4 .. 4, whose sums are exact on the tensor cores, in any order. */
static void fill_whole(const struct down_case *c, struct twin *t, struct test_random *random)
{
    for (int64_t i = 0; i < (int64_t)t->bytes / (c->e4m3 ? 1 : 2); i++) {
        const float value = (float)test_random_below(random, 9) - 4.0f;
        if (c->e4m3)
            t->host[i] = kiln_to_e4m3(value);
        else
            kiln_store(t->host, i, value, KILN_BF16);
    }
}

/* Two codes are one bf16 of it: the upper byte of its NaN is a NaN, too. */
static void spoil(const struct down_case *c, struct twin *t, int64_t n, int64_t pitch)
{
    const int64_t share = c->e4m3 ? 2 : 1;
    spoil_gaps(t, n / share, pitch / share);
}

/* Of whole numbers, or without `whole` of any, with sums of about unit size. */
static void make_case(struct down_case *c, struct test_random *random, bool whole)
{
    c->x = add_rows(c, "x", c->rows, x_pitch(c));
    c->down = add_rows(c, "down", c->rank, c->k);
    c->lora = c->behind ? c->x : add_rows(c, "lora", c->rows, lora_pitch(c));
    if (c->factors) {
        c->factor = twins_add(&c->set, "factor", (size_t)c->rank * sizeof(float));
        fill_f32(c->factor, random, whole ? 2 : 1 / sqrtf((float)c->k));
    }
    if (whole) {
        fill_whole(c, c->x, random), fill_whole(c, c->down, random);
    } else if (c->e4m3) {
        fill_codes(c->x, random, 2), fill_codes(c->down, random, 2);
    } else {
        fill_bf16(c->x, random, 2), fill_bf16(c->down, random, 2);
    }
    spoil(c, c->x, c->k, x_pitch(c));
    if (!c->behind)
        spoil(c, c->lora, 0, lora_pitch(c));
}

static struct kiln_low_rank_down down_args(const struct down_case *c, bool device)
{
    struct kiln_low_rank_down args = {.x = twin_side(c->x, device),
                                      .down = twin_side(c->down, device),
                                      .factor = twin_side(c->factor, device),
                                      .lora = twin_side(c->lora, device),
                                      .x_pitch = x_pitch(c),
                                      .lora_pitch = lora_pitch(c),
                                      .k = c->k,
                                      .rank = c->rank,
                                      .format = KILN_BF16,
                                      .e4m3 = c->e4m3};
    if (c->behind)
        args.lora = (char *)args.lora + c->k * (c->e4m3 ? 1 : 2);
    return args;
}

static void describe_case(const struct down_case *c)
{
    describe("%lld rows of %lld %s to %lld%s%s, gaps of %lld", (long long)c->rows, (long long)c->k,
             c->e4m3 ? "codes" : "bf16", (long long)c->rank, c->behind ? " behind them" : "",
             c->factors ? ", factors" : "", (long long)c->gap);
}

static bool down_launched(const struct kiln_low_rank_down *args, int64_t rows)
{
    struct kiln_error err;
    return launched_on_hopper(kiln_low_rank_down_launch(args, rows, NULL, &err), &err);
}

/* --- against the reference -------------------------------------------------------------------- */

/* Sums that are exact come out the same to the bit, and nothing else changes. */
static bool check_down(struct down_case c)
{
    struct test_random random = {(uint64_t)(c.rows * c.rank + c.k)};
    describe_case(&c);
    make_case(&c, &random, true);
    twins_push(&c.set);
    const struct kiln_low_rank_down host = down_args(&c, false), device = down_args(&c, true);
    const bool runs = down_launched(&device, c.rows);
    if (runs) {
        kiln_low_rank_down_ref(&host, 0, c.rows);
        twins_pull(&c.set);
        for (int i = 0; i < c.set.count; i++)
            compare_bytes(&c.set.list[i], 0, 0);
    }
    twins_free(&c.set);
    return runs;
}

static void low_rank_down(void)
{
    static const int64_t ranks[] = {16, 32, 48, 64, 80, 96, 112, 128, 144, 192};
    static const int64_t heights[] = {1, 127, 128, 129, 300}, depths[] = {64, 128 + 16, 3840};
    for (int form = 0; form < 2; form++)
        for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
            for (size_t j = 0; j < sizeof heights / sizeof *heights; j++)
                check_down((struct down_case){.rows = heights[j],
                                              .k = depths[(i + j) % 3],
                                              .rank = ranks[i],
                                              .gap = (i + j) % 4 ? 16 : 0,
                                              .e4m3 = form,
                                              .behind = (i + j) % 2,
                                              .factors = j % 3});
    check_down((struct down_case){.rows = 3, .k = 8, .rank = 16});
    check_down((struct down_case){.rows = 3, .k = 16, .rank = 16, .e4m3 = true});
}

/* As a step has them, and more tiles than a device holds at once. */
static void low_rank_down_of_many_rows(void)
{
    static const int64_t shapes[][3] = {
        {1152, 3840, 48}, {1152, 10240, 16}, {4224, 3840, 48}, {4224, 10240, 16}, {16896, 144, 32},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int form = 0; form < 2; form++)
            if (!check_down((struct down_case){.rows = shapes[i][0],
                                               .k = shapes[i][1],
                                               .rank = shapes[i][2],
                                               .e4m3 = form,
                                               .behind = true,
                                               .factors = true}))
                return;
}

/* Sums that depend on their order.  A code may be its neighbour; the device's sums are good to 13
 * bits of their largest term. */
static void check_rounding(struct down_case c)
{
    struct test_random random = {(uint64_t)(c.rank + c.k)};
    describe_case(&c);
    make_case(&c, &random, false);
    struct twin *ones = twins_add(&c.set, "ones", (size_t)c.rows * sizeof(float));
    for (int64_t i = 0; i < c.rows; i++)
        kiln_store(ones->host, i, 1, KILN_F32);
    twins_push(&c.set);
    const struct kiln_low_rank_down host = down_args(&c, false), device = down_args(&c, true);
    if (down_launched(&device, c.rows)) {
        kiln_low_rank_down_ref(&host, 0, c.rows);
        twins_pull(&c.set);
        if (c.e4m3)
            compare_e4m3(c.lora, ones, lora_pitch(&c), 1, 1);
        else
            compare_bf16(c.lora, 1, 1.0f / 16);
    }
    twins_free(&c.set);
}

static void low_rank_down_rounds(void)
{
    static const int64_t depths[] = {64, 144, 3840};
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
        for (int form = 0; form < 2; form++)
            check_rounding((struct down_case){
                .rows = 300, .k = depths[i], .rank = 48, .e4m3 = form, .factors = true});
}

/* --- in company, and refused ------------------------------------------------------------------ */

static bool launch_some(const void *test_case, int64_t from, int64_t count)
{
    const struct down_case *c = test_case;
    struct kiln_low_rank_down args = down_args(c, true);
    const int64_t bytes = c->e4m3 ? 1 : 2;
    args.x = (const char *)args.x + from * args.x_pitch * bytes;
    args.lora = (char *)args.lora + from * args.lora_pitch * bytes;
    return down_launched(&args, count);
}

static void low_rank_down_of_rows_in_company(void)
{
    static const int64_t counts[] = {1, 17, 128, 200, 256}, ranks[] = {16, 48, 192};
    for (int form = 0; form < 2; form++)
        for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
            struct down_case c = {.rows = 300,
                                  .k = 1040,
                                  .rank = ranks[i],
                                  .e4m3 = form,
                                  .behind = true,
                                  .factors = true};
            struct test_random random = {1};
            describe("300 rows and fewer, %s to %lld", form ? "codes" : "bf16", (long long)c.rank);
            make_case(&c, &random, false);
            compare_company(&c.set, c.x, x_pitch(&c) * (form ? 1 : 2), counts,
                            sizeof counts / sizeof *counts, launch_some, &c);
            twins_free(&c.set);
        }
}

static void low_rank_down_refuses(void)
{
    static const struct {
        int64_t x_pitch, lora_pitch, k, rank;
        size_t x_shift, lora_shift;
        int e4m3, want;
    } shapes[] = {
        {56, 16, 64, 16, 0, 0, 0, KILN_BAD_INPUT},   {64, 8, 64, 16, 0, 0, 0, KILN_BAD_INPUT},
        {64, 16, 0, 16, 0, 0, 0, KILN_BAD_INPUT},    {64, 16, 64, 0, 0, 0, 0, KILN_BAD_INPUT},
        {64, 24, 64, 24, 0, 0, 0, KILN_UNSUPPORTED}, {64, 208, 64, 208, 0, 0, 0, KILN_UNSUPPORTED},
        {68, 16, 64, 16, 0, 0, 0, KILN_UNSUPPORTED}, {64, 20, 64, 16, 0, 0, 0, KILN_UNSUPPORTED},
        {64, 16, 60, 16, 0, 0, 0, KILN_UNSUPPORTED}, {72, 16, 64, 16, 0, 0, 1, KILN_UNSUPPORTED},
        {64, 24, 64, 16, 0, 0, 1, KILN_UNSUPPORTED}, {64, 16, 56, 16, 0, 0, 1, KILN_UNSUPPORTED},
        {64, 16, 64, 16, 8, 0, 0, KILN_UNSUPPORTED}, {64, 16, 64, 16, 0, 2, 0, KILN_UNSUPPORTED},
    };
    struct down_case c = {.rows = 1, .k = 80, .rank = 208};
    struct kiln_error err;
    struct test_random random = {1};
    make_case(&c, &random, true);
    twins_push(&c.set);
    const struct kiln_low_rank_down good = down_args(&c, true);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct kiln_low_rank_down args = good;
        describe("shape %d", (int)i);
        args.x_pitch = shapes[i].x_pitch, args.lora_pitch = shapes[i].lora_pitch;
        args.k = shapes[i].k, args.rank = shapes[i].rank, args.e4m3 = shapes[i].e4m3;
        args.x = (const char *)args.x + shapes[i].x_shift;
        args.lora = (char *)args.lora + shapes[i].lora_shift;
        refused(kiln_low_rank_down_launch(&args, 1, NULL, &err), shapes[i].want, &err);
    }
    struct kiln_low_rank_down args = good;
    args.rank = 16;
    describe("rows");
    refused(kiln_low_rank_down_launch(&args, 0, NULL, &err), KILN_OK, &err);
    refused(kiln_low_rank_down_launch(&args, -1, NULL, &err), KILN_BAD_INPUT, &err);
    refused(kiln_low_rank_down_launch(&args, (int64_t)1 << 40, NULL, &err), KILN_UNSUPPORTED, &err);
    args.format = KILN_F32;
    refused(kiln_low_rank_down_launch(&args, 1, NULL, &err), KILN_UNSUPPORTED, &err);
    args.down = NULL;
    refused(kiln_low_rank_down_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
    twins_pull(&c.set);
    twins_free(&c.set);
}

const struct kernel_test low_rank_down_tests[] = {
    {"low_rank_down", low_rank_down},
    {"low_rank_down_of_many_rows", low_rank_down_of_many_rows},
    {"low_rank_down_rounds", low_rank_down_rounds},
    {"low_rank_down_of_rows_in_company", low_rank_down_of_rows_in_company},
    {"low_rank_down_refuses", low_rank_down_refuses},
    {NULL, NULL},
};
