/* low_rank_down.c - rows times the first half of a LoRA, written behind them. */
#include "kernels/low_rank_down.h"

#include <math.h>
#include <string.h>

#include "tests/gpu/kernels/twin.h"

/* Values between the end of a row and the next one. */
#define GAP 8

struct low_case {
    struct twins set;
    struct twin *x, *down;
    int64_t rows, n, rank;
};

static void make_low(struct low_case *c)
{
    struct test_random random = {(uint64_t)(c->n * KILN_LOW_RANK_MAX + c->rank)};
    c->x = twins_add_bf16(&c->set, "x", c->rows * (c->n + c->rank + GAP), &random, 1);
    c->down = twins_add_bf16(&c->set, "down", c->rank * c->n, &random, 1);
    twins_push(&c->set);
}

static struct kiln_low_rank_down low_args(const struct low_case *c, bool device)
{
    return (struct kiln_low_rank_down){.x = twin_side(c->x, device),
                                       .pitch = c->n + c->rank + GAP,
                                       .down = twin_side(c->down, device),
                                       .n = c->n,
                                       .rank = c->rank,
                                       .format = KILN_BF16};
}

/* Takes low out of both sides of the rows, which leaves what must be equal there. */
static struct twin *take_low(struct low_case *c)
{
    struct twin *low = twins_add_bf16(&c->set, "low", c->rows * c->rank, NULL, 0);
    const size_t bytes = (size_t)c->rank * 2;
    for (int64_t row = 0; row < c->rows; row++) {
        const int64_t at = (row * (c->n + c->rank + GAP) + c->n) * 2, to = row * c->rank * 2;
        memcpy(low->host + to, c->x->host + at, bytes);
        memcpy(low->back + to, c->x->back + at, bytes);
        memset(c->x->host + at, 0, bytes);
        memset(c->x->back + at, 0, bytes);
    }
    return low;
}

/* Products of values within -1 .. 1 have the size 1/3, so no sum of n on its way is beyond
 * 2 sqrt(n), six times what is usual.  An addition is off by 2^-23 of that at most; there are as
 * many as columns where each is added alone, and fewer where four or more are at once. */
static void compare_low(struct low_case *c)
{
    const float n = (float)c->n, off = (n / 4 + 8) * 2 * sqrtf(n) / (1 << 23);
    const struct twin *low = take_low(c);
    compare_bf16(low, 1, off * 128);
    compare_bytes(c->x, 0, 0); /* x, and the gaps */
    compare_untouched(c->down);
}

static void check_low(int64_t rows, int64_t n, int64_t rank)
{
    struct low_case c = {.rows = rows, .n = n, .rank = rank};
    struct kiln_error err;
    describe("%lld rows of %lld, rank %lld", (long long)rows, (long long)n, (long long)rank);
    make_low(&c);
    const struct kiln_low_rank_down host = low_args(&c, false), device = low_args(&c, true);
    if (launched(kiln_low_rank_down_launch(&device, rows, NULL, &err), &err)) {
        kiln_low_rank_down_ref(&host, 0, rows);
        twins_pull(&c.set);
        compare_low(&c);
    }
    twins_free(&c.set);
}

static void low_rank_down(void)
{
    static const int64_t widths[] = {32, 64, 288, 1536, 3840, 10240};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        check_low(widths[i] < 2000 ? 65 : 3, widths[i], 16);
    check_low(17, 3840, 48);
}

static void low_rank_down_of_every_rank(void)
{
    for (int64_t rank = 16; rank <= KILN_LOW_RANK_MAX; rank += 16)
        check_low(129, 96, rank);
}

/* So many rows that tiles are large, on a device as well. */
static int64_t rows_of_many(void)
{
    return processors() * 32 + 1;
}

static void low_rank_down_of_many_rows(void)
{
    check_low(rows_of_many(), 288, 48);
    check_low(rows_of_many(), 256, 144);
}

