/* model_ops.cpp - norms, the gated feed-forward and attention. */
#include "pipeline/torch/cpu_ops.hpp"

#include <cmath>
#include <vector>

#include "kernels/qkv_rope.h"
#include "pipeline/torch/cuda/plugin.hpp"

using kiln::run;

namespace kiln
{

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

/* LibTorch's call of cuDNN by name: its own choice takes half as fast a kernel for some shapes.
 * What cuDNN refuses goes to that choice after all. */
at::Tensor fused_attention(const at::Tensor &q, const at::Tensor &k, const at::Tensor &v,
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
    /* Item by item: how many there are may decide how many parts a sum is made of. */
    std::vector<at::Tensor> items;
    for (int64_t i = 0; i < q.size(0); i++)
        items.push_back(at::scaled_dot_product_attention(q.narrow(0, i, 1), k.narrow(0, i, 1),
                                                         v.narrow(0, i, 1), {}, 0.0, causal, {},
                                                         q.size(1) != k.size(1)));
    return items.size() == 1 ? items[0] : at::cat(items);
}

/* In eight bits, where that is wanted and there are kernels for it; nothing otherwise. */
static kt_tensor narrow_attention(const kt_attention_args &a)
{
    const model_kernels *gpu = gpu_kernels(a.qkv->t);
    if (!a.narrow || !a.form.e4m3 || !gpu || a.starts || a.causal ||
        !likes_e4m3(a.qkv->t.get_device()))
        return {};
    return gpu->attend_e4m3(a, a.qkv->t.contiguous());
}

/* One bare head that fused attention does not take: that of the autoencoder. */
static bool is_wide(const kt_attention_args &a)
{
    constexpr int widest_fused = 256;
    return a.items <= 1 && a.heads == 1 && a.kv_heads == 1 && a.head_dim > widest_fused &&
           !a.q_norm && !a.k_norm && !a.cos && !a.causal;
}

} // namespace kiln

/* RMS(x) * gain, onto add where there is one, wherever the kernels of the GPU do not apply; these
 * and the CPU's alone take tails. */
static at::Tensor norm_any(const at::Tensor &x, const at::Tensor &gain, double eps,
                           const at::Tensor &add)
{
    if (kiln::cpu::takes(x))
        return kiln::cpu::rms_norm(x, gain, eps, add);
    const at::Tensor wide = x.to(at::kFloat);
    const at::Tensor y = wide * at::rsqrt(wide.pow(2).mean({-1}, true).add_(eps)) * gain;
    return (add.defined() ? add + y : y).to(x.scalar_type());
}

/* The kernels of the GPU, if they take rows of n values like x. */
static const kiln::model_kernels *row_kernels(const at::Tensor &x, int64_t n)
{
    return n <= KILN_ROW_MAX ? kiln::gpu_kernels(x) : nullptr;
}

kt kt_with_tails(kt_scope *s, kt x)
{
    return run(s, "with_tails", {x}, [&] {
        const int64_t n = x->t.size(-1);
        if (!kiln::takes_tails(x->t, n) || !(kiln::cpu::takes(x->t) || row_kernels(x->t, n)))
            return x->t;
        return at::constant_pad_nd(x->t, {0, KILN_TAILED(n) - n}, 0);
    });
}

kt kt_rms_norm(kt_scope *s, kt x, kt gain, double eps, kt_form form)
{
    return run(s, "rms_norm", {x, gain}, [&] {
        const kiln::model_kernels *gpu = row_kernels(x->t, gain->t.numel());
        if (gpu)
            return gpu->rms_norm(x->t, gain->t, eps, form);
        return kiln::formed({norm_any(x->t, gain->t, eps, {}), {}}, form);
    });
}

void kt_add_rms_norm(kt_scope *s, const struct kt_residual_norm *args, kt *ret_x, kt *ret_next)
{
    const kt_residual_norm &a = *args;
    kt_tensor next;
    *ret_next = nullptr;
    *ret_x = run(s, "add_rms_norm", {a.x, a.y, a.gain}, [&] {
        const kiln::model_kernels *gpu = row_kernels(a.y->t, a.y->t.size(-1));
        if (gpu)
            return gpu->add_rms_norm(a, &next);
        at::Tensor x = norm_any(a.y->t, a.gain->t, a.eps, a.x->t);
        if (a.next_gain)
            next = kiln::formed({norm_any(x, a.next_gain->t, a.eps, {}), {}}, a.next_form);
        return x;
    });
    if (a.next_gain)
        *ret_next = run(s, "add_rms_norm", {*ret_x}, [&] { return next; });
}

