/* rows.c - the kernels over rows of tokens: norms, gates, heads. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "kernels/qkv_rope.h"
#include "kernels/quantise.h"
#include "kernels/rms_norm.h"
#include "kernels/swiglu.h"
#include "tests/gpu/kernels/twin.h"

/* One value up to the longest row; around the borders between one chunk a thread and four, between
 * 16-byte rows and others; the widths of the models. */
static const int64_t widths[] = {1,    3,    8,    17,   64,   192,   193,   1024,
                                 1032, 2560, 3840, 3841, 9728, 10240, 16383, 16384};

static size_t bf16_bytes(int64_t count)
{
    return (size_t)count * 2;
}

/* --- rms_norm --------------------------------------------------------------------------------- */

enum { FACTOR = 1, ADD = 2, NEXT = 4, QUANTISED = 8, ALONE = 16, IN_PLACE = 32, UNALIGNED = 64 };

struct rms_case {
    struct twins set;
    struct twin *x, *weight, *factor, *add, *y, *next_weight, *next_factor, *next, *codes, *scales;
    int64_t rows, n;
    int form;
};

static struct twin *add_bf16(struct twins *set, const char *what, int64_t count,
                             struct test_random *random, float size)
{
    struct twin *t = twins_add(set, what, bf16_bytes(count));
    if (random)
        fill_bf16(t, random, size);
    return t;
}

static void make_rms(struct rms_case *c, struct test_random *random)
{
    const int64_t n = c->n, all = c->rows * n;
    const bool alone = c->form & ALONE && c->form & QUANTISED;
    c->set.shift = c->form & UNALIGNED ? 4 : 0;
    c->x = add_bf16(&c->set, "x", all, random, 2);
    c->weight = add_bf16(&c->set, "weight", n, random, 2);
    c->factor = c->form & FACTOR ? add_bf16(&c->set, "factor", n, random, 2) : NULL;
    c->add = c->form & ADD ? add_bf16(&c->set, "add", all, random, 2) : NULL;
    if (!alone || c->form & NEXT)
        c->y = c->form & IN_PLACE ? (c->add ? c->add : c->x) : add_bf16(&c->set, "y", all, NULL, 0);
    if (c->form & NEXT) {
        c->next_weight = add_bf16(&c->set, "next_weight", n, random, 2);
        c->next_factor = c->form & FACTOR ? add_bf16(&c->set, "next_factor", n, random, 2) : NULL;
        c->next = alone ? NULL : add_bf16(&c->set, "next", all, NULL, 0);
    }
    if (c->form & QUANTISED) {
        c->codes = twins_add(&c->set, "quantised", (size_t)all);
        c->scales = twins_add(&c->set, "row_scale", (size_t)c->rows * 4);
    }
}

static struct kiln_rms_norm rms_args(const struct rms_case *c, bool device)
{
    return (struct kiln_rms_norm){.x = twin_side(c->x, device),
                                  .weight = twin_side(c->weight, device),
                                  .factor = twin_side(c->factor, device),
                                  .add = twin_side(c->add, device),
                                  .y = twin_side(c->y, device),
                                  .n = c->n,
                                  .eps = 1e-5f,
                                  .format = KILN_BF16,
                                  .next_weight = twin_side(c->next_weight, device),
                                  .next_factor = twin_side(c->next_factor, device),
                                  .next = twin_side(c->next, device),
                                  .quantised = twin_side(c->codes, device),
                                  .row_scale = twin_side(c->scales, device)};
}

static void check_rms(int64_t rows, int64_t n, int form)
{
    struct rms_case c = {.rows = rows, .n = n, .form = form};
    struct test_random random = {(uint64_t)(n * 128 + form)};
    struct kiln_error err;
    describe("%lld rows of %lld, form %d", (long long)rows, (long long)n, form);
    make_rms(&c, &random);
    twins_push(&c.set);
    const struct kiln_rms_norm host = rms_args(&c, false), device = rms_args(&c, true);
    if (launched(kiln_rms_norm_launch(&device, rows, NULL, &err), &err)) {
        kiln_rms_norm_ref(&host, 0, rows);
        twins_pull(&c.set);
        /* A value is at most 2 * 2 * sqrt(n) here, near 4 mostly: 8 covers a cancelled sum. */
        if (c.y)
            compare_bf16(c.y, 3, 8);
        if (c.next)
            compare_bf16(c.next, 4, 8);
        if (c.codes)
            compare_e4m3(c.codes, c.scales, n, 4, 8);
        compare_untouched(c.weight);
    }
    twins_free(&c.set);
}