/* The rows from `first` on give the same bits in other company. */
static void check_company(const struct low_case *c, int64_t first, int64_t rows)
{
    struct low_case some = {.rows = rows, .n = c->n, .rank = c->rank};
    struct kiln_error err;
    const int64_t pitch = (c->n + c->rank + GAP) * 2;
    describe("%lld rows from %lld of %lld, rank %lld", (long long)rows, (long long)first,
             (long long)c->rows, (long long)c->rank);
    make_low(&some);
    memcpy(some.down->host, c->down->host, c->down->bytes);
    memcpy(some.x->host, c->x->host + first * pitch, (size_t)(rows * pitch));
    twins_push(&some.set);
    const struct kiln_low_rank_down args = low_args(&some, true);
    if (launched(kiln_low_rank_down_launch(&args, rows, NULL, &err), &err)) {
        twins_pull(&some.set);
        if (memcmp(some.x->back, c->x->back + first * pitch, (size_t)(rows * pitch)) != 0)
            complain("other bits than among more rows");
    }
    twins_free(&some.set);
}

static void check_rows_agree(int64_t all, int64_t n, int64_t rank)
{
    static const int64_t counts[] = {1, 17, 64, 65, 200};
    struct low_case c = {.rows = all, .n = n, .rank = rank};
    struct kiln_error err;
    describe("%lld rows of %lld, rank %lld", (long long)all, (long long)n, (long long)rank);
    make_low(&c);
    const struct kiln_low_rank_down args = low_args(&c, true);
    if (launched(kiln_low_rank_down_launch(&args, all, NULL, &err), &err)) {
        twins_pull(&c.set);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            if (counts[i] <= all) {
                check_company(&c, 0, counts[i]);
                check_company(&c, all - counts[i], counts[i]);
            }
    }
    twins_free(&c.set);
}

static void low_rank_down_in_company(void)
{
    check_rows_agree(300, 320, 16);
    check_rows_agree(rows_of_many(), 320, 48);
    check_rows_agree(rows_of_many(), 64, 192);
}

static void low_rank_down_refuses(void)
{
    struct kiln_error err;
    _Alignas(16) uint16_t memory[8] = {0};
    const struct kiln_low_rank_down good = {
        .x = memory, .pitch = 64, .down = memory, .n = 32, .rank = 16, .format = KILN_BF16};
    struct kiln_low_rank_down bad = good;
    refused(kiln_low_rank_down_launch(&good, 0, NULL, &err), KILN_OK, &err);
    refused(kiln_low_rank_down_launch(&good, -1, NULL, &err), KILN_BAD_INPUT, &err);
    refused(kiln_low_rank_down_launch(&good, (int64_t)1 << 40, NULL, &err), KILN_UNSUPPORTED, &err);
    bad.rank = 0;
    refused(kiln_low_rank_down_launch(&bad, 1, NULL, &err), KILN_BAD_INPUT, &err);
    bad.rank = 24;
    refused(kiln_low_rank_down_launch(&bad, 1, NULL, &err), KILN_UNSUPPORTED, &err);
    bad.rank = 40; /* no room for it */
    refused(kiln_low_rank_down_launch(&bad, 1, NULL, &err), KILN_BAD_INPUT, &err);
    bad = good, bad.rank = KILN_LOW_RANK_MAX + 16, bad.pitch = 512;
    refused(kiln_low_rank_down_launch(&bad, 1, NULL, &err), KILN_UNSUPPORTED, &err);
    bad = good, bad.n = 40;
    refused(kiln_low_rank_down_launch(&bad, 1, NULL, &err), KILN_UNSUPPORTED, &err);
    bad = good, bad.pitch = 68;
    refused(kiln_low_rank_down_launch(&bad, 1, NULL, &err), KILN_UNSUPPORTED, &err);
    bad = good, bad.down = memory + 4;
    refused(kiln_low_rank_down_launch(&bad, 1, NULL, &err), KILN_UNSUPPORTED, &err);
    bad = good, bad.down = NULL;
    refused(kiln_low_rank_down_launch(&bad, 1, NULL, &err), KILN_BAD_INPUT, &err);
    bad = good, bad.format = KILN_F32;
    refused(kiln_low_rank_down_launch(&bad, 1, NULL, &err), KILN_UNSUPPORTED, &err);
}

const struct kernel_test low_rank_down_tests[] = {
    {"low_rank_down", low_rank_down},
    {"low_rank_down_of_every_rank", low_rank_down_of_every_rank},
    {"low_rank_down_of_many_rows", low_rank_down_of_many_rows},
    {"low_rank_down_in_company", low_rank_down_in_company},
    {"low_rank_down_refuses", low_rank_down_refuses},
    {NULL, NULL},
};
