/* image_ops.cpp - convolutions and norms over pictures, channels last in memory. */
#include "pipeline/torch/cpu_ops.hpp"

#include "kernels/downscale.h"
#include "kernels/group_norm_silu.h"
#include "pipeline/torch/cuda/plugin.hpp"

using kiln::run;
using kiln::run_void;

const kiln::image_kernels *kiln::gpu_image_kernels(const at::Tensor &x)
{
    const kiln_cuda_plugin *plugin = cuda_plugin();
    return plugin && x.is_cuda() && x.scalar_type() == at::kBFloat16 ? plugin->image : nullptr;
}

static at::Tensor channels_last(const at::Tensor &x)
{
    return x.contiguous(at::MemoryFormat::ChannelsLast);
}

kt kt_conv_weight(kt_scope *s, kt weight)
{
    return run(s, "conv_weight", {weight}, [&] { return channels_last(weight->t); });
}

static at::Tensor convolved(const struct kt_conv_args &args)
{
    if (const auto *kernels = kiln::gpu_image_kernels(args.x->t)) {
        at::Tensor y = kernels->convolve(args);
        if (y.defined())
            return y;
    }
    at::Tensor x = channels_last(args.x->t);
    int64_t pad = args.pad_before;
    if (args.pad_before != args.pad_after) {
        x = at::constant_pad_nd(x,
                                {args.pad_before, args.pad_after, args.pad_before, args.pad_after});
        pad = 0;
    }
    at::Tensor y = kiln::convolve(x, channels_last(args.weight->t), kiln::maybe(args.bias),
                                  args.stride, pad, args.dilation ? args.dilation : 1);
    return args.add ? y.add_(args.add->t) : y;
}

kt kt_conv2d(kt_scope *s, const struct kt_conv_args *args)
{
    return run(s, "conv2d", {args->x, args->weight}, [&] {
        at::Tensor y = convolved(*args);
        if (!args->into || y.is_alias_of(args->into->t))
            return y;
        return args->into->t.copy_(y);
    });
}

struct norm_args {
    int groups;
    const at::Tensor &weight, &bias;
    double eps;
    bool silu;
};

/* The norm of x, a dense picture, in new memory or over x itself. */
static at::Tensor normed(const at::Tensor &x, const norm_args &n, bool over)
{
    const bool in_bound = x.size(1) <= KILN_NORM_CHANNELS_MAX;
    const auto *kernels = kiln::gpu_image_kernels(x);
    if (in_bound && (kernels || kiln::cpu::takes(x))) {
        const at::Tensor y = over ? x : at::empty_like(x, at::MemoryFormat::ChannelsLast);
        (kernels ? kernels->group_norm : kiln::cpu::group_norm)(x, y, n.groups, n.weight, n.bias,
                                                                n.eps, n.silu);
        return y;
    }
    at::Tensor y = at::group_norm(x, n.groups, n.weight, n.bias, n.eps);
    y = n.silu ? at::silu_(y) : y;
    return over ? x.copy_(y) : y;
}

kt kt_group_norm(kt_scope *s, kt x, int groups, kt weight, kt bias, double eps, bool silu)
{
    return run(s, "group_norm", {x, weight, bias}, [&] {
        return normed(channels_last(x->t), {groups, weight->t, bias->t, eps, silu}, false);
    });
}

void kt_group_norm_over(kt_scope *s, kt x, int groups, kt weight, kt bias, double eps, bool silu)
{
    run_void(s, "group_norm", {x, weight, bias}, [&] {
        const at::Tensor dense = channels_last(x->t);
        normed(dense, {groups, weight->t, bias->t, eps, silu}, true);
        if (!dense.is_alias_of(x->t))
            x->t.copy_(dense);
    });
}

kt kt_upsample2(kt_scope *s, kt x)
{
    return run(s, "upsample", {x}, [&] {
        if (const auto *kernels = kiln::gpu_image_kernels(x->t))
            return kernels->upsample(x->t);
        return at::upsample_nearest2d(channels_last(x->t), {x->t.size(2) * 2, x->t.size(3) * 2});
    });
}

kt kt_resize(kt_scope *s, kt x, int64_t height, int64_t width, bool area)
{
    return run(s, "resize", {x}, [&] {
        if (area)
            return at::adaptive_avg_pool2d(channels_last(x->t), {height, width});
        return at::upsample_bilinear2d(channels_last(x->t), {height, width}, false);
    });
}

kt kt_mean_max(kt_scope *s, kt x)
{
    return run(s, "mean_max", {x}, [&] {
        return at::cat({x->t.mean({2, 3}), x->t.amax({2, 3})}, 1);
    });
}

kt kt_pictures_in(kt_scope *s, kt x, int64_t channels)
{
    return run(s, "pictures_in", {x}, [&] {
        const int64_t height = x->t.size(2), width = x->t.size(3), count = x->t.size(1) / channels;
        TORCH_CHECK(x->t.is_contiguous(at::MemoryFormat::ChannelsLast) &&
                        count * channels == x->t.size(1),
                    "a picture of ", x->t.size(1), " channels has none of ", channels, " in it");
        return x->t.permute({0, 2, 3, 1})
            .view({count, height, width, channels})
            .permute({0, 3, 1, 2});
    });
}

kt kt_image_rows(kt_scope *s, kt x)
{
    return run(s, "image_rows", {x}, [&] {
        int64_t channels = x->t.size(1), pixels = x->t.size(2) * x->t.size(3);
        return channels_last(x->t).permute({0, 2, 3, 1}).reshape({pixels, channels});
    });
}

kt kt_rows_image(kt_scope *s, kt x, int64_t height, int64_t width)
{
    return run(s, "rows_image", {x}, [&] {
        return x->t.reshape({1, height, width, x->t.size(1)}).permute({0, 3, 1, 2});
    });
}

kt kt_rgb8(kt_scope *s, kt x)
{
    return run(s, "rgb8", {x}, [&] {
        if (const auto *kernels = kiln::gpu_image_kernels(x->t))
            return kernels->rgb8(x->t);
        at::Tensor unit = (x->t.to(at::kFloat) / 2 + 0.5).clamp_(0, 1);
        at::Tensor bytes = unit.mul_(255).round_().to(at::kByte).permute({0, 2, 3, 1});
        return bytes.contiguous().flatten();
    });
}

kt kt_downscale(kt_scope *s, kt rgb, const struct kt_downscale *to)
{
    return run(s, "downscale", {rgb}, [&] {
        TORCH_CHECK(rgb->t.scalar_type() == at::kByte &&
                        rgb->t.numel() == int64_t{3} * to->width * to->height,
                    "these are not the bytes of ", to->width, " x ", to->height, " pixels");
        TORCH_CHECK(to->out_width > 0 && to->out_width <= to->width && to->out_height > 0 &&
                        to->out_height <= to->height,
                    to->width, " x ", to->height, " to ", to->out_width, " x ", to->out_height);
        at::Tensor in = rgb->t.contiguous();
        if (in.is_cuda())
            return kiln::cuda_plugin()->image->downscale(in, *to);
        at::Tensor out = at::empty({int64_t{3} * to->out_width * to->out_height}, in.options());
        kiln_downscale_ref(in.const_data_ptr<uint8_t>(), to->width, to->height,
                           out.data_ptr<uint8_t>(), to->out_width, to->out_height);
        return out;
    });
}
