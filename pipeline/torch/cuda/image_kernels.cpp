/* image_kernels.cpp - the decoder's kernels over tensors: bf16 pictures [n,C,H,W], channels last,
 * on the current stream of their device; see plugin.hpp. */
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

#include "kernels/attention/softmax.h"
#include "kernels/pictures/downscale.h"
#include "kernels/pictures/group_norm_silu.h"
#include "kernels/pictures/rgb8.h"
#include "pipeline/torch/cuda/cudnn_conv.hpp"
#include "pipeline/torch/cuda/image_kernels.hpp"
#include "pipeline/torch/internal.hpp"

namespace kiln
{

/* Scores of one block of query rows of attention: 256 MiB of fp32.  At 1024 px these are 4096 rows,
 * with one tile of the product with v for each multiprocessor. */
static constexpr int64_t score_values = 64 * 1024 * 1024;

static kiln_stream stream_of(const at::Tensor &x)
{
    return at::cuda::getCurrentCUDAStream(x.device().index()).stream();
}

static void check(int code, const kiln_error &err)
{
    TORCH_CHECK(code == 0, err.text);
}

/* Zeros behind x along its first dimension, up to a multiple of eight. */
static at::Tensor in_eights(const at::Tensor &x)
{
    const int64_t missing = -x.size(0) & 7;
    if (missing == 0)
        return x;
    std::vector<int64_t> pads(static_cast<size_t>(2 * x.dim()), 0);
    pads.back() = missing; /* pads run from the last dimension to the first */
    const at::Tensor padded = at::constant_pad_nd(x, pads);
    return x.dim() == 4 ? channels_last(padded) : padded;
}

/* The last convolution has three results: cuDNN's fast kernels want eight, of which the caller sees
 * the first three, as strides of the same memory. */
static at::Tensor convolve_image(const kt_conv_args &args)
{
    const c10::cuda::CUDAGuard guard(args.x->t.device());
    const at::Tensor x = channels_last(args.x->t), weight = channels_last(args.weight->t);
    const at::Tensor bias = args.bias ? args.bias->t.contiguous() : at::Tensor();
    const at::Tensor add = args.add ? channels_last(args.add->t) : at::Tensor();
    const int64_t dilation = args.dilation ? args.dilation : 1, out = weight.size(0);
    at::Tensor y = args.into && out % 8 == 0 ? args.into->t : at::Tensor();
    if (add.defined() && out % 8)
        return {};
    const bool done =
        cudnn_convolve(x, in_eights(weight), bias.defined() ? in_eights(bias) : bias, add,
                       args.stride, {args.pad_before, args.pad_after}, dilation, y);
    return done ? y.narrow(1, 0, out) : at::Tensor();
}

static at::Tensor upsample_convolve(const at::Tensor &x, const at::Tensor &weight)
{
    const c10::cuda::CUDAGuard guard(x.device());
    at::Tensor y;
    (void)cudnn_convolve_transposed(x, weight, 2, {1, 1}, y);
    return y;
}

/* A norm's operands as the kernels want them, and the memory they work in. */
struct norm_operands {
    at::Tensor weight, bias, x_bias, origin, workspace;
    kiln_group_norm args{};

