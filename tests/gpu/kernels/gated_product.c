/* gated_product.c - the products of a gate and what becomes of them, where the card has the kernel.
 */
#include <math.h>

#include "kernels/products/gated_product.h"
#include "kernels/products/low_rank_down.h"
#include "tests/gpu/kernels/twin.h"

struct gate_case {
    struct twins set;
    struct twin *x, *weight, *y;
    struct twin *down, *lora, *parts; /* of a rank other than 0 */
    int64_t rows, k, n, rank;
    int64_t gap; /* between the rows of all: NaN, which the sums would show */
};

/* Sums of about unit size whatever k is. */
static void make_case(struct gate_case *c, struct test_random *random)
{
    const int64_t k_pitch = c->k + c->gap, pitch = c->n + c->gap;
    c->x = twins_add_bf16(&c->set, "x", c->rows * k_pitch, random, 1);
    c->weight =
        twins_add_bf16(&c->set, "weight", 2 * c->n * k_pitch, random, 4 / sqrtf((float)c->k));
    c->y = twins_add_bf16(&c->set, "y", c->rows * pitch, random, 1);
    spoil_gaps(c->x, c->k, k_pitch);
    spoil_gaps(c->weight, c->k, k_pitch);
    spoil_gaps(c->y, c->n, pitch);
    if (c->rank == 0)
        return;
    c->down = twins_add_bf16(&c->set, "down", c->rank * c->n, random, 8 / sqrtf((float)c->n));
    c->lora = twins_add_bf16(&c->set, "lora", c->rows * (c->rank + c->gap), random, 1);
    c->parts = twins_add(&c->set, "parts", sizeof(float) * (size_t)KILN_GATED_PARTS(c->rows, c->n));
    spoil_gaps(c->lora, 0, c->rank + c->gap);
}

static struct kiln_gated_product gate_args(const struct gate_case *c, bool device)
{
    return (struct kiln_gated_product){.x = twin_side(c->x, device),
                                       .weight = twin_side(c->weight, device),
                                       .y = twin_side(c->y, device),
                                       .x_pitch = c->k + c->gap,
                                       .weight_pitch = c->k + c->gap,
                                       .pitch = c->n + c->gap,
                                       .n = c->n,
                                       .k = c->k,
                                       .format = KILN_BF16,
                                       .rank = c->rank,
                                       .down = twin_side(c->down, device),
                                       .lora = twin_side(c->lora, device),
                                       .lora_pitch = c->rank + c->gap,
                                       .parts = twin_side(c->parts, device)};
}

static bool gate_launched(const struct kiln_gated_product *args, int64_t rows)
{
    struct kiln_error err;
    return launched_on_hopper(kiln_gated_product_launch(args, rows, NULL, &err), &err);
}

/* Of y as the device has stored it. */
static void check_low(const struct gate_case *c)
{
    const struct kiln_low_rank_down want = {.x = c->y->back,
                                            .down = c->down->host,
                                            .lora = c->lora->host,
                                            .x_pitch = c->n + c->gap,
                                            .lora_pitch = c->rank + c->gap,
                                            .k = c->n,
                                            .rank = c->rank,
                                            .format = KILN_BF16};
    kiln_low_rank_down_ref(&want, 0, c->rows);
    compare_bf16(c->lora, 1, 1);
    compare_untouched(c->down);
}

static void check_gate(int64_t rows, int64_t k, int64_t n, int64_t gap, int64_t rank)
{
    struct gate_case c = {.rows = rows, .k = k, .n = n, .gap = gap, .rank = rank};
    struct test_random random = {(uint64_t)(rows * n + k)};
    describe("%lld rows of %lld to %lld, rank %lld, gaps of %lld", (long long)rows, (long long)k,
             (long long)n, (long long)rank, (long long)gap);
    make_case(&c, &random);
    twins_push(&c.set);
    struct kiln_gated_product host = gate_args(&c, false), device = gate_args(&c, true);
    host.rank = 0; /* whose lora is that of another y */
    if (gate_launched(&device, rows)) {
        kiln_gated_product_ref(&host, 0, rows);
        twins_pull(&c.set);
        /* Four roundings; gate's is seen in silu by up to 1.1 of it, and times up. */
        compare_bf16(c.y, 4, 1);
        compare_untouched(c.x);
        compare_untouched(c.weight);
        if (rank)
            check_low(&c);
    }
    twins_free(&c.set);
}

