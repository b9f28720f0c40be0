/* test_attention_cuda.c - attention on cuda:0, in bf16 and in eight bits.
 *
 *     test_attention_cuda [PART]     only the groups whose name contains PART
 *
 * In bf16 beside fp32.  In eight bits beside fp32 over the operands that the reference of the
 * kernel in front of it has rounded: what is left is what the products themselves round.  Bit for
 * bit in both: items together and each alone, rows with room behind them and without.  Exit 0: all
 * agree; 1: some do not; 69: there is no usable GPU.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/attention/qkv_e4m3.h"
#include "kernels/fp8.h"
#include "pipeline/torch/async.h"
#include "pipeline/torch/load.h"
#include "pipeline/torch/low_rank.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/ops_rig.h"

static const struct heads {
    int64_t rows;
    int heads, kv_heads, d;
    bool causal, interleaved, normed;
} attentions[] = {{1, 2, 2, 16, false, true, true},      {37, 5, 5, 48, false, true, true},
                  {1056, 5, 5, 48, false, true, true},   {29, 3, 3, 20, false, false, true},
                  {160, 30, 30, 128, false, true, true}, {4224, 30, 30, 128, false, true, true},
                  {33, 4, 4, 64, true, false, false},    {77, 32, 8, 128, true, false, true},
                  {512, 32, 8, 128, true, false, true}};

/* With operands of its own, for as many items of those rows. */
static struct kt_attention_args args_of(struct kt_scope *s, const struct heads *p,
                                        enum kt_dtype dtype, struct kt_form form, int items)
{
    const bool turned = p->d % 2 == 0;
    const int64_t width = (int64_t)(p->heads + 2 * p->kv_heads) * p->d;
    return (struct kt_attention_args){.qkv = operand(s, dtype, 1, 2, items * p->rows, width),
                                      .q_norm = p->normed ? operand(s, dtype, 2, 1, p->d, 0) : NULL,
                                      .k_norm = p->normed ? operand(s, dtype, 3, 1, p->d, 0) : NULL,
                                      .cos = turned ? angles(s, false, p->rows, p->d / 2) : NULL,
                                      .sin = turned ? angles(s, true, p->rows, p->d / 2) : NULL,
                                      .heads = p->heads,
                                      .kv_heads = p->kv_heads,
                                      .head_dim = p->d,
                                      .interleaved = p->interleaved,
                                      .causal = p->causal,
                                      .narrow = form.e4m3,
                                      .form = form,
                                      .eps = 1e-5,
                                      .items = items};
}

static kt attend(struct kt_scope *s, const struct heads *p, enum kt_dtype dtype, bool e4m3)
{
    const struct kt_attention_args a = args_of(s, p, dtype, e4m3 ? KT_CODES : KT_PLAIN, 1);
    return kt_attention(s, &a);
}

static void attention(void)
{
    for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++) {
        const struct heads *p = &attentions[i];
        struct sides s = sides_open(), one = {s.gpu, s.gpu};
        LABEL("attention %lld rows, %d + 2*%d of %d%s", (long long)p->rows, p->heads, p->kv_heads,
              p->d, p->causal ? " causal" : "");
        kt got = attend(s.gpu, p, KT_BF16, false);
        check_relative(&one, label, got, attend(s.gpu, p, KT_F32, false), 2e-2);
        if (p->rows < 200)
            check_relative(&s, part("CPU"), got, attend(s.cpu, p, KT_F32, false), 2e-2);
        check_same(&s, part("again"), attend(s.gpu, p, KT_BF16, false), got);
        sides_close(&s, label);
    }
}

/* Host copies of what attention in eight bits reads, and its codes made plain again, in fp32. */
static void to_host(struct kt_scope *s, kt x, size_t count, float *wide, uint16_t *narrow)
{
    kt_to_host_f32(s, x, wide, count);
    for (size_t i = 0; narrow && i < count; i++)
        narrow[i] = kiln_to_bf16(wide[i]);
}