static void rms_norm(void)
{
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const int64_t n = widths[i];
        /* All forms where rows are short; every fifth, which meets each bit, where they are long.
         */
        for (int form = (int)i % 5; form < 128; form += n < 200 ? 1 : 5)
            check_rms(n < 200 ? 5 : 2, n, form);
    }
}

/* So many rows that blocks take several in turn, where the device has so many at once. */
static int64_t rows_in_turn(void)
{
    int device = 0, processors = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
        complain("the device does not say how many multiprocessors it has");
    return (int64_t)processors * 11 + 1;
}

static void rms_norm_of_many_rows(void)
{
    /* Around the widths that are taken in turn; each form that is, and those next to them. */
    static const int64_t turn_widths[] = {3072, 3080, 3840, 4096, 4104};
    static const int forms[] = {FACTOR | ALONE,
                                IN_PLACE,
                                FACTOR | ADD | NEXT | IN_PLACE | ALONE,
                                ADD | NEXT,
                                FACTOR | NEXT | ALONE,
                                FACTOR | ADD | NEXT | UNALIGNED};
    for (size_t i = 0; i < sizeof turn_widths / sizeof *turn_widths; i++)
        for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
            if (k < 4 || turn_widths[i] == 3840)
                check_rms(rows_in_turn(), turn_widths[i], forms[k] | QUANTISED);
}

/* What the device left is wanted from now on, and has to be written again. */
static void want_again(struct twin *t)
{
    if (!t)
        return;
    memcpy(t->host, t->back, t->bytes);
    if (cudaMemset(t->device, 0x55, t->bytes) != cudaSuccess)
        complain("%s: no memset", t->what);
}

/* Quantised in the same pass or by another: other kernels, and not a bit of difference. */
static void check_passes_agree(int64_t rows, int64_t n, int form)
{
    struct rms_case c = {.rows = rows, .n = n, .form = form | QUANTISED};
    struct test_random random = {(uint64_t)(n * 128 + form)};
    struct kiln_error err;
    describe("two passes, %lld rows of %lld, form %d", (long long)rows, (long long)n, form);
    make_rms(&c, &random);
    twins_push(&c.set);
    struct kiln_rms_norm args = rms_args(&c, true);
    const struct kiln_quantise quantise = {args.next ? args.next : args.y, args.quantised,
                                           args.row_scale, n, KILN_BF16};
    if (launched(kiln_rms_norm_launch(&args, rows, NULL, &err), &err)) {
        twins_pull(&c.set);
        want_again(c.y), want_again(c.next), want_again(c.codes), want_again(c.scales);
        args.quantised = NULL;
        if (launched(kiln_rms_norm_launch(&args, rows, NULL, &err), &err) &&
            launched(kiln_quantise_launch(&quantise, rows, NULL, &err), &err)) {
            twins_pull(&c.set);
            compare_bytes(c.y, 0, 0);
            if (c.next)
                compare_bytes(c.next, 0, 0);
            compare_bytes(c.codes, 0, 0);
            compare_bytes(c.scales, 0, 0);
        }
    }
    twins_free(&c.set);
}

static void rms_norm_in_one_pass_or_two(void)
{
    static const int forms[] = {0, FACTOR, ADD | NEXT, FACTOR | ADD | NEXT, ADD};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        check_passes_agree(rows_in_turn(), 3840, forms[i]);
        check_passes_agree(2, 3080, forms[i]);
    }
}

static void rms_norm_of_zeros_and_nan(void)
{
    struct kiln_error err;
    struct rms_case c = {.rows = 3, .n = 64, .form = QUANTISED};
    make_rms(&c, NULL);
    describe("a row of zeros, one with an infinity, one with a NaN");
    for (int i = 0; i < 64; i++)
        ((uint16_t *)c.weight->host)[i] = 0x3f80; /* 1 */
    ((uint16_t *)c.x->host)[64 + 5] = 0x7f80;
    ((uint16_t *)c.x->host)[128 + 7] = 0x7fc0;
    twins_push(&c.set);
    const struct kiln_rms_norm host = rms_args(&c, false), device = rms_args(&c, true);
    if (launched(kiln_rms_norm_launch(&device, 3, NULL, &err), &err)) {
        kiln_rms_norm_ref(&host, 0, 3);
        twins_pull(&c.set);
        compare_bf16(c.y, 1, 0);
        compare_e4m3(c.codes, c.scales, 64, 1, 0);
    }
    twins_free(&c.set);
}