kt kt_layer_norm_scale(kt_scope *s, kt x, double eps, kt scale)
{
    return run(s, "layer_norm", {x, scale}, [&] {
        const kiln::model_kernels *gpu = row_kernels(x->t, scale->t.numel());
        if (gpu)
            return gpu->layer_norm(x->t, eps, scale->t);
        if (kiln::cpu::takes(x->t))
            return kiln::cpu::layer_norm(x->t, eps, scale->t);
        const at::Tensor wide = x->t.to(at::kFloat);
        return (at::layer_norm(wide, {wide.size(-1)}, {}, {}, eps) * scale->t)
            .to(x->t.scalar_type());
    });
}

kt kt_swiglu(kt_scope *s, kt gate_up, kt_form form)
{
    return run(s, "swiglu", {gate_up}, [&] {
        int64_t n = gate_up->t.size(-1) / 2;
        const kiln::model_kernels *gpu = row_kernels(gate_up->t, n);
        if (gpu)
            return gpu->swiglu(gate_up->t, form);
        if (kiln::cpu::takes(gate_up->t))
            return kiln::formed({kiln::cpu::swiglu(gate_up->t), {}}, form);
        return kiln::formed(
            {at::silu(gate_up->t.narrow(-1, 0, n)) * gate_up->t.narrow(-1, n, n), {}}, form);
    });
}

static kt_tensor attention(const kt_attention_args &args);

/* Each item by itself. */
static at::Tensor attention_in_turn(const kt_attention_args &args)
{
    const int64_t rows = kiln::item_rows(args);
    std::vector<at::Tensor> results;
    for (int64_t i = 0; i < args.items; i++) {
        kt_tensor item{args.qkv->t.narrow(0, i * rows, rows), {}};
        kt_attention_args alone = args;
        alone.qkv = &item, alone.items = 1;
        results.push_back(attention(alone).t);
    }
    return at::cat(results);
}

/* In the numbers of the rows. */
static kt_tensor attention(const kt_attention_args &args)
{
    const int64_t h = args.heads, g = args.kv_heads, d = args.head_dim;
    const at::Tensor &qkv = args.qkv->t;
    if (args.starts)
        return {kiln::item_attention(args), {}};
    if (const auto *kernels = kiln::gpu_image_kernels(qkv); kernels && kiln::is_wide(args))
        return {kernels->wide_attention(qkv, d), {}};
    if (kiln::gpu_kernels(qkv) && d <= KILN_HEAD_DIM_MAX)
        return kiln::even_attention(args);
    if (args.items > 1)
        return {attention_in_turn(args), {}};
    if (kiln::cpu::takes(qkv) && d <= KILN_HEAD_DIM_MAX)
        return {kiln::cpu::attention(args), {}};
    const at::Tensor q = kiln::heads_of(&args, 0, h, args.q_norm, true).unsqueeze(0);
    const at::Tensor k = kiln::heads_of(&args, h, g, args.k_norm, true).unsqueeze(0);
    const at::Tensor v = kiln::heads_of(&args, h + g, g, nullptr, false).unsqueeze(0);
    const at::Tensor out =
        at::scaled_dot_product_attention(q, k, v, {}, 0.0, args.causal, {}, h != g);
    return {out.squeeze(0).transpose(0, 1).reshape({qkv.size(0), h * d}), {}};
}

kt kt_attention(kt_scope *s, const kt_attention_args *args)
{
    return run(s, "attention", {args->qkv}, [&] {
        const int64_t heads = args->heads + 2 * args->kv_heads;
        TORCH_CHECK(args->qkv->t.size(1) == heads * args->head_dim, "packed rows of width ",
                    args->qkv->t.size(1), " for ", args->heads, " + 2*", args->kv_heads,
                    " heads of ", args->head_dim);
        const kt_tensor narrow = kiln::narrow_attention(*args);
        return narrow.t.defined() ? narrow : kiln::formed(attention(*args), args->form);
    });
}
