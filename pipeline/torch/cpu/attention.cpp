/* attention.cpp - see attention.hpp. */
#include "pipeline/torch/cpu/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/attention/qkv_rope.h"
#include "kernels/attention/softmax.h"
#include "kernels/products/panel.h"
#include "pipeline/torch/cpu/products.hpp"

namespace kiln::cpu
{

/* Scores of a block of query rows: 512 KB of fp32. */
static constexpr int64_t score_values = 128 * 1024;
static constexpr int64_t block_least = block_step, block_most = 64; /* its rows */

bool takes_attention(const kt_attention_args &a)
{
    const at::Tensor &qkv = a.qkv->t;
    return qkv.is_cpu() && qkv.size(0) > 0 && a.items <= 1 && !a.starts &&
           multiplies(qkv.scalar_type()) && a.head_dim <= KILN_HEAD_DIM_MAX && a.kv_heads > 0 &&
           a.heads % a.kv_heads == 0 && (qkv.scalar_type() == at::kFloat || a.head_dim % 2 == 0);
}

namespace
{

/* The operands of the two products, head by head, in the rows' dtype.  Each head has its rows and
 * zeros up to a multiple of a panel: oneDNN makes a kernel for each shape, and so there are few. */
struct heads {
    at::Tensor q, k, v;  /* [heads, padded, head_dim] */
    at::Tensor k_panels; /* bytes */
    at::Tensor v_pairs;  /* in bf16: v, by pairs of rows */
    kiln_float format;
    int64_t rows, padded, d, size, kv_heads;
    bool causal;

