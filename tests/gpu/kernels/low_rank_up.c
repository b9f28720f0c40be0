/* low_rank_up.c - the second half of a LoRA, onto rows in place. */
#include <string.h>

#include "kernels/low_rank_up.h"
#include "tests/gpu/kernels/twin.h"

struct up_case {
    struct twins set;
    struct twin *y, *low, *up;
    int64_t rows, n, rank, parts,
        gap; /* between the rows of y and of low: numbers there, here NaN */
};

static void make_case(struct up_case *c, struct test_random *random)
{
    const int64_t width = c->rank * c->parts, low_pitch = width + c->gap;
    c->y = twins_add_bf16(&c->set, "y", c->rows * (c->n + c->gap), random, 4);
    c->low = twins_add_bf16(&c->set, "low", c->rows * low_pitch, random, 1);
    c->up = twins_add_bf16(&c->set, "up", c->n * width, random, 1);
    spoil_gaps(c->low, width, low_pitch);
}

static struct kiln_low_rank_up up_args(const struct up_case *c, bool device)
{
    return (struct kiln_low_rank_up){.y = twin_side(c->y, device),
                                     .pitch = c->n + c->gap,
                                     .low = twin_side(c->low, device),
                                     .low_pitch = c->rank * c->parts + c->gap,
                                     .up = twin_side(c->up, device),
                                     .n = c->n,
                                     .rank = c->rank,
                                     .parts = c->parts,
                                     .format = KILN_BF16};
}

/* What lies between the rows of y is as it was. */
static void compare_gaps(const struct up_case *c)
{
    const int64_t pitch = c->n + c->gap;
    for (int64_t row = 0; row < c->rows; row++)
        if (memcmp(c->y->host + (row * pitch + c->n) * 2, c->y->back + (row * pitch + c->n) * 2,
                   (size_t)c->gap * 2) != 0) {
            complain("y: what follows row %lld was written", (long long)row);
            return;
        }
}

static void check_up(int64_t rows, int64_t n, int64_t rank, int64_t parts, int64_t gap)
{
    struct up_case c = {.rows = rows, .n = n, .rank = rank, .parts = parts, .gap = gap};
    struct test_random random = {(uint64_t)(rows * n + rank)};
    struct kiln_error err;
    describe("%lld rows of %lld, %lld of rank %lld, gaps of %lld", (long long)rows, (long long)n,
             (long long)parts, (long long)rank, (long long)gap);
    make_case(&c, &random);
    twins_push(&c.set);
    const struct kiln_low_rank_up host = up_args(&c, false), device = up_args(&c, true);
    if (launched(kiln_low_rank_up_launch(&device, rows, NULL, &err), &err)) {
        kiln_low_rank_up_ref(&host, 0, rows);
        twins_pull(&c.set);
        /* `rank` products of a quarter on average; each sum may lose 2^-23 of what they come to. */
        compare_bf16(c.y, 1, (float)(rank * rank) / 4 * 0x1p-23f * 128);
        compare_gaps(&c);
        compare_untouched(c.low);
        compare_untouched(c.up);
    }
    twins_free(&c.set);
}

static void low_rank_up(void)
{
    static const int64_t ranks[] = {16, 32, 48, 64};
    static const int64_t heights[] = {1, 17, 130};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        for (size_t k = 0; k < sizeof heights / sizeof *heights; k++)
            check_up(heights[k], 32 + 32 * (int64_t)(i % 3), ranks[i], 1, k % 2 ? 24 : 0);
    check_up(33, 288, 48, 1, 8); /* more columns than a block has */
    check_up(33, 288, 16, 3, 8); /* parts that end within a block */
    check_up(20, 64, 64, 2, 0);
}

static bool launch_some(const void *test_case, int64_t from, int64_t count)
{
    struct kiln_low_rank_up args = up_args(test_case, true);
    struct kiln_error err;
    args.y = (uint16_t *)args.y + from * args.pitch;
    args.low = (const uint16_t *)args.low + from * args.low_pitch;
    return launched(kiln_low_rank_up_launch(&args, count, NULL, &err), &err);
}

