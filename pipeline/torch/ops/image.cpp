/* image.cpp - convolutions and norms over pictures, channels last in memory. */
#include "pipeline/torch/cpu/kernels.hpp"

#include "kernels/pictures/downscale.h"
#include "kernels/pictures/group_norm_silu.h"
#include "pipeline/torch/cuda/plugin.hpp"

using kiln::channels_last;
using kiln::run;
using kiln::run_void;

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

/* The norm of x, a dense picture, in new memory or over x itself. */
static at::Tensor normed(const at::Tensor &x, const struct kt_norm &n, bool over)
{
    const bool in_bound = x.size(1) <= KILN_NORM_CHANNELS_MAX;
    const auto *kernels = kiln::gpu_image_kernels(x);
    if (in_bound && (kernels || kiln::cpu::takes(x))) {
        const at::Tensor y = over ? x : at::empty_like(x, at::MemoryFormat::ChannelsLast);
        (kernels ? kernels->group_norm : kiln::cpu::group_norm)(x, y, n);
        return y;
    }
    const at::Tensor whole = n.x_bias ? x + n.x_bias->t.view({1, -1, 1, 1}) : x;
    at::Tensor y = at::group_norm(whole, n.groups, n.weight->t, n.bias->t, n.eps);
    y = n.silu ? at::silu_(y) : y;
    return over ? x.copy_(y) : y;
}

kt kt_group_norm(kt_scope *s, kt x, const struct kt_norm *n)
{
    return run(s, "group_norm", {x, n->weight, n->bias},
               [&] { return normed(channels_last(x->t), *n, false); });
}

void kt_group_norm_over(kt_scope *s, kt x, const struct kt_norm *n)
{
    run_void(s, "group_norm", {x, n->weight, n->bias}, [&] {
        const at::Tensor dense = channels_last(x->t);
        normed(dense, *n, true);
        if (!dense.is_alias_of(x->t))
            x->t.copy_(dense);
    });
}

kt kt_upsample2(kt_scope *s, kt x)
{
    return run(s, "upsample", {x}, [&] {
        return at::upsample_nearest2d(channels_last(x->t), {x->t.size(2) * 2, x->t.size(3) * 2});
    });
}

/* Along one side, taps (a, b, c) of the convolution become (c, b + c, a + b, a) of a transposed one
 * with stride 2: each pixel of x reaches the two pixels that it becomes and one neighbour on either
 * side. */
kt kt_upsample_weight(kt_scope *s, kt weight)
{
    return run(s, "upsample_weight", {weight}, [&] {
        TORCH_CHECK(weight->t.size(2) == 3 && weight->t.size(3) == 3, "a convolution of 3x3, not ",
                    weight->t.size(2), "x", weight->t.size(3));
        at::Tensor w = weight->t.to(at::kFloat).flip({2, 3}).transpose(0, 1);
        w = at::constant_pad_nd(w, {0, 0, 0, 1}) + at::constant_pad_nd(w, {0, 0, 1, 0});
        w = at::constant_pad_nd(w, {0, 1, 0, 0}) + at::constant_pad_nd(w, {1, 0, 0, 0});
        return channels_last(w.to(weight->t.scalar_type()));
    });
}

kt kt_upsample_conv2d(kt_scope *s, kt x, kt weight)
{
    return run(s, "upsample_conv2d", {x, weight}, [&] {
        const at::Tensor picture = channels_last(x->t), w = channels_last(weight->t);
        TORCH_CHECK(w.size(0) == picture.size(1) && w.size(2) == 4 && w.size(3) == 4,
                    "a weight of ", w.sizes(), " for ", picture.size(1), " channels");
        if (const auto *kernels = kiln::gpu_image_kernels(picture)) {
            at::Tensor y = kernels->upsample_convolve(picture, w);
            if (y.defined())
                return y;
        }
        /* deterministic: the same order of sums in every run */
        const bool benchmark = false, deterministic = true, cudnn = true, tf32 = false;
        return channels_last(at::_convolution(picture, w, {}, {2, 2}, {1, 1}, {1, 1},
                                              /*transposed=*/true, {0, 0}, /*groups=*/1, benchmark,
                                              deterministic, cudnn, tf32));
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

kt kt_rgb8(kt_scope *s, kt x, kt bad)
{
    return run(s, "rgb8", {x}, [&] {
        const at::Tensor mark = kiln::maybe(bad);
        if (const auto *kernels = kiln::gpu_image_kernels(x->t))
            return kernels->rgb8(x->t, mark);
        /* Infinities and NaN survive a sum, and a sum reads each value once. */
        if (mark.defined())
            mark.bitwise_or_(at::isfinite(x->t.sum(at::kDouble)).logical_not().to(at::kInt));
        at::Tensor unit = (x->t.to(at::kFloat) / 2 + 0.5).clamp_(0, 1);
        at::Tensor bytes = unit.mul_(255).round_().to(at::kByte).permute({0, 2, 3, 1});
        return bytes.contiguous().flatten();
    });
}

kt kt_of_rgb8(kt_scope *s, kt rgb, int64_t height, int64_t width)
{
    return run(s, "of_rgb8", {rgb}, [&] {
        TORCH_CHECK(rgb->t.scalar_type() == at::kByte && rgb->t.numel() == 3 * height * width,
                    "these are not the bytes of ", width, " x ", height, " pixels");
        at::Tensor x = rgb->t.view({1, height, width, 3}).to(at::kFloat).permute({0, 3, 1, 2});
        /* By a number, a GPU would multiply with its inverse. */
        return x.div_(at::full({1}, 255, x.options())).mul_(2).sub_(1);
    });
}

kt kt_gaussian(kt_scope *s, kt moments, kt noise)
{
    return run(s, "gaussian", {moments}, [&] {
        const at::Tensor x = moments->t.squeeze(0).to(at::kFloat).contiguous();
        const auto parts = x.chunk(2, 0);
        if (!noise)
            return parts[0].clone();
        at::Tensor deviation = parts[1].clamp(-30, 20).mul_(0.5).exp_();
        return deviation.mul_(noise->t).add_(parts[0]);
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