    char *row_of(const at::Tensor &x, int64_t head, int64_t row) const
    {
        return static_cast<char *>(x.data_ptr()) + (head * padded + row) * d * size;
    }
    char *panel_of(int64_t head, int64_t row) const
    {
        return row_of(k_panels, head, row); /* a panel has the bytes of its rows */
    }
    const void *v_of(int64_t head) const
    {
        return row_of(format == KILN_BF16 ? v_pairs : v, head, 0);
    }
};

} // namespace

/* Rows that are split and arranged at once, of each head: half a panel. */
static constexpr int64_t rows_each = 32;

/* Of rows_each rows from `row` on: zeros behind the last one, and the second operands, k as columns
 * of a panel and v in bf16 as pairs of rows. */
static void arrange(const heads &x, int64_t row)
{
    const int64_t n = std::clamp<int64_t>(x.rows - row, 0, rows_each), column = row % KILN_PANEL;
    for (const at::Tensor *t : {&x.q, &x.k, &x.v})
        for (int64_t head = 0; head < t->size(0) && n < rows_each; head++)
            memset(x.row_of(*t, head, row + n), 0,
                   static_cast<size_t>((rows_each - n) * x.d * x.size));
    for (int64_t head = 0; head < x.kv_heads; head++) {
        kiln_panel_of_rows(x.row_of(x.k, head, row), rows_each, kiln_panel_lines(x.d, x.format),
                           x.panel_of(head, row - column) + column * 4, KILN_PANEL);
        if (x.format == KILN_BF16)
            kiln_panel_pairs(reinterpret_cast<const uint16_t *>(x.row_of(x.v, head, row)),
                             rows_each / 2, x.d,
                             reinterpret_cast<uint16_t *>(x.row_of(x.v_pairs, head, row)));
    }
}

static void split(const kt_attention_args &a, const heads &x)
{
    const at::Tensor qkv = dense(a.qkv->t), q_norm = dense(maybe(a.q_norm)),
                     k_norm = dense(maybe(a.k_norm)), cos = dense(maybe(a.cos)),
                     sin = dense(maybe(a.sin));
    kiln_qkv_rope args{};
    args.qkv = data_of(qkv), args.q_norm = data_of(q_norm), args.k_norm = data_of(k_norm);
    args.cos = static_cast<const float *>(data_of(cos));
    args.sin = static_cast<const float *>(data_of(sin));
    args.q = x.q.data_ptr(), args.k = x.k.data_ptr(), args.v = x.v.data_ptr();
    args.rows = x.rows, args.tokens = x.padded; /* where the next head starts */
    args.heads = a.heads, args.kv_heads = a.kv_heads, args.head_dim = a.head_dim;
    args.interleaved = a.interleaved, args.eps = static_cast<float>(a.eps);
    args.format = x.format;
    share(x.padded / rows_each, [&](int64_t task) {
        const int64_t row = task * rows_each;
        kiln_qkv_rope_ref(&args, row, std::min(x.rows, row + rows_each));
        arrange(x, row); /* while they are in the cache */
    });
}

static heads heads_of(const kt_attention_args &a)
{
    const at::Tensor &qkv = a.qkv->t;
    heads x;
    x.format = format_of(qkv), x.size = kiln_float_size(x.format);
    x.rows = qkv.size(0), x.padded = up_to(x.rows, KILN_PANEL);
    x.d = a.head_dim, x.kv_heads = a.kv_heads, x.causal = a.causal;
    x.q = at::empty({a.heads, x.padded, x.d}, qkv.options());
    x.k = at::empty({a.kv_heads, x.padded, x.d}, qkv.options());
    x.v = at::empty_like(x.k), x.k_panels = at::empty_like(x.k);
    if (x.format == KILN_BF16)
        x.v_pairs = at::empty_like(x.k);
    split(a, x);
    return x;
}

/* The scores of n query rows from `row` on: [n][keys].  None is with a key beyond the rows, nor, in
 * causal attention, beyond the query's own. */
static void score(const heads &x, int64_t head, int64_t kv_head, int64_t row, int64_t n,
                  int64_t keys, float *scores)
{
    for (int64_t key = 0; key < keys; key += KILN_PANEL)
        multiply(x.format, up_to(n, block_step), KILN_PANEL, x.d, x.row_of(x.q, head, row), x.d,
                 x.panel_of(kv_head, key), KILN_PANEL, scores + key, keys);
    for (int64_t i = 0; i < n; i++) {
        const int64_t seen = x.causal ? row + i + 1 : x.rows;
        std::fill(scores + i * keys + seen, scores + (i + 1) * keys, -INFINITY);
    }
}

/* The results of n query rows from `row` on to out, `width` values apart. */
static void attend(const heads &x, int64_t head, int64_t kv_head, int64_t row, int64_t n, char *out,
                   int64_t width)
{
    const int64_t keys = x.causal ? up_to(row + n, KILN_PANEL) : x.padded;
    const int64_t m = up_to(n, block_step);
    float *scores = static_cast<float *>(scratch(SUMS, m * keys * 4));
    score(x, head, kv_head, row, n, keys, scores);
    void *p = x.format == KILN_F32 ? scores : scratch(VALUES, m * keys * 2);
    float inverse[block_most];
    const float scale = 1.0f / std::sqrt(static_cast<float>(x.d));
    const kiln_softmax softmax{scores, p, keys, x.format, scale, inverse};
    kiln_softmax_ref(&softmax, 0, n);
    float *sums = static_cast<float *>(scratch(RESULTS, m * x.d * 4));
    multiply(x.format, m, x.d, keys, p, keys, x.v_of(kv_head), x.d, sums, x.d);
    const kiln_panel_sums store{sums, out, nullptr, inverse, x.d, x.d, width, x.format};
    kiln_panel_store(&store, n);
}

at::Tensor attention(const kt_attention_args &a)
{
    const heads x = heads_of(a);
    const int64_t width = a.heads * x.d, group = a.heads / a.kv_heads;
    /* A multiple of block_step: the padded rows of the last block are padded rows of the head, too.
     */
    const int64_t block =
        std::clamp(score_values / x.rows / block_step * block_step, block_least, block_most);
    const int64_t blocks = up_to(x.rows, block) / block;
    const at::Tensor out = at::empty({x.rows, width}, a.qkv->t.options());
    share(a.heads * blocks, [&](int64_t task) {
        const int64_t head = task / blocks, row = task % blocks * block;
        char *to = static_cast<char *>(out.data_ptr()) + (row * width + head * x.d) * x.size;
        attend(x, head, head / group, row, std::min(block, x.rows - row), to, width);
    });
    return out;
}

} // namespace kiln::cpu