static void gated_product(void)
{
    static const int64_t heights[] = {1, 127, 128, 129, 300}, depths[] = {64, 72, 3840 + 32};
    static const int64_t widths[] = {128, 384, 1280};
    for (size_t i = 0; i < sizeof heights / sizeof *heights; i++)
        for (size_t j = 0; j < sizeof depths / sizeof *depths; j++)
            for (size_t l = 0; l < sizeof widths / sizeof *widths; l++)
                if (depths[j] < 100 || l == i % 3) /* the reference takes its time */
                    check_gate(heights[i], depths[j], widths[l], (i + j + l) % 2 ? 24 : 0,
                               (int64_t)(i + j) % 2 * KILN_GATED_RANK);
    check_gate(5, 8, 8, 8, 0);
    check_gate(256, 136, 200, 8, 0); /* a tile that is none to the right */
    check_gate(384, 136, 200, 0, 0);
    check_gate(300, 64, 136, 8, 0);
    check_gate(4224, 3840 + 32, 128, 32, KILN_GATED_RANK);
    for (int64_t rank = 0; rank <= KILN_GATED_RANK; rank += KILN_GATED_RANK) {
        check_gate(4224, 72, 1280, 0, rank); /* several bands of rows */
        check_gate(4096, 72, 1280, 8, rank);
        check_gate(300, 72, 3 * 128, 8, rank); /* pairs that are not whole */
    }
}

static bool launch_some(const void *test_case, int64_t from, int64_t count)
{
    struct kiln_gated_product args = gate_args(test_case, true);
    args.x = (const uint16_t *)args.x + from * args.x_pitch;
    args.y = (uint16_t *)args.y + from * args.pitch;
    if (args.rank)
        args.lora = (uint16_t *)args.lora + from * args.lora_pitch;
    return gate_launched(&args, count);
}

/* Two tiles one above the other and two side by side, wherever a row lies in them. */
static void gated_product_of_rows_in_company(void)
{
    static const int64_t counts[] = {1, 17, 128, 200, 256};
    for (int64_t rank = 0; rank <= KILN_GATED_RANK; rank += KILN_GATED_RANK) {
        struct gate_case c = {.rows = 300, .k = 264, .n = rank ? 384 : 392, .gap = 8, .rank = rank};
        struct test_random random = {1};
        describe("300 rows and fewer, rank %lld", (long long)rank);
        make_case(&c, &random);
        compare_company(&c.set, c.y, 2 * (c.n + c.gap), counts, sizeof counts / sizeof *counts,
                        launch_some, &c);
        if (rank)
            compare_company(&c.set, c.lora, 2 * (rank + c.gap), counts,
                            sizeof counts / sizeof *counts, launch_some, &c);
        twins_free(&c.set);
    }
}