/* q, k and v as the two products see them: normed, turned, rounded to e4m3, by the reference. */
static kt rounded_heads(struct kt_scope *s, const struct heads *p)
{
    const int64_t width = 3LL * p->heads * p->d;
    const size_t count = (size_t)(p->rows * width), half = (size_t)(p->rows * p->d / 2);
    float *wide = malloc(count * sizeof *wide), *cos = malloc(half * sizeof *cos),
          *sin = malloc(half * sizeof *sin), *scale = malloc((size_t)p->rows * sizeof *scale),
          norm[2][128], to_codes;
    uint16_t *qkv = malloc(count * sizeof *qkv), narrow[2][128];
    uint8_t *codes = malloc(count);
    if (!wide || !cos || !sin || !scale || !qkv || !codes)
        abort();
    to_host(s, operand(s, KT_BF16, 1, 2, p->rows, width), count, wide, qkv);
    for (uint64_t i = 0; i < 2; i++)
        to_host(s, operand(s, KT_BF16, 2 + i, 1, p->d, 0), (size_t)p->d, norm[i], narrow[i]);
    to_host(s, angles(s, false, p->rows, p->d / 2), half, cos, NULL);
    to_host(s, angles(s, true, p->rows, p->d / 2), half, sin, NULL);
    const struct kiln_qkv_e4m3 args = {.qkv = qkv,
                                       .q_norm = narrow[0],
                                       .k_norm = narrow[1],
                                       .cos = cos,
                                       .sin = sin,
                                       .codes = codes,
                                       .scale = scale,
                                       .to_codes = &to_codes,
                                       .rows = p->rows,
                                       .heads = p->heads,
                                       .kv_heads = p->kv_heads,
                                       .head_dim = p->d,
                                       .interleaved = p->interleaved,
                                       .eps = 1e-5F};
    kiln_qkv_e4m3_ref(&args);
    for (size_t i = 0; i < count; i++) {
        const bool is_v = (int64_t)i % width >= 2LL * p->heads * p->d;
        wide[i] = kiln_from_e4m3(codes[i]) * (is_v ? scale[0] : 1);
    }
    kt heads = kt_from_host(s, wide, KT_F32, KT_F32, 2, (int64_t[]){p->rows, width});
    free(wide), free(cos), free(sin), free(scale), free(qkv), free(codes);
    return heads;
}

/* Probabilities are rounded to e4m3, too, and so is the result: each is 2.6 % off in the mean
 * square, and the former average out over the rows. */
#define E4M3_TWICE 4.5e-2

/* Whether attention was in eight bits: then all rows share a factor. */
static bool shares_factor(struct kt_scope *s, kt x, int64_t rows)
{
    kt codes, factors;
    float *host = malloc((size_t)rows * sizeof *host);
    if (!host)
        abort();
    kt_rows_parts(s, x, &codes, &factors);
    kt_to_host_f32(s, factors, host, (size_t)rows);
    bool same = true;
    for (int64_t i = 1; i < rows; i++)
        same = same && memcmp(&host[i], &host[0], sizeof *host) == 0;
    free(host);
    return same;
}

static void attention_e4m3(void)
{
    static const struct heads cases[] = {
        {1024, 6, 6, 64, false, true, true},   {1056, 5, 5, 48, false, true, true},
        {1056, 4, 4, 128, false, true, true},  {300, 3, 3, 128, false, false, true},
        {1037, 4, 4, 64, false, true, true},   {2336, 30, 30, 128, false, true, true},
        {4224, 30, 30, 128, false, true, true}};
    for (size_t i = 0; kt_device_likes_e4m3(0) && i < sizeof cases / sizeof *cases; i++) {
        const struct heads *p = &cases[i];
        struct sides s = sides_open(), one = {s.gpu, s.gpu};
        LABEL("attention in e4m3, %lld rows, %d heads of %d", (long long)p->rows, p->heads, p->d);
        const struct kt_attention_args plain = {.qkv = rounded_heads(s.gpu, p),
                                                .heads = p->heads,
                                                .kv_heads = p->kv_heads,
                                                .head_dim = p->d};
        kt got = attend(s.gpu, p, KT_BF16, true);
        if (shares_factor(s.gpu, got, p->rows)) {
            check_relative(&one, label, got, kt_attention(s.gpu, &plain), E4M3_TWICE);
        } else {
            printf("skip %s: this card or this build has no kernel for it\n", label);
        }
        check_relative(&one, part("unrounded"), got, attend(s.gpu, p, KT_F32, false), 2e-1);
        check_same(&s, part("again"), attend(s.gpu, p, KT_BF16, true), got);
        sides_close(&s, label);
    }
}

