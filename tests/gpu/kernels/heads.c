/* heads.c - the kernels that split rows into heads, norm and turn them. */
#include "kernels/attention/qkv_e4m3.h"
#include "kernels/attention/qkv_rope.h"
#include "kernels/fp8.h"
#include "tests/gpu/kernels/twin.h"

enum { NORMED = 1, ROTATED = 2, INTERLEAVED = 4, ITEMS = 8, UNALIGNED = 16, FORMS = 32 };

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
    c->qkv = twins_add_bf16(&c->set, "qkv", c->rows * width, random, 2);
    c->q_norm = c->form & NORMED ? twins_add_bf16(&c->set, "q_norm", c->d, random, 2) : NULL;
    c->k_norm = c->form & NORMED ? twins_add_bf16(&c->set, "k_norm", c->d, random, 2) : NULL;
    c->cosine = c->form & ROTATED ? twins_add(&c->set, "cos", angles) : NULL;
    c->sine = c->form & ROTATED ? twins_add(&c->set, "sin", angles) : NULL;
    if (c->cosine)
        fill_f32(c->cosine, random, 1), fill_f32(c->sine, random, 1);
}

/* Where q, k and v go, unless they stay where they lie. */
static void make_results(struct split_case *c)
{
    c->q = twins_add_bf16(&c->set, "q", c->rows * c->heads * c->d, NULL, 0);
    c->k = twins_add_bf16(&c->set, "k", c->rows * c->kv_heads * c->d, NULL, 0);
    c->v = twins_add_bf16(&c->set, "v", c->rows * c->kv_heads * c->d, NULL, 0);
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
                                  .format = KILN_BF16,
                                  .tokens = c->form & ITEMS ? c->rows / 3 : 0};
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
    make_results(&c);
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
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int step = shapes[i].heads > 16 ? 3 : 1;
        for (int form = 0; form < FORMS; form += step)
            check_split(form & ITEMS ? 6 : 5, shapes[i].heads, shapes[i].kv_heads, shapes[i].d,
                        form);
    }
    check_split(5, 2, 2, 7, NORMED);
}

/* In every row v lies behind q and k, and is there as it was pushed. */
static void compare_v_untouched(const struct split_case *c)
{
    const int64_t v = (int64_t)c->kv_heads * c->d * 2,
                  row_bytes = (int64_t)c->heads * c->d * 2 + 2 * v;
    for (int64_t row = 0; row < c->rows; row++) {
        const int64_t at = (row + 1) * row_bytes - v;
        const struct twin of_v = {.what = "v among the rows",
                                  .bytes = (size_t)v,
                                  .host = c->qkv->host + at,
                                  .back = c->qkv->back + at};
        compare_untouched(&of_v);
    }
}