static void rms_norm_refuses(void)
{
    struct kiln_error err;
    float memory[4] = {0};
    struct kiln_rms_norm args = {
        .x = memory, .weight = memory, .y = memory, .n = 4, .format = KILN_BF16};
    refused(kiln_rms_norm_launch(&args, 0, NULL, &err), KILN_OK, &err);
    refused(kiln_rms_norm_launch(&args, -1, NULL, &err), KILN_BAD_INPUT, &err);
    refused(kiln_rms_norm_launch(&args, (int64_t)1 << 40, NULL, &err), KILN_UNSUPPORTED, &err);
    args.n = KILN_ROW_MAX + 1;
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_UNSUPPORTED, &err);
    args.n = 4;
    args.format = KILN_F32;
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_UNSUPPORTED, &err);
    args.format = KILN_BF16;
    args.y = NULL;
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
    args.quantised = (uint8_t *)memory;
    refused(kiln_rms_norm_launch(&args, 1, NULL, &err), KILN_BAD_INPUT, &err);
}

/* --- swiglu ----------------------------------------------------------------------------------- */

static void check_swiglu(int64_t rows, int64_t n, int form)
{
    struct twins set = {.shift = form & UNALIGNED ? 4 : 0};
    struct test_random random = {(uint64_t)(n * 128 + form)};
    struct kiln_error err;
    describe("%lld rows of %lld, form %d", (long long)rows, (long long)n, form);
    struct twin *in = add_bf16(&set, "gate_up", rows * 2 * n, &random, 8);
    struct twin *codes = form & QUANTISED ? twins_add(&set, "quantised", (size_t)(rows * n)) : NULL;
    struct twin *scales = codes ? twins_add(&set, "row_scale", (size_t)rows * 4) : NULL;
    struct twin *y = codes && form & ALONE ? NULL : add_bf16(&set, "y", rows * n, NULL, 0);
    twins_push(&set);
    struct kiln_swiglu args[2];
    for (int side = 0; side < 2; side++)
        args[side] = (struct kiln_swiglu){.gate_up = twin_side(in, side),
                                          .y = twin_side(y, side),
                                          .n = n,
                                          .format = KILN_BF16,
                                          .quantised = twin_side(codes, side),
                                          .row_scale = twin_side(scales, side)};
    if (launched(kiln_swiglu_launch(&args[1], rows, NULL, &err), &err)) {
        kiln_swiglu_ref(&args[0], 0, rows);
        twins_pull(&set);
        if (y)
            compare_bf16(y, 2, 1e-3f);
        if (codes)
            compare_e4m3(codes, scales, n, 2, 1e-3f);
        compare_untouched(in);
    }
    twins_free(&set);
}

static void swiglu(void)
{
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int k = 0; k < 6; k++)
            check_swiglu(widths[i] < 200 ? 5 : 2, widths[i],
                         (k % 3 == 0   ? 0
                          : k % 3 == 1 ? QUANTISED
                                       : QUANTISED | ALONE) |
                             (k / 3 ? UNALIGNED : 0));
}

static void swiglu_at_the_ends(void)
{
    static const float gates[8] = {-3e38f, -1e5f, -200, -88, -1e-30f, 200, 1e5f, 3e38f};
    struct twins set = {0};
    struct kiln_error err;
    struct twin *in = twins_add(&set, "gate_up", 32), *y = twins_add(&set, "y", 16);
    for (int i = 0; i < 8; i++) {
        kiln_store(in->host, i, gates[i], KILN_BF16);
        kiln_store(in->host, 8 + i, 1.0f, KILN_BF16);
    }
    twins_push(&set);
    const struct kiln_swiglu host = {
        .gate_up = in->host, .y = y->host, .n = 8, .format = KILN_BF16};
    const struct kiln_swiglu device = {
        .gate_up = in->device, .y = y->device, .n = 8, .format = KILN_BF16};
    if (launched(kiln_swiglu_launch(&device, 1, NULL, &err), &err)) {
        kiln_swiglu_ref(&host, 0, 1);
        twins_pull(&set);
        for (int i = 0; i < 8; i++) {
            /* Far below zero the reference keeps a remnant below 3 of a gate of 3e38; 0 is right.
             */
            const float want = kiln_load(y->host, i, KILN_BF16),
                        got = kiln_load(y->back, i, KILN_BF16);
            const float limit = gates[i] < -80 ? 3.0f : 0.01f * (want < 0 ? -want : want);
            if (!(got - want <= limit && want - got <= limit))
                complain("silu(%g) = %g, the reference has %g", (double)gates[i], (double)got,
                         (double)want);
        }
    }
    twins_free(&set);
}

/* --- quantise --------------------------------------------------------------------------------- */

