/* attention.cpp - see attention.hpp. */
#include "pipeline/torch/cpu/attention.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/Parallel.h>

#include "kernels/attention/qkv_rope.h"
#include "kernels/attention/softmax.h"
#include "kernels/products/panel.h"
#include "pipeline/torch/cpu/products.hpp"

namespace kiln::cpu
{

/* Scores of a block of query rows: 512 KB of fp32. */
static constexpr int64_t score_values = 128 * 1024;
static constexpr int64_t block_least = 16, block_most = 64; /* its rows */

bool takes_attention(const kt_attention_args &a)
{
    const at::Tensor &qkv = a.qkv->t;
    return qkv.is_cpu() && qkv.size(0) > 0 && a.items <= 1 && !a.starts &&
           multiplies(qkv.scalar_type()) && a.head_dim <= KILN_HEAD_DIM_MAX &&
           (qkv.scalar_type() == at::kFloat || a.head_dim % 2 == 0);
}

namespace
{

/* The operands of the two products, head by head, in the rows' dtype. */
struct heads {
    at::Tensor q, k, v;  /* [heads, rows, head_dim] */
    at::Tensor k_panels; /* bytes */
    at::Tensor v_pairs;  /* in bf16: v, by pairs of rows */
    kiln_float format;
    int64_t rows, d, size, panels, panel_bytes, kv_heads;
    bool causal;