/* q and k where they lie, v untouched among them: by the kernel, as the host has v as it was until
 * the reference runs, and then by that too. */
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
        twins_pull(&c.set);
        compare_v_untouched(&c);
        kiln_qkv_rope_ref(&args[0], 0, rows);
        compare_v_untouched(&c);
        compare_bf16(c.qkv, 4, 8);
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
        for (int form = 0; form < FORMS; form++)
            check_in_place(form & ITEMS ? 6 : 5, shapes[i].heads, shapes[i].kv_heads, shapes[i].d,
                           form);
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
                                 .format = KILN_BF16};
    refused(kiln_qkv_rope_launch(&args, NULL, &err), KILN_OK, &err);
    args.rows = 3;
    args.tokens = 2;
    refused(kiln_qkv_rope_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args.tokens = 0;
    args.cos = args.sin = memory;
    refused(kiln_qkv_rope_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args.cos = args.sin = NULL;
    args.format = KILN_F32;
    refused(kiln_qkv_rope_launch(&args, NULL, &err), KILN_UNSUPPORTED, &err);
    args.format = KILN_BF16;
    args.rows = INT32_MAX;
    refused(kiln_qkv_rope_launch(&args, NULL, &err), KILN_UNSUPPORTED, &err);
}

/* --- in eight bits ---------------------------------------------------------------------------- */

/* Values of v that are not ordinary, one in the first row or the last one. */
enum { ORDINARY, ZEROS, WITH_NAN, WITH_INFINITY };

struct code_case {
    struct twins set;
    struct twin *qkv, *q_norm, *k_norm, *cosine, *sine, *codes, *scale, *to_codes, *tops;
    int64_t rows;
    int heads, kv_heads, d, form, v;
};

static void make_codes(struct code_case *c)
{
    struct test_random random = {(uint64_t)(c->d * 256 + c->form)};
    const int64_t width = (int64_t)(c->heads + 2 * c->kv_heads) * c->d;
    const int64_t v = (int64_t)(c->heads + c->kv_heads) * c->d;
    const size_t angles = (size_t)(c->rows * (c->d / 2)) * 4;
    c->qkv = twins_add_bf16(&c->set, "qkv", c->rows * width, &random, 2);
    c->q_norm = twins_add_bf16(&c->set, "q_norm", c->d, &random, 2);
    c->k_norm = twins_add_bf16(&c->set, "k_norm", c->d, &random, 400); /* some beyond 448 */
    c->cosine = c->form & ROTATED ? twins_add(&c->set, "cos", angles) : NULL;
    c->sine = c->form & ROTATED ? twins_add(&c->set, "sin", angles) : NULL;
    if (c->cosine)
        fill_f32(c->cosine, &random, 1), fill_f32(c->sine, &random, 1);
    c->codes = twins_add(&c->set, "codes", (size_t)(c->rows * width));
    c->scale = twins_add(&c->set, "scale", (size_t)c->rows * 4);
    c->to_codes = twins_add(&c->set, "to_codes", 4);
    c->tops = twins_add(&c->set, "tops", KILN_QKV_TOPS * 4);
    uint16_t *last = (uint16_t *)c->qkv->host + c->rows * width - 1;
    for (int64_t row = 0; row < c->rows && c->v == ZEROS; row++)
        for (int64_t i = v; i < width; i++)
            ((uint16_t *)c->qkv->host)[row * width + i] = 0;
    if (c->v == WITH_NAN)
        *last = 0xffc0, ((uint16_t *)c->qkv->host)[v] = 0x7fc0;
    if (c->v == WITH_INFINITY)
        *last = 0xff80;
    if (c->v == ORDINARY)
        *last = 0xc0e0; /* -7: the largest one is the last one */
}

static struct kiln_qkv_e4m3 code_args(const struct code_case *c, bool device)
{
    return (struct kiln_qkv_e4m3){.qkv = twin_side(c->qkv, device),
                                  .q_norm = twin_side(c->q_norm, device),
                                  .k_norm = twin_side(c->k_norm, device),
                                  .cos = twin_side(c->cosine, device),
                                  .sin = twin_side(c->sine, device),
                                  .codes = twin_side(c->codes, device),
                                  .scale = twin_side(c->scale, device),
                                  .to_codes = twin_side(c->to_codes, device),
                                  .tops = twin_side(c->tops, device),
                                  .rows = c->rows,
                                  .heads = c->heads,
                                  .kv_heads = c->kv_heads,
                                  .head_dim = c->d,
                                  .interleaved = c->form & INTERLEAVED,
                                  .eps = 1e-6f,
                                  .code_max = c->form & INTERLEAVED ? KILN_E4M3_BESIDE_MAX : 0};
}

/* `count` codes of a row, from its value `from` on. */
static struct twin codes_within(const struct code_case *c, int64_t row, int64_t from, int64_t count)
{
    const int64_t at = row * (c->heads + 2 * c->kv_heads) * c->d + from;
    return (struct twin){.what = "codes",
                         .bytes = (size_t)count,
                         .host = c->codes->host + at,
                         .back = c->codes->back + at};
}

/* q and k, whose scale is 1, are as far off as their bf16; v is the same to the bit. */
static void compare_codes(const struct code_case *c)
{
    float one = 1;
    const struct twin scale = {.what = "a scale of 1",
                               .bytes = sizeof one,
                               .host = (unsigned char *)&one,
                               .back = (unsigned char *)&one};
    const int64_t q = (int64_t)c->heads * c->d, k = (int64_t)c->kv_heads * c->d;
    for (int64_t row = 0; row < c->rows; row++) {
        const struct twin of_q = codes_within(c, row, 0, q), of_k = codes_within(c, row, q, k),
                          of_v = codes_within(c, row, q + k, k);
        compare_e4m3(&of_q, &scale, q, 4, 8);
        compare_e4m3(&of_k, &scale, k, 4, 8 * 200); /* its weights are 200 times those of q */
        compare_bytes(&of_v, 0, 0);
    }
    compare_bytes(c->scale, 0, 0);
    compare_bytes(c->to_codes, 0, 0);
    compare_untouched(c->qkv);
}

static void check_codes(int64_t rows, int heads, int kv_heads, int d, int form, int v)
{
    struct code_case c = {
        .rows = rows, .heads = heads, .kv_heads = kv_heads, .d = d, .form = form, .v = v};
    struct kiln_error err;
    describe("in e4m3, %lld rows, %d + 2*%d heads of %d, form %d, v %d", (long long)rows, heads,
             kv_heads, d, form, v);
    make_codes(&c);
    twins_push(&c.set);
    const struct kiln_qkv_e4m3 host = code_args(&c, false), device = code_args(&c, true);
    if (launched(kiln_qkv_e4m3_launch(&device, NULL, &err), &err)) {
        kiln_qkv_e4m3_ref(&host);
        twins_pull(&c.set);
        compare_codes(&c);
    }
    twins_free(&c.set);
}

static void qkv_e4m3(void)
{
    static const struct {
        int heads, kv_heads, d;
    } shapes[] = {{3, 3, 64},   {8, 2, 64},  {70, 67, 64}, {30, 30, 128},
                  {40, 8, 128}, {1, 1, 128}, {5, 5, 48},   {3, 2, 136}};
    static const int forms[] = {0, ROTATED, ROTATED | INTERLEAVED};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
            for (int v = ORDINARY; v <= WITH_INFINITY; v++)
                check_codes(v == ORDINARY ? 7 : 5, shapes[i].heads, shapes[i].kv_heads, shapes[i].d,
                            forms[k], v);
    /* So many values that those who search v for the largest one go round. */
    check_codes(1100, 1, 64, 128, ROTATED | INTERLEAVED, ORDINARY);
    check_codes(1, 1, 1, 64, ROTATED, ORDINARY);
}

static void qkv_e4m3_refuses(void)
{
    struct kiln_error err;
    static _Alignas(16) float memory[8];
    const struct kiln_qkv_e4m3 good = {.qkv = memory,
                                       .q_norm = memory,
                                       .k_norm = memory,
                                       .codes = (uint8_t *)memory,
                                       .scale = memory,
                                       .to_codes = memory,
                                       .tops = memory,
                                       .heads = 1,
                                       .kv_heads = 1,
                                       .head_dim = 64};
    struct kiln_qkv_e4m3 args = good;
    refused(kiln_qkv_e4m3_launch(&args, NULL, &err), KILN_OK, &err);
    args.rows = -1;
    refused(kiln_qkv_e4m3_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args.rows = INT32_MAX;
    refused(kiln_qkv_e4m3_launch(&args, NULL, &err), KILN_UNSUPPORTED, &err);
    args = good, args.head_dim = 100;
    refused(kiln_qkv_e4m3_launch(&args, NULL, &err), KILN_UNSUPPORTED, &err);
    args = good, args.cos = memory;
    refused(kiln_qkv_e4m3_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args = good, args.kv_heads = 0;
    refused(kiln_qkv_e4m3_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args = good, args.head_dim = KILN_HEAD_DIM_MAX + 8;
    refused(kiln_qkv_e4m3_launch(&args, NULL, &err), KILN_UNSUPPORTED, &err);
    args = good, args.scale = NULL;
    refused(kiln_qkv_e4m3_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args = good, args.codes = (uint8_t *)memory + 8;
    refused(kiln_qkv_e4m3_launch(&args, NULL, &err), KILN_UNSUPPORTED, &err);
    args = good, args.k_norm = NULL;
    refused(kiln_qkv_e4m3_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args = good, args.code_max = -1;
    refused(kiln_qkv_e4m3_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args = good, args.tops = NULL;
    refused(kiln_qkv_e4m3_launch(&args, NULL, &err), KILN_BAD_INPUT, &err);
    args = good, args.qkv = memory + 1;
    refused(kiln_qkv_e4m3_launch(&args, NULL, &err), KILN_UNSUPPORTED, &err);
}

const struct kernel_test head_tests[] = {
    {"qkv_rope", qkv_rope},
    {"qkv_rope_in_place", qkv_rope_in_place},
    {"qkv_rope_refuses", qkv_rope_refuses},
    {"qkv_e4m3", qkv_e4m3},
    {"qkv_e4m3_refuses", qkv_e4m3_refuses},
    {NULL, NULL},
};