static void check_company(int64_t n, int64_t rank)
{
    static const int64_t counts[] = {1, 17, 64, 65, 200};
    struct up_case c = {.rows = 300, .n = n, .rank = rank, .parts = 1, .gap = 8};
    struct test_random random = {(uint64_t)(n + rank)};
    describe("300 rows of %lld and fewer, rank %lld", (long long)n, (long long)rank);
    make_case(&c, &random);
    compare_company(&c.set, c.y, 2 * (c.n + c.gap), counts, sizeof counts / sizeof *counts,
                    launch_some, &c);
    twins_free(&c.set);
}

static void low_rank_up_of_rows_in_company(void)
{
    check_company(64, 16);
    check_company(288, 48);
    check_company(32, 64);
}

static void low_rank_up_refuses(void)
{
    static const struct {
        int64_t pitch, low_pitch, n, rank, parts;
        size_t shift;
        int want;
    } shapes[] = {
        {32, 16, 32, 16, 1, 0, KILN_OK},          {24, 16, 32, 16, 1, 0, KILN_BAD_INPUT},
        {32, 8, 32, 16, 1, 0, KILN_BAD_INPUT},    {32, 16, 0, 16, 1, 0, KILN_BAD_INPUT},
        {32, 16, 32, 0, 1, 0, KILN_BAD_INPUT},    {32, 16, 32, 16, 0, 0, KILN_BAD_INPUT},
        {64, 48, 64, 16, 3, 0, KILN_BAD_INPUT},   {64, 31, 64, 16, 2, 0, KILN_BAD_INPUT},
        {32, 32, 32, 16, 2, 0, KILN_UNSUPPORTED}, {36, 16, 32, 16, 1, 0, KILN_UNSUPPORTED},
        {32, 20, 32, 16, 1, 0, KILN_UNSUPPORTED}, {32, 16, 24, 16, 1, 0, KILN_UNSUPPORTED},
        {32, 24, 32, 24, 1, 0, KILN_UNSUPPORTED}, {32, 16, 32, 16, 1, 8, KILN_UNSUPPORTED},
        {32, 80, 32, 80, 1, 0, KILN_UNSUPPORTED},
    };
    struct up_case c = {.rows = 1, .n = 64, .rank = 80, .parts = 1};
    struct kiln_error err;
    make_case(&c, NULL);
    twins_push(&c.set);
    const struct kiln_low_rank_up good = up_args(&c, true);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct kiln_low_rank_up args = good;
        describe("shape %d", (int)i);
        args.pitch = shapes[i].pitch, args.low_pitch = shapes[i].low_pitch;
        args.n = shapes[i].n, args.rank = shapes[i].rank, args.parts = shapes[i].parts;
        args.low = (const char *)args.low + shapes[i].shift;
        refused(kiln_low_rank_up_launch(&args, 1, NULL, &err), shapes[i].want, &err);
    }
    struct kiln_low_rank_up args = good;
    args.rank = args.low_pitch = 16;
    describe("rows");
    refused(kiln_low_rank_up_launch(&args, 0, NULL, &err), KILN_OK, &err);
    refused(kiln_low_rank_up_launch(&args, -1, NULL, &err), KILN_BAD_INPUT, &err);
    refused(kiln_low_rank_up_launch(&args, (int64_t)1 << 40, NULL, &err), KILN_UNSUPPORTED, &err);
    args.format = KILN_F32;
    refused(kiln_low_rank_up_launch(&args, 1, NULL, &err), KILN_UNSUPPORTED, &err);
    args.up = NULL;
    refused(kiln_low_rank_up_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
    twins_pull(&c.set);
    twins_free(&c.set);
}

const struct kernel_test low_rank_up_tests[] = {
    {"low_rank_up", low_rank_up},
    {"low_rank_up_of_rows_in_company", low_rank_up_of_rows_in_company},
    {"low_rank_up_refuses", low_rank_up_refuses},
    {NULL, NULL},
};