static void low_refuses(const struct kiln_gated_product *good)
{
    static const struct {
        int64_t n, rank, lora_pitch;
        size_t lora, down, parts; /* bytes off their places */
        int want;
    } shapes[] = {
        {64, 16, 16, 0, 0, 0, KILN_UNSUPPORTED},  {128, 8, 16, 0, 0, 0, KILN_UNSUPPORTED},
        {128, 32, 32, 0, 0, 0, KILN_UNSUPPORTED}, {128, 64, 64, 0, 0, 0, KILN_UNSUPPORTED},
        {128, 16, 17, 0, 0, 0, KILN_UNSUPPORTED}, {128, 16, 16, 2, 0, 0, KILN_UNSUPPORTED},
        {128, 16, 16, 0, 8, 0, KILN_UNSUPPORTED}, {128, 16, 16, 0, 0, 4, KILN_UNSUPPORTED},
        {128, 16, 15, 0, 0, 0, KILN_BAD_INPUT},   {128, -1, 16, 0, 0, 0, KILN_BAD_INPUT},
    };
    struct kiln_error err;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct kiln_gated_product args = *good;
        char *const place = args.y; /* never used */
        describe("lora, shape %d", (int)i);
        args.n = shapes[i].n, args.pitch = 128;
        args.rank = shapes[i].rank, args.lora_pitch = shapes[i].lora_pitch;
        args.lora = place + shapes[i].lora, args.down = place + shapes[i].down;
        args.parts = (float *)(void *)(place + shapes[i].parts);
        refused(kiln_gated_product_launch(&args, 1, NULL, &err), shapes[i].want, &err);
    }
    for (int missing = 0; missing < 3; missing++) {
        struct kiln_gated_product args = *good;
        describe("lora without operand %d", missing);
        args.n = 128, args.pitch = 128, args.rank = 16, args.lora_pitch = 16;
        args.lora = missing == 0 ? NULL : args.y, args.down = missing == 1 ? NULL : args.y;
        args.parts = missing == 2 ? NULL : args.y;
        refused(kiln_gated_product_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
    }
}

static void gated_product_refuses(void)
{
    static const struct {
        int64_t x_pitch, weight_pitch, pitch, n, k;
        size_t shift;
        int want;
    } shapes[] = {
        {56, 64, 64, 64, 64, 0, KILN_BAD_INPUT},   {64, 56, 64, 64, 64, 0, KILN_BAD_INPUT},
        {64, 64, 56, 64, 64, 0, KILN_BAD_INPUT},   {64, 64, 64, 0, 64, 0, KILN_BAD_INPUT},
        {64, 64, 64, 64, 0, 0, KILN_BAD_INPUT},    {68, 64, 64, 64, 64, 0, KILN_UNSUPPORTED},
        {64, 68, 64, 64, 64, 0, KILN_UNSUPPORTED}, {64, 64, 68, 64, 64, 0, KILN_UNSUPPORTED},
        {64, 64, 64, 60, 64, 0, KILN_UNSUPPORTED}, {64, 64, 64, 64, 60, 0, KILN_UNSUPPORTED},
        {64, 64, 64, 64, 64, 8, KILN_UNSUPPORTED},
    };
    struct gate_case c = {.rows = 1, .k = 72, .n = 64, .gap = 8};
    struct kiln_error err;
    make_case(&c, NULL);
    twins_push(&c.set);
    const struct kiln_gated_product good = gate_args(&c, true);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct kiln_gated_product args = good;
        describe("shape %d", (int)i);
        args.x_pitch = shapes[i].x_pitch, args.weight_pitch = shapes[i].weight_pitch;
        args.pitch = shapes[i].pitch, args.n = shapes[i].n, args.k = shapes[i].k;
        args.x = (const char *)args.x + shapes[i].shift;
        refused(kiln_gated_product_launch(&args, 1, NULL, &err), shapes[i].want, &err);
    }
    struct kiln_gated_product args = good;
    describe("rows");
    refused(kiln_gated_product_launch(&args, 0, NULL, &err), KILN_OK, &err);
    refused(kiln_gated_product_launch(&args, -1, NULL, &err), KILN_BAD_INPUT, &err);
    refused(kiln_gated_product_launch(&args, (int64_t)1 << 40, NULL, &err), KILN_UNSUPPORTED, &err);
    describe("format and weight");
    args.format = KILN_F32;
    refused(kiln_gated_product_launch(&args, 1, NULL, &err), KILN_UNSUPPORTED, &err);
    args.weight = NULL;
    refused(kiln_gated_product_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
    low_refuses(&good);
    twins_pull(&c.set);
    twins_free(&c.set);
}

const struct kernel_test gated_product_tests[] = {
    {"gated_product", gated_product},
    {"gated_product_of_rows_in_company", gated_product_of_rows_in_company},
    {"gated_product_refuses", gated_product_refuses},
    {NULL, NULL},
};