static void check_quantise(int64_t rows, int64_t n, size_t shift)
{
    struct twins set = {.shift = shift};
    struct test_random random = {(uint64_t)n};
    struct kiln_error err;
    describe("%lld rows of %lld", (long long)rows, (long long)n);
    struct twin *x = add_bf16(&set, "x", rows * n, &random, 300);
    struct twin *codes = twins_add(&set, "quantised", (size_t)(rows * n));
    struct twin *scales = twins_add(&set, "row_scale", (size_t)rows * 4);
    twins_push(&set);
    struct kiln_quantise args[2];
    for (int side = 0; side < 2; side++)
        args[side] = (struct kiln_quantise){.x = twin_side(x, side),
                                            .quantised = twin_side(codes, side),
                                            .row_scale = twin_side(scales, side),
                                            .n = n,
                                            .format = KILN_BF16};
    if (launched(kiln_quantise_launch(&args[1], rows, NULL, &err), &err)) {
        kiln_quantise_ref(&args[0], 0, rows);
        twins_pull(&set);
        compare_bytes(codes, 0, 0); /* no sum, one product: the same to the bit */
        compare_bytes(scales, 0, 0);
        compare_untouched(x);
    }
    twins_free(&set);
}

static void quantise(void)
{
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        check_quantise(3, widths[i], 0);
        check_quantise(3, widths[i], 4);
    }
}

/* --- qkv_rope --------------------------------------------------------------------------------- */

enum { NORMED = 1, ROTATED = 2, INTERLEAVED = 4, BY_TOKEN = 8, ITEMS = 16, SCALED = 32 };

struct split_case {
    struct twins set;
    struct twin *qkv, *q_norm, *k_norm, *cosine, *sine, *q, *k, *v;
    int64_t rows;
    int heads, kv_heads, d, form;
};

static void make_split(struct split_case *c, struct test_random *random)
{
    const int64_t width = (int64_t)(c->heads + 2 * c->kv_heads) * c->d;
    const size_t angles = (size_t)(c->rows * (c->d / 2)) * 4;
    c->set.shift = c->form & UNALIGNED ? 4 : 0;
    c->qkv = add_bf16(&c->set, "qkv", c->rows * width, random, 2);
    c->q_norm = c->form & NORMED ? add_bf16(&c->set, "q_norm", c->d, random, 2) : NULL;
    c->k_norm = c->form & NORMED ? add_bf16(&c->set, "k_norm", c->d, random, 2) : NULL;
    c->cosine = c->form & ROTATED ? twins_add(&c->set, "cos", angles) : NULL;
    c->sine = c->form & ROTATED ? twins_add(&c->set, "sin", angles) : NULL;
    if (c->cosine)
        fill_f32(c->cosine, random, 1), fill_f32(c->sine, random, 1);
    c->q = add_bf16(&c->set, "q", c->rows * c->heads * c->d, NULL, 0);
    c->k = add_bf16(&c->set, "k", c->rows * c->kv_heads * c->d, NULL, 0);
    c->v = add_bf16(&c->set, "v", c->rows * c->kv_heads * c->d, NULL, 0);
}

static struct kiln_qkv_rope split_args(const struct split_case *c, bool device)
{
    return (struct kiln_qkv_rope){.qkv = twin_side(c->qkv, device),
                                  .q_norm = twin_side(c->q_norm, device),
                                  .k_norm = twin_side(c->k_norm, device),
                                  .cos = twin_side(c->cosine, device),
                                  .sin = twin_side(c->sine, device),
                                  .q = twin_side(c->q, device),
                                  .k = twin_side(c->k, device),
                                  .v = twin_side(c->v, device),
                                  .rows = c->rows,
                                  .heads = c->heads,
                                  .kv_heads = c->kv_heads,
                                  .head_dim = c->d,
                                  .interleaved = c->form & INTERLEAVED,
                                  .eps = 1e-6f,
                                  .q_scale = c->form & SCALED ? 0.3f : 1.0f,
                                  .format = KILN_BF16,
                                  .out_format = KILN_BF16,
                                  .tokens = c->form & ITEMS ? c->rows / 3 : 0,
                                  .by_token = c->form & BY_TOKEN};
}

static void check_split(int64_t rows, int heads, int kv_heads, int d, int form)
{
    struct split_case c = {
        .rows = rows, .heads = heads, .kv_heads = kv_heads, .d = d, .form = form};
    struct test_random random = {(uint64_t)(d * 256 + form)};
    struct kiln_error err;
    describe("%lld rows, %d + 2*%d heads of %d, form %d", (long long)rows, heads, kv_heads, d,
             form);
    make_split(&c, &random);
    twins_push(&c.set);
    const struct kiln_qkv_rope host = split_args(&c, false), device = split_args(&c, true);
    if (launched(kiln_qkv_rope_launch(&device, NULL, &err), &err)) {
        kiln_qkv_rope_ref(&host, 0, rows);
        twins_pull(&c.set);
        compare_bf16(c.q, 4, 8);
        compare_bf16(c.k, 3, 8);
        compare_bytes(c.v, 0, 0);
        compare_untouched(c.qkv);
    }
    twins_free(&c.set);
}

