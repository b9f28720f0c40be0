/* attention.cpp - attention from packed rows: of one item, or of several within their own rows.
 *
 * On a GPU in bf16 q and k are normed and rotated in place, and attention runs in cuDNN's kernels
 * (cuda/cudnn_attention.cpp) or LibTorch's; on the CPU in cpu/attention.cpp; anything else is
 * composed of LibTorch's operators.
 */
#include "pipeline/torch/cpu/attention.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <vector>

#include "kernels/attention/qkv_rope.h"
#include "pipeline/torch/cuda/plugin.hpp"
#include "pipeline/torch/ops/same_bits.hpp"

using kiln::run;

namespace kiln
{

/* The widest head that fused attention over items of several lengths takes. */
static constexpr int widest_head = 256;

/* RMS(x) * weight, rounded in between, as heads are normed everywhere. */
static at::Tensor norm_heads(const at::Tensor &x, const at::Tensor &weight, double eps)
{
    at::Tensor wide = x.to(at::kFloat);
    at::Tensor factor = at::rsqrt(wide.pow(2).mean({-1}, true).add_(eps));
    return (wide * factor).to(x.scalar_type()) * weight;
}

/* x [heads, rows, head_dim]; cos and sin [rows, head_dim/2]; the products in fp32. */
static at::Tensor rotate(const at::Tensor &x, const at::Tensor &cos, const at::Tensor &sin,
                         bool interleaved)
{
    int64_t half = x.size(-1) / 2;
    at::Tensor wide = x.to(at::kFloat), a, b;
    if (interleaved) {
        at::Tensor pairs = wide.reshape({x.size(0), x.size(1), half, 2});
        a = pairs.select(-1, 0), b = pairs.select(-1, 1);
    } else {
        a = wide.narrow(-1, 0, half), b = wide.narrow(-1, half, half);
    }
    at::Tensor ra = a * cos - b * sin, rb = a * sin + b * cos;
    at::Tensor out = interleaved ? at::stack({ra, rb}, -1).flatten(-2) : at::cat({ra, rb}, -1);
    return out.to(x.scalar_type());
}

/* One head of q or k, [heads, rows, head_dim], normed and rotated. */
static at::Tensor heads_of(const kt_attention_args *args, int64_t from, int64_t heads, kt norm,
                           bool turn)
{
    int64_t rows = args->qkv->t.size(0), d = args->head_dim;
    at::Tensor x = args->qkv->t.narrow(1, from * d, heads * d).reshape({rows, heads, d});
    if (norm)
        x = norm_heads(x, norm->t, args->eps);
    x = x.transpose(0, 1);
    return turn && args->cos ? rotate(x, args->cos->t, args->sin->t, args->interleaved) : x;
}

/* LibTorch's cuDNN attention by name: for some shapes its automatic choice is half as fast.  What
 * cuDNN refuses goes to that choice after all. */
static at::Tensor fused_attention(const at::Tensor &q, const at::Tensor &k, const at::Tensor &v,
                                  bool causal)
{
    constexpr int64_t widest = 128;
    if (q.size(3) % 8 == 0 && q.size(3) <= widest) {
        try {
            return std::get<0>(
                at::_scaled_dot_product_cudnn_attention(q, k, v, std::nullopt, false, 0.0, causal));
        } catch (const c10::Error &e) {
            if (means_no_memory(e.what_without_backtrace()))
                throw;
            /* no such kernel on this card: the next one is for any */
        }
    }
    /* Item by item: their number could change how a sum is split. */
    std::vector<at::Tensor> items;
    for (int64_t i = 0; i < q.size(0); i++)
        items.push_back(at::scaled_dot_product_attention(q.narrow(0, i, 1), k.narrow(0, i, 1),
                                                         v.narrow(0, i, 1), {}, 0.0, causal, {},
                                                         q.size(1) != k.size(1)));
    return items.size() == 1 ? items[0] : at::cat(items);
}

/* Attention of the items with starts; results of the rows in front are not written. */
static at::Tensor started_attention(const kt_attention_args &a, const at::Tensor &qkv)
{
    const int64_t rows = qkv.size(0), h = a.heads, g = a.kv_heads, d = a.head_dim;
    auto heads = [&](int64_t from, int64_t count) {
        return qkv.narrow(1, from * d, count * d).view({rows, count, d});
    };
    return std::get<0>(at::_flash_attention_forward(heads(0, h), heads(h, g), heads(h + g, g),
                                                    a.starts->t, a.starts->t, a.longest, a.longest,
                                                    /*dropout_p=*/0.0, /*is_causal=*/true,
                                                    /*return_debug_mask=*/false))
        .reshape({rows, h * d});
}

/* LibTorch's attention of items of equal length. */
static at::Tensor torch_attention(const kt_attention_args &a, const at::Tensor &qkv, int64_t rows)
{
    const int64_t h = a.heads, g = a.kv_heads, d = a.head_dim;
    const at::Tensor some = qkv.view({qkv.size(0) / rows, rows, h + 2 * g, d});
    auto heads = [&](int64_t from, int64_t n) { return some.narrow(2, from, n).transpose(1, 2); };
    const at::Tensor out = fused_attention(heads(0, h), heads(h, g), heads(h + g, g), a.causal);
    return out.transpose(1, 2).reshape({qkv.size(0), h * d});
}

/* Attention of items of equal length, all at once or one after the other: by Kiln's cuDNN graph if
 * it takes the shape, else by LibTorch; the same choice for one item and for several.  In causal
 * attention no row sees those behind it, so the unused rows of a block change nothing. */
static kt_tensor blocks_of(const kt_attention_args &a, const at::Tensor &qkv, int64_t rows,
                           bool at_once)
{
    const kt_tensor own = gpu_kernels(qkv)->attend(a, qkv, rows, at_once);
    if (own.t.defined())
        return own;
    if (at_once)
        return {torch_attention(a, qkv, rows), {}};
    std::vector<at::Tensor> items;
    for (int64_t row = 0; row < qkv.size(0); row += rows)
        items.push_back(torch_attention(a, qkv.narrow(0, row, rows), rows));
    return {at::cat(items), {}};
}

/* The same, all at once if that gives each item the bits that it gets alone. */
static kt_tensor block_attention(const kt_attention_args &a, const at::Tensor &qkv, int64_t rows)
{
    using shape = std::tuple<int, int64_t, int64_t, int, int, int, int64_t, bool>;
    static same_bits<shape> known;
    auto alike = [&] {
        return at::equal(blocks_of(a, qkv, rows, true).t.view(at::kShort),
                         blocks_of(a, qkv, rows, false).t.view(at::kShort));
    };
    const int64_t count = qkv.size(0) / rows;
    const shape key{qkv.get_device(), count,      rows,        a.heads,
                    a.kv_heads,       a.head_dim, a.form.room, a.causal};
    return blocks_of(a, qkv, rows, count == 1 || known.ask(key, alike));
}

/* Items of several lengths: those with a block of their own through block_attention, which is twice
 * as fast for long items; the others through flash attention, which splits work by heads and rows
 * of one item, whatever the others are. */
static at::Tensor item_attention(const kt_attention_args &a)
{
    const model_kernels *gpu = gpu_kernels(a.qkv->t);
    TORCH_CHECK(gpu && a.causal && a.head_dim % 8 == 0 && a.head_dim <= widest_head,
                "attention within items is causal, in bf16 on a GPU, heads of up to ", widest_head);
    const at::Tensor qkv = a.qkv->t.contiguous();
    gpu->turn_heads(a, qkv);
    const int64_t front = std::accumulate(a.blocks, a.blocks + a.block_count, int64_t{0});
    TORCH_CHECK(front <= qkv.size(0), "blocks of ", front, " rows for ", qkv.size(0));
    at::Tensor out;
    if (front < qkv.size(0))
        out = started_attention(a, qkv);
    int64_t row = 0;
    for (size_t i = 0, count; i < a.block_count; i += count) {
        for (count = 1; i + count < a.block_count && a.blocks[i + count] == a.blocks[i];)
            count++;
        const int64_t items = static_cast<int64_t>(count), all = items * a.blocks[i];
        const at::Tensor some = block_attention(a, qkv.narrow(0, row, all), a.blocks[i]).t;
        if (all == qkv.size(0))
            return some;
        if (!out.defined())
            out = at::empty({qkv.size(0), some.size(1)}, some.options());
        out.narrow(0, row, all).copy_(some);
        row += all;
    }
    return out;
}

static kt_tensor even_attention(const kt_attention_args &a)
{
    const at::Tensor qkv = a.qkv->t.contiguous();
    const int64_t rows = item_rows(a);
    gpu_kernels(qkv)->turn_heads(a, qkv);
    return block_attention(a, qkv, rows);
}

/* Attention in FP8 if it is wanted and there are kernels for it; else undefined. */
static kt_tensor narrow_attention(const kt_attention_args &a)
{
    const model_kernels *gpu = gpu_kernels(a.qkv->t);
    if (!a.narrow || !a.form.e4m3 || !gpu || a.starts || a.causal ||
        !likes_e4m3(a.qkv->t.get_device()))
        return {};
    return gpu->attend_e4m3(a, a.qkv->t.contiguous());
}

/* The autoencoder's attention: one head, too wide for fused attention, without norms and rotation.
 */
static bool is_wide(const kt_attention_args &a)
{
    constexpr int widest_fused = 256;
    return a.items <= 1 && a.heads == 1 && a.kv_heads == 1 && a.head_dim > widest_fused &&
           !a.q_norm && !a.k_norm && !a.cos && !a.causal;
}

static kt_tensor attention(const kt_attention_args &args);

/* One item after the other. */
static at::Tensor attention_in_turn(const kt_attention_args &args)
{
    const int64_t rows = item_rows(args);
    std::vector<at::Tensor> results;
    for (int64_t i = 0; i < args.items; i++) {
        kt_tensor item{args.qkv->t.narrow(0, i * rows, rows), {}};
        kt_attention_args alone = args;
        alone.qkv = &item, alone.items = 1;
        results.push_back(attention(alone).t);
    }
    return at::cat(results);
}

/* Attention in the dtype of the rows, by the first way that takes them. */
static kt_tensor attention(const kt_attention_args &args)
{
    const int64_t h = args.heads, g = args.kv_heads, d = args.head_dim;
    const at::Tensor &qkv = args.qkv->t;
    if (args.starts)
        return {item_attention(args), {}};
    if (const auto *kernels = gpu_image_kernels(qkv); kernels && is_wide(args))
        return {kernels->wide_attention(qkv, d), {}};
    if (gpu_kernels(qkv) && d <= KILN_HEAD_DIM_MAX)
        return even_attention(args);
    if (args.items > 1)
        return {attention_in_turn(args), {}};
    if (cpu::takes_attention(args))
        return {cpu::attention(args), {}};
    const at::Tensor q = heads_of(&args, 0, h, args.q_norm, true).unsqueeze(0);
    const at::Tensor k = heads_of(&args, h, g, args.k_norm, true).unsqueeze(0);
    const at::Tensor v = heads_of(&args, h + g, g, nullptr, false).unsqueeze(0);
    const at::Tensor out =
        at::scaled_dot_product_attention(q, k, v, {}, 0.0, args.causal, {}, h != g);
    return {out.squeeze(0).transpose(0, 1).reshape({qkv.size(0), h * d}), {}};
}

} // namespace kiln

bool kt_packs(const kt_scope *s, int head_dim)
{
    return s && s->device != KT_CPU && head_dim % 8 == 0 && head_dim <= kiln::widest_head;
}

kt kt_attention(kt_scope *s, const kt_attention_args *args)
{
    return run(s, "attention", {args->qkv}, [&] {
        const int64_t heads = args->heads + 2 * args->kv_heads;
        TORCH_CHECK(args->qkv->t.size(1) == heads * args->head_dim, "packed rows of width ",
                    args->qkv->t.size(1), " for ", args->heads, " + 2*", args->kv_heads,
                    " heads of ", args->head_dim);
        const kt_tensor narrow = kiln::narrow_attention(*args);
        return narrow.t.defined() ? narrow : kiln::formed(kiln::attention(*args), args->form);
    });
}