/* What attention in eight bits is not for comes in 16, each row with its own factor. */
static void attention_quantised(void)
{
    static const struct heads cases[] = {{1056, 8, 2, 64, false, true, true},
                                         {1056, 4, 4, 64, false, true, false},
                                         {1056, 4, 4, 64, true, true, true},
                                         {1056, 4, 4, 40, false, true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct heads *p = &cases[i];
        struct sides s = sides_open(), one = {s.gpu, s.gpu};
        LABEL("attention, quantised, %d + 2*%d heads of %d%s%s", p->heads, p->kv_heads, p->d,
              p->normed ? "" : ", no norms", p->causal ? ", causal" : "");
        kt got = attend(s.gpu, p, KT_BF16, true);
        verdict(!shares_factor(s.gpu, got, p->rows), part("factors"), "a row each");
        check_relative(&one, label, got, attend(s.gpu, p, KT_BF16, false), 3e-2);
        sides_close(&s, label);
    }
}

/* One infinity among the values of v makes the mean of every row not finite. */
static void infinity_in_v(void)
{
    static const struct heads p = {1024, 2, 2, 64, false, true, true};
    struct sides s = sides_open();
    const int64_t width = 3LL * p.heads * p.d;
    kt qkv = operand(s.gpu, KT_BF16, 1, 2, p.rows, width);
    kt one = kt_narrow(s.gpu, kt_narrow(s.gpu, qkv, 0, 700, 1), 1, width - 1, 1);
    kt_copy_into(s.gpu, one, kt_affine(s.gpu, one, 0, INFINITY));
    const struct kt_attention_args args = {.qkv = qkv,
                                           .q_norm = operand(s.gpu, KT_BF16, 2, 1, p.d, 0),
                                           .k_norm = operand(s.gpu, KT_BF16, 3, 1, p.d, 0),
                                           .heads = p.heads,
                                           .kv_heads = p.kv_heads,
                                           .head_dim = p.d,
                                           .narrow = true,
                                           .form = KT_CODES,
                                           .eps = 1e-5};
    const size_t count = (size_t)(p.rows * p.heads * p.d);
    float *values = malloc(count * sizeof *values);
    int64_t finite_rows = 0;
    if (!values)
        abort();
    kt out = kt_attention(s.gpu, &args);
    kt_to_host_f32(s.gpu, out, values, count);
    for (int64_t row = 0; row < p.rows; row++)
        finite_rows += isfinite(values[(row + 1) * p.heads * p.d - 1]) != 0;
    free(values);
    verdict(finite_rows == 0, "an infinity in v shows in every row",
            finite_rows == 0 ? "it does" : "not in all");
    sides_close(&s, "an infinity in v shows in every row");
}

/* --- items and room --------------------------------------------------------------------------- */

#define ROOM 64

/* Every form of several items of one length, for a check that is told which. */
static void each_form(void (*check)(const struct heads *p, struct kt_form form, int items))
{
    static const struct heads even[] = {{160, 30, 30, 128, false, true, true},
                                        {333, 5, 5, 48, false, true, false},
                                        {1152, 30, 30, 128, false, true, true}};
    for (size_t k = 0; k < sizeof even / sizeof *even; k++)
        for (int e4m3 = 0; e4m3 < 2; e4m3++)
            for (int items = 1; items <= 4; items *= 2) {
                LABEL("%d x %lld rows%s", items, (long long)even[k].rows, e4m3 ? " in e4m3" : "");
                check(&even[k], (struct kt_form){.e4m3 = e4m3, .room = ROOM}, items);
            }
}

/* Items together have the bits that each has alone. */
static void check_items(const struct heads *p, struct kt_form form, int items)
{
    struct sides s = sides_open();
    struct kt_attention_args a = args_of(s.gpu, p, KT_BF16, form, items);
    const kt all = a.qkv;
    a.qkv = kt_copy(s.gpu, all); /* which is used up */
    kt together = kt_to(s.gpu, kt_attention(s.gpu, &a), KT_F32);
    a.items = 1;
    for (int i = 0; i < items; i++) {
        char name[24];
        snprintf(name, sizeof name, "item %d", i);
        a.qkv = kt_copy(s.gpu, kt_narrow(s.gpu, all, 0, i * p->rows, p->rows));
        kt alone = kt_to(s.gpu, kt_attention(s.gpu, &a), KT_F32);
        check_same(&s, part(name), kt_narrow(s.gpu, together, 0, i * p->rows, p->rows), alone);
    }
    sides_close(&s, label);
}

static void items_together(void)
{
    each_form(check_items);
}

/* What there is behind rows; of codes, bytes. */
static kt behind(struct kt_scope *s, kt x)
{
    kt wide = kt_widened(s, x, kt_room(x)), factors;
    if (kt_dtype_of(x) == KT_E4M3)
        kt_rows_parts(s, wide, &wide, &factors);
    return kt_narrow(s, wide, 1, kt_size(x, 1), kt_room(x));
}

/* Recorded, so that what is behind the rows can be marked before they are written again. */
static void check_gaps(struct sides *s, struct kt_attention_args a, kt want)
{
    struct kt_scope *inner = kt_scope_child(s->gpu);
    kt marks = operand(s->gpu, KT_F32, 9, 1, kt_size(a.qkv, 0), ROOM);
    marks = kt_affine(s->gpu, marks, 0, 3);
    struct kt_graph *graph = kt_graph_begin(inner);
    a.qkv = kt_copy(inner, a.qkv);
    kt again = kt_attention(inner, &a);
    if (kt_graph_end(graph, inner)) {
        kt_copy_into(inner, behind(inner, again), marks);
        kt_graph_replay(graph, inner);
        check_same(s, part("recorded"), again, want);
        check_same(s, part("gaps as they were"), behind(inner, again), marks);
        kt_graph_free(graph);
    }
    kt_scope_free(inner);
}

/* Rows with room behind them are those without; in codes nearly, since larger ones are left free.
 */
static void check_room(const struct heads *p, struct kt_form form, int items)
{
    struct sides s = sides_open();
    struct kt_attention_args a = args_of(s.gpu, p, KT_BF16, form, items);
    const kt all = a.qkv;
    a.qkv = kt_copy(s.gpu, all);
    kt roomy = kt_attention(s.gpu, &a);
    a.form.room = 0, a.qkv = kt_copy(s.gpu, all);
    kt dense = kt_attention(s.gpu, &a);
    struct sides gpu = {s.gpu, s.gpu};
    if (form.e4m3)
        check_relative(&gpu, part("with room"), roomy, dense, 1e-2);
    else
        check_same(&s, part("with room"), roomy, dense);
    check_same(&s, part("copied"), kt_copy(s.gpu, roomy), roomy);
    a.form = form, a.qkv = all;
    if (kt_room(roomy) == ROOM)
        check_gaps(&s, a, roomy);
    else
        printf("skip %s: this card or this build leaves no room\n", label);
    sides_close(&s, label);
}

static void room_behind_rows(void)
{
    each_form(check_room);
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"bf16", attention},         {"e4m3", attention_e4m3},  {"quantised", attention_quantised},
        {"infinity", infinity_in_v}, {"items", items_together}, {"room", room_behind_rows}};
    need_gpu();
    return run_groups(groups, sizeof groups / sizeof *groups, argc > 1 ? argv[1] : "") > 0;
}
