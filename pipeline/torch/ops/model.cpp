/* model.cpp - norms and the gate of the feed-forward layer. */
#include "pipeline/torch/cpu/kernels.hpp"

#include "pipeline/torch/cuda/plugin.hpp"

using kiln::run;

/* RMS(x) * gain, plus add unless that is undefined, without the GPU's kernels.  Rows with tails
 * only on the CPU. */
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