static void qkv_rope(void)
{
    static const struct {
        int heads, kv_heads, d;
    } shapes[] = {{3, 3, 64},  {8, 2, 64}, {70, 3, 64}, {30, 30, 128}, {40, 8, 128},
                  {1, 1, 128}, {2, 1, 2},  {5, 5, 96},  {2, 2, 130},   {1, 1, 512}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int form = 0; form<128; form += shapes[i].heads> 16 ? 7 : 3)
            check_split(form & ITEMS ? 6 : 5, shapes[i].heads, shapes[i].kv_heads, shapes[i].d,
                        form);
    check_split(5, 2, 2, 7, NORMED);
}

/* q and k where they lie, v untouched among them. */
static void check_in_place(int64_t rows, int heads, int kv_heads, int d, int form)
{
    struct split_case c = {
        .rows = rows, .heads = heads, .kv_heads = kv_heads, .d = d, .form = form};
    struct test_random random = {(uint64_t)(d * 512 + form)};
    struct kiln_error err;
    describe("in place, %lld rows, %d + 2*%d heads of %d, form %d", (long long)rows, heads,
             kv_heads, d, form);
    make_split(&c, &random);
    twins_push(&c.set);
    struct kiln_qkv_rope args[2] = {split_args(&c, false), split_args(&c, true)};
    for (int side = 0; side < 2; side++) {
        char *base = twin_side(c.qkv, side);
        args[side].q = base, args[side].k = base + (int64_t)heads * d * 2;
        args[side].v = NULL, args[side].in_place = 1;
    }
    if (launched(kiln_qkv_rope_launch(&args[1], NULL, &err), &err)) {
        kiln_qkv_rope_ref(&args[0], 0, rows);
        twins_pull(&c.set);
        compare_bf16(c.qkv, 4, 8);
        compare_untouched(c.v);
    }
    twins_free(&c.set);
}

static void qkv_rope_in_place(void)
{
    static const struct {
        int heads, kv_heads, d;
    } shapes[] = {{3, 3, 64},   {8, 2, 64}, {70, 3, 64}, {30, 30, 128},
                  {40, 8, 128}, {5, 5, 48}, {2, 1, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int form = 0; form < 128; form += 9)
            check_in_place(form & ITEMS ? 6 : 5, shapes[i].heads, shapes[i].kv_heads, shapes[i].d,
                           form & ~BY_TOKEN);
}

static void qkv_rope_refuses(void)
{
    struct kiln_error err;
    float memory[4] = {0};
    struct kiln_qkv_rope args = {.qkv = memory,
                                 .q = memory,
                                 .k = memory,
                                 .v = memory,
                                 .heads = 1,
                                 .kv_heads = 1,
                                 .head_dim = 7,
                                 .format = KILN_BF16,
                                 .out_format = KILN_BF16};
    refused(kiln_qkv_rope_launch(&args, NULL, &err), KILN_OK, &err);
    args.rows = 3;
    args.tokens = 2;
    refused(kiln_qkv_rope_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args.tokens = 0;
    args.cos = args.sin = memory;
    refused(kiln_qkv_rope_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args.cos = args.sin = NULL;
    args.out_format = KILN_F32;
    refused(kiln_qkv_rope_launch(&args, NULL, &err), KILN_UNSUPPORTED, &err);
    args.out_format = KILN_BF16;
    args.rows = INT32_MAX;
    refused(kiln_qkv_rope_launch(&args, NULL, &err), KILN_UNSUPPORTED, &err);
}

const struct kernel_test row_tests[] = {
    {"rms_norm", rms_norm},
    {"rms_norm_of_many_rows", rms_norm_of_many_rows},
    {"rms_norm_in_one_pass_or_two", rms_norm_in_one_pass_or_two},
    {"rms_norm_of_zeros_and_nan", rms_norm_of_zeros_and_nan},
    {"rms_norm_refuses", rms_norm_refuses},
    {"swiglu", swiglu},
    {"swiglu_at_the_ends", swiglu_at_the_ends},
    {"quantise", quantise},
    {"qkv_rope", qkv_rope},
    {"qkv_rope_in_place", qkv_rope_in_place},
    {"qkv_rope_refuses", qkv_rope_refuses},
    {NULL, NULL},
};