    char *row_of(const at::Tensor &x, int64_t head, int64_t row) const
    {
        return static_cast<char *>(x.data_ptr()) + (head * rows + row) * d * size;
    }
    char *panel_of(int64_t head, int64_t panel) const
    {
        return static_cast<char *>(k_panels.data_ptr()) + (head * panels + panel) * panel_bytes;
    }
    int64_t pairs() const { return (rows + 1) / 2; }
    uint16_t *pairs_of(int64_t head) const
    {
        return static_cast<uint16_t *>(v_pairs.data_ptr()) + head * pairs() * 2 * d;
    }
    const void *v_of(int64_t head) const
    {
        return format == KILN_BF16 ? static_cast<void *>(pairs_of(head)) : row_of(v, head, 0);
    }
};

} // namespace

static void split(const kt_attention_args &a, heads &x)
{
    const at::Tensor qkv = dense(a.qkv->t), q_norm = dense(maybe(a.q_norm)),
                     k_norm = dense(maybe(a.k_norm)), cos = dense(maybe(a.cos)),
                     sin = dense(maybe(a.sin));
    kiln_qkv_rope args{};
    args.qkv = data_of(qkv), args.q_norm = data_of(q_norm), args.k_norm = data_of(k_norm);
    args.cos = static_cast<const float *>(data_of(cos));
    args.sin = static_cast<const float *>(data_of(sin));
    args.q = x.q.data_ptr(), args.k = x.k.data_ptr(), args.v = x.v.data_ptr();
    args.rows = x.rows, args.heads = a.heads, args.kv_heads = a.kv_heads,
    args.head_dim = a.head_dim;
    args.interleaved = a.interleaved, args.eps = static_cast<float>(a.eps);
    args.q_scale = 1.0f, args.format = args.out_format = x.format;
    constexpr int64_t rows_each = 32;
    share((x.rows + rows_each - 1) / rows_each, [&](int64_t task) {
        kiln_qkv_rope_ref(&args, task * rows_each, std::min(x.rows, (task + 1) * rows_each));
    });
}

/* Rows [row, row + n) of v as pairs; an odd last row is paired with zeros. */
static void pair_rows(const heads &x, int64_t head, int64_t row, int64_t n)
{
    const uint16_t *v = reinterpret_cast<const uint16_t *>(x.row_of(x.v, head, row));
    uint16_t *to = x.pairs_of(head) + row * x.d;
    kiln_panel_pairs(v, n / 2, x.d, to);
    if (n % 2 == 0)
        return;
    uint16_t *last = static_cast<uint16_t *>(scratch(VALUES, 2 * x.d * 2));
    std::copy_n(v + (n - 1) * x.d, x.d, last);
    std::fill_n(last + x.d, x.d, uint16_t{0});
    kiln_panel_pairs(last, 1, x.d, to + (n - 1) * x.d);
}

/* The second operands: k as panels of its rows, v in bf16 as pairs of rows. */
static void arrange(const heads &x)
{
    share(x.kv_heads * x.panels, [&](int64_t task) {
        const int64_t head = task / x.panels, panel = task % x.panels, row = panel * KILN_PANEL;
        const int64_t n = std::min<int64_t>(KILN_PANEL, x.rows - row);
        kiln_panel_of_rows(x.row_of(x.k, head, row), n, kiln_panel_lines(x.d, x.format),
                           x.panel_of(head, panel));
        if (x.format == KILN_BF16)
            pair_rows(x, head, row, n);
    });
}

static heads heads_of(const kt_attention_args &a)
{
    const at::Tensor &qkv = a.qkv->t;
    heads x;
    x.format = format_of(qkv), x.size = kiln_float_size(x.format);
    x.rows = qkv.size(0), x.d = a.head_dim, x.kv_heads = a.kv_heads, x.causal = a.causal;
    x.panels = (x.rows + KILN_PANEL - 1) / KILN_PANEL;
    x.panel_bytes = kiln_panel_lines(x.d, x.format) * KILN_PANEL * 4;
    x.q = at::empty({a.heads, x.rows, x.d}, qkv.options());
    x.k = at::empty({a.kv_heads, x.rows, x.d}, qkv.options());
    x.v = at::empty({a.kv_heads, x.rows, x.d}, qkv.options());
    x.k_panels = at::empty({a.kv_heads * x.panels * x.panel_bytes}, at::kByte);
    if (x.format == KILN_BF16)
        x.v_pairs = at::empty({a.kv_heads, x.pairs(), 2 * x.d}, qkv.options());
    split(a, x);
    arrange(x);
    return x;
}

/* The scores of n query rows from `row` on, with `keys` keys: [n][pitch].  No key is beyond the
 * rows, nor, in causal attention, beyond the query's own. */
static void score(const heads &x, int64_t head, int64_t kv_head, int64_t row, int64_t n,
                  int64_t keys, float *scores, int64_t pitch)
{
    for (int64_t key = 0; key < keys; key += KILN_PANEL)
        multiply(x.format, n, std::min<int64_t>(KILN_PANEL, keys - key), x.d,
                 x.row_of(x.q, head, row), x.d, x.panel_of(kv_head, key / KILN_PANEL), KILN_PANEL,
                 scores + key, pitch, false);
    for (int64_t i = 0; i < n; i++) {
        const int64_t seen = x.causal ? row + i + 1 : keys;
        std::fill(scores + i * pitch + seen, scores + (i + 1) * pitch, -INFINITY);
    }
}

/* The results of n query rows from `row` on to out, `width` values apart. */
static void attend(const heads &x, int64_t head, int64_t kv_head, int64_t row, int64_t n, char *out,
                   int64_t width)
{
    const int64_t keys = x.causal ? row + n : x.rows;
    const int64_t pitch = x.format == KILN_BF16 ? keys + keys % 2 : keys;
    float *scores = static_cast<float *>(scratch(SUMS, n * pitch * 4));
    score(x, head, kv_head, row, n, keys, scores, pitch);
    void *p = x.format == KILN_F32 ? scores : scratch(VALUES, n * pitch * 2);
    float inverse[block_most];
    const float scale = 1.0f / std::sqrt(static_cast<float>(x.d));
    const kiln_softmax softmax{scores, p, pitch, x.format, scale, inverse};
    kiln_softmax_ref(&softmax, 0, n);
    float *sums = static_cast<float *>(scratch(PANELS, n * x.d * 4));
    multiply(x.format, n, x.d, pitch, p, pitch, x.v_of(kv_head), x.d, sums, x.d, false);
    const kiln_panel_sums store{sums, out, nullptr, inverse, x.d, x.d, width, x.format};
    kiln_panel_store(&store, n);
}

at::Tensor attention(const kt_attention_args &a)
{
    const heads x = heads_of(a);
    const int64_t width = a.heads * x.d, group = a.heads / a.kv_heads;
    const int64_t block = std::clamp(score_values / x.rows, block_least, block_most);
    const int64_t blocks = (x.rows + block - 1) / block;
    const at::Tensor out = at::empty({x.rows, width}, a.qkv->t.options());
    share(a.heads * blocks, [&](int64_t task) {
        const int64_t head = task / blocks, row = task % blocks * block;
        char *to = static_cast<char *>(out.data_ptr()) + (row * width + head * x.d) * x.size;
        attend(x, head, head / group, row, std::min(block, x.rows - row), to, width);
    });
    return out;
}

} // namespace kiln::cpu