    norm_operands(const struct kt_norm &n, const at::Tensor &x, const at::Tensor &y, int64_t pixels)
        : weight(n.weight->t.contiguous()), bias(n.bias->t.contiguous())
    {
        args.x = x.const_data_ptr(), args.y = y.data_ptr();
        args.weight = weight.const_data_ptr(), args.bias = bias.const_data_ptr();
        if (n.x_bias)
            x_bias = n.x_bias->t.contiguous(), args.x_bias = x_bias.const_data_ptr();
        args.pixels = pixels, args.channels = static_cast<int>(x.size(1));
        args.groups = n.groups, args.eps = static_cast<float>(n.eps), args.silu = n.silu;
        args.format = KILN_BF16;
        const auto bytes = static_cast<int64_t>(kiln_group_norm_workspace(&args, x.size(0)));
        workspace = at::empty({bytes}, x.options().dtype(at::kByte));
    }
};

static int64_t pixels_of(const at::Tensor &x)
{
    return x.size(2) * x.size(3);
}

static void group_norm(const at::Tensor &x, const at::Tensor &y, const struct kt_norm &n)
{
    const c10::cuda::CUDAGuard guard(x.device());
    const norm_operands o(n, x, y, pixels_of(x));
    kiln_error err;
    check(kiln_group_norm_launch(&o.args, x.size(0), o.workspace.data_ptr(), stream_of(x), &err),
          err);
}

/* A strip is one picture's. */
static norm_operands strip_operands(const struct kt_strip_norm &n, const at::Tensor &x,
                                    const at::Tensor &y)
{
    norm_operands o(n.norm, x, y, n.pixels);
    o.origin = n.origin->t.contiguous(), o.args.origin = o.origin.const_data_ptr();
    return o;
}

static void strip_norm_add(const struct kt_strip_norm &n, const at::Tensor &picture)
{
    const c10::cuda::CUDAGuard guard(picture.device());
    const at::Tensor x = channels_last(picture);
    const norm_operands o = strip_operands(n, x, x);
    kiln_error err;
    check(kiln_group_norm_add_launch(&o.args, pixels_of(x), n.sums->t.data_ptr<double>(),
                                     o.workspace.data_ptr(), stream_of(x), &err),
          err);
}

static at::Tensor strip_norm(const struct kt_strip_norm &n, const at::Tensor &picture)
{
    const c10::cuda::CUDAGuard guard(picture.device());
    const at::Tensor x = channels_last(picture), y = at::empty_like(x);
    const norm_operands o = strip_operands(n, x, y);
    kiln_error err;
    check(kiln_group_norm_part_launch(&o.args, pixels_of(x), n.sums->t.data_ptr<double>(),
                                      o.workspace.data_ptr(), stream_of(x), &err),
          err);
    return y;
}

/* Straight from the memory of a convolution, whose pixels may have more channels than x shows. */
static at::Tensor rgb8(const at::Tensor &picture, const at::Tensor &bad)
{
    const c10::cuda::CUDAGuard guard(picture.device());
    const int64_t width = picture.size(3), channels = picture.stride(3);
    const bool dense = picture.stride(1) == 1 && picture.stride(2) == width * channels;
    const at::Tensor x = dense ? picture : channels_last(picture);
    const int64_t pixels = x.size(2) * width;
    TORCH_CHECK(!bad.defined() || bad.device() == x.device(), "a picture's mark lies elsewhere");
    at::Tensor bytes = at::empty({3 * pixels}, x.options().dtype(at::kByte));
    const kiln_rgb8 args{x.const_data_ptr(),
                         bytes.data_ptr<uint8_t>(),
                         bad.defined() ? reinterpret_cast<uint32_t *>(bad.data_ptr<int32_t>())
                                       : nullptr,
                         pixels,
                         static_cast<int>(x.stride(3)),
                         KILN_BF16};
    kiln_error err;
    check(kiln_rgb8_launch(&args, stream_of(x), &err), err);
    return bytes;
}

static constexpr int64_t stored_bytes = 65536, light_bytes = 256 * sizeof(uint16_t);

/* The tables of the reference on a device, stored values before light: copied once, in a stream of
 * their own that alone is waited for, and never freed, since CUDA may end before static objects. */
static const at::Tensor &downscale_tables(const at::Device &device)
{
    static std::mutex mutex;
    static auto &tables = *new std::map<c10::DeviceIndex, at::Tensor>;
    const std::lock_guard<std::mutex> lock(mutex);
    at::Tensor &table = tables[device.index()];
    if (!table.defined()) {
        const uint16_t *light;
        const uint8_t *stored;
        kiln_downscale_tables(&light, &stored);
        at::Tensor host = at::empty({stored_bytes + light_bytes}, at::kByte);
        std::memcpy(host.data_ptr<uint8_t>(), stored, stored_bytes);
        std::memcpy(host.data_ptr<uint8_t>() + stored_bytes, light, light_bytes);
        const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool(false, device.index()));
        table = host.to(device);
    }
    return table;
}

static at::Tensor downscale(const at::Tensor &rgb, const struct kt_downscale &to)
{
    const c10::cuda::CUDAGuard guard(rgb.device());
    const uint8_t *table = downscale_tables(rgb.device()).const_data_ptr<uint8_t>();
    at::Tensor out = at::empty({int64_t{3} * to.out_width * to.out_height}, rgb.options());
    kiln_downscale args{};
    args.src = rgb.const_data_ptr<uint8_t>(), args.dst = out.data_ptr<uint8_t>();
    args.width = to.width, args.height = to.height;
    args.out_width = to.out_width, args.out_height = to.out_height;
    args.light = reinterpret_cast<const uint16_t *>(table + stored_bytes), args.stored = table;
    kiln_error err;
    check(kiln_downscale_launch(&args, stream_of(rgb), &err), err);
    return out;
}

/* softmax(q k^T / sqrt(d)) v of one head that is too wide for fused attention, in blocks of query
 * rows: the scores of a block are fp32 from the product to the probabilities. */
static at::Tensor wide_attention(const at::Tensor &qkv, int64_t d)
{
    const c10::cuda::CUDAGuard guard(qkv.device());
    const int64_t rows = qkv.size(0), block = std::clamp<int64_t>(score_values / rows, 1, rows);
    const at::Tensor k = qkv.narrow(1, d, d).t(), v = qkv.narrow(1, 2 * d, d);
    at::Tensor out = at::empty({rows, d}, qkv.options());
    at::Tensor scores = at::empty({block, rows}, qkv.options().dtype(at::kFloat));
    at::Tensor shares = at::empty({block, rows}, qkv.options());
    for (int64_t row = 0; row < rows; row += block) {
        const int64_t n = std::min(block, rows - row);
        at::Tensor s = scores.narrow(0, 0, n), p = shares.narrow(0, 0, n);
        at::mm_out(s, qkv.narrow(0, row, n).narrow(1, 0, d), k, at::kFloat);
        const kiln_softmax args{s.data_ptr<float>(), p.data_ptr(), rows, KILN_BF16,
                                1.0f / std::sqrt(static_cast<float>(d)), nullptr};
        kiln_error err;
        check(kiln_softmax_launch(&args, n, stream_of(qkv), &err), err);
        at::Tensor part = out.narrow(0, row, n);
        at::mm_out(part, p, v);
    }
    return out;
}

const image_kernels cuda_image_kernels = {convolve_image,    group_norm, strip_norm_add, strip_norm,
                                          upsample_convolve, rgb8,       wide_attention, downscale};

} // namespace kiln
