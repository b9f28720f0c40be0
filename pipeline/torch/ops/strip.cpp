/* strip.cpp - group norm of a picture that comes in strips of rows; see tensor.h.
 *
 * Kiln's kernels where there are some (fp32 and bf16 on the CPU, bf16 on a GPU); anything else in
 * LibTorch's operators, in fp64, of which it has little to do.
 */
#include "pipeline/torch/cpu/kernels.hpp"

#include "kernels/pictures/group_norm_silu.h"
#include "pipeline/torch/cuda/plugin.hpp"

using kiln::channels_last;
using kiln::run;
using kiln::run_void;

static bool in_bound(const at::Tensor &x)
{
    return x.size(1) <= KILN_NORM_CHANNELS_MAX;
}

kt kt_picture(kt_scope *s, kt_dtype dtype, int64_t channels, int64_t height, int64_t width)
{
    return run(s, "picture", {}, [&] {
        return at::empty({1, channels, height, width},
                         at::TensorOptions(s->place()).dtype(kiln::scalar_of(dtype)),
                         at::MemoryFormat::ChannelsLast);
    });
}

void kt_strip_norm_start(kt_scope *s, struct kt_strip_norm *n, kt x)
{
    n->origin = run(s, "strip_norm", {x},
                    [&] { return x->t.select(0, 0).select(1, 0).select(1, 0).clone(); });
    n->sums = run(s, "strip_norm", {x}, [&] {
        return at::zeros({2, x->t.size(1)}, x->t.options().dtype(at::kDouble));
    });
}

void kt_strip_norm_add(kt_scope *s, const struct kt_strip_norm *n, kt strip)
{
    run_void(s, "strip_norm_add", {n->origin, n->sums, n->norm.weight, n->norm.bias, strip}, [&] {
        const at::Tensor x = channels_last(strip->t);
        if (kiln::cpu::takes(x) && in_bound(x))
            return kiln::cpu::strip_norm_add(*n, x);
        if (const auto *kernels = kiln::gpu_image_kernels(x); kernels && in_bound(x))
            return kernels->strip_norm_add(*n, x);
        const at::Tensor about =
            x.to(at::kDouble) - n->origin->t.to(at::kDouble).view({1, -1, 1, 1});
        n->sums->t.select(0, 0).add_(about.sum({0, 2, 3}));
        n->sums->t.select(0, 1).add_(about.square().sum({0, 2, 3}));
    });
}

/* The arithmetic of gains() in kernels/pictures/group_norm_silu_ref.c. */
static at::Tensor normed(const struct kt_strip_norm &n, const at::Tensor &x)
{
    const struct kt_norm &norm = n.norm;
    const int64_t channels = x.size(1), width = channels / norm.groups;
    const auto pixels = static_cast<double>(n.pixels);
    const at::Tensor x_bias =
        norm.x_bias ? norm.x_bias->t.to(at::kDouble) : at::zeros_like(n.sums->t.select(0, 0));
    const at::Tensor origin = n.origin->t.to(at::kDouble) + x_bias;
    const at::Tensor first = n.sums->t.select(0, 0) / pixels;
    const at::Tensor mean = (origin + first).view({-1, width}).mean(1).repeat_interleave(width);
    const at::Tensor shift = origin - mean;
    const at::Tensor second = n.sums->t.select(0, 1) / pixels + 2 * shift * first + shift.square();
    const at::Tensor variance =
        second.view({-1, width}).mean(1).repeat_interleave(width).clamp_min(0);
    const at::Tensor gain = (variance + norm.eps).rsqrt() * norm.weight->t.to(at::kDouble);
    const at::Tensor offset = norm.bias->t.to(at::kDouble) - (mean - x_bias) * gain;
    const at::Tensor y = (x.to(at::kFloat) * gain.to(at::kFloat).view({1, -1, 1, 1}) +
                          offset.to(at::kFloat).view({1, -1, 1, 1}))
                             .to(x.scalar_type());
    return norm.silu ? at::silu(y) : y;
}

kt kt_strip_norm(kt_scope *s, const struct kt_strip_norm *n, kt strip)
{
    return run(s, "strip_norm", {n->origin, n->sums, n->norm.weight, n->norm.bias, strip}, [&] {
        const at::Tensor x = channels_last(strip->t);
        if (kiln::cpu::takes(x) && in_bound(x))
            return kiln::cpu::strip_norm(*n, x);
        if (const auto *kernels = kiln::gpu_image_kernels(x); kernels && in_bound(x))
            return kernels->strip_norm(*n, x);
        return normed(*n, x);
    });
}
