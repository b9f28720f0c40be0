/* cudnn_conv.cpp - see cudnn_conv.hpp. */
#include "pipeline/torch/cuda/cudnn_conv.hpp"

#include "pipeline/torch/cuda/cudnn_graph.hpp"

#if KILN_CUDNN

namespace kiln
{

using cudnn::descriptor;

/* What the tensors of a graph are called. */
enum slot : int64_t { SLOT_X = 1, SLOT_W, SLOT_BIAS, SLOT_ADD, SLOT_Y, SLOT_SUM, SLOT_BIASED };

struct shape {
    int64_t device, n, c, h, w, k, kernel_h, kernel_w, stride, before, after, dilation = 1;
    bool bias = false, add = false, transposed = false;

    std::vector<int64_t> key() const
    {
        return {device,   cudnn::CONVOLUTION, n,      c,      h,     w,        k,
                kernel_h, kernel_w,           stride, before, after, dilation, bias,
                add,      transposed};
    }
    int64_t out(int64_t side, int64_t kernel) const
    {
        const int64_t reach = dilation * (kernel - 1) + 1, zeros = before + after;
        return transposed ? (side - 1) * stride + reach - zeros
                          : (side + zeros - reach) / stride + 1;
    }
};

/* [n][c][h][w], channels last; between two operations in fp32. */
static descriptor picture(slot id, int64_t n, int64_t c, int64_t h, int64_t w,
                          cudnn::place where = cudnn::ON_DEVICE)
{
    return cudnn::tensor(id, {{n, c, h, w}, {h * w * c, 1, w * c, c}},
                         where == cudnn::BETWEEN ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16, where);
}

static descriptor convolution(const shape &s)
{
    descriptor d(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    d.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    d.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    d.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::vector<int64_t>{s.dilation, s.dilation});
    d.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::vector<int64_t>{s.stride, s.stride});
    d.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::vector<int64_t>{s.before, s.before});
    d.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::vector<int64_t>{s.after, s.after});
    d.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::vector<int64_t>{2});
    d.finalize();
    return d;
}

static descriptor convolving(const descriptor &conv, const descriptor &x, const descriptor &w,
                             const descriptor &y)
{
    descriptor d(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    const float one = 1, zero = 0;
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, conv);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &one);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &zero);
    d.finalize();
    return d;
}

/* A transposed convolution is the gradient of a convolution by its operand. */
static descriptor spreading(const descriptor &conv, const descriptor &x, const descriptor &w,
                            const descriptor &y)
{
    descriptor d(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
    const float one = 1, zero = 0;
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, conv);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, x);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, y);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_TYPE_FLOAT, 1, &one);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT, 1, &zero);
    d.finalize();
    return d;
}

/* y = x * w [+ bias] [+ add]; transposed it stands alone. */
static std::vector<descriptor> operations(const shape &s)
{
    const int64_t oh = s.out(s.h, s.kernel_h), ow = s.out(s.w, s.kernel_w);
    const bool last_is_bias = s.bias && !s.add;
    const descriptor x = picture(SLOT_X, s.n, s.c, s.h, s.w);
    const descriptor w =
        picture(SLOT_W, s.transposed ? s.c : s.k, s.transposed ? s.k : s.c, s.kernel_h, s.kernel_w);
    const descriptor y = picture(SLOT_Y, s.n, s.k, oh, ow);
    const descriptor sum = picture(SLOT_SUM, s.n, s.k, oh, ow, cudnn::BETWEEN);
    const descriptor biased = picture(SLOT_BIASED, s.n, s.k, oh, ow, cudnn::BETWEEN);
    const auto adding = [](const descriptor &to, const descriptor &b, const descriptor &out) {
        return cudnn::pointwise(CUDNN_POINTWISE_ADD, to, &b, out);
    };
    std::vector<descriptor> ops;
    if (s.transposed) {
        ops.push_back(spreading(convolution(s), x, w, y));
        return ops;
    }
    ops.push_back(convolving(convolution(s), x, w, s.bias || s.add ? sum : y));
    if (s.bias)
        ops.push_back(adding(sum, picture(SLOT_BIAS, 1, s.k, 1, 1), last_is_bias ? y : biased));
    if (s.add)
        ops.push_back(adding(s.bias ? biased : sum, picture(SLOT_ADD, s.n, s.k, oh, ow), y));
    return ops;
}

/* Without the number of results, of which a plain weight has its first dimension. */
static shape shape_of(const at::Tensor &x, const at::Tensor &weight, int64_t stride,
                      conv_padding pad)
{
    shape s;
    s.device = x.device().index();
    s.n = x.size(0), s.c = x.size(1), s.h = x.size(2), s.w = x.size(3);
    s.kernel_h = weight.size(2), s.kernel_w = weight.size(3);
    s.stride = stride, s.before = pad.before, s.after = pad.after;
    return s;
}

/* Into y's memory if there is some that is dense and fits, or new. */
static bool run(const shape &s, const at::Tensor &x, const at::Tensor &weight,
                const at::Tensor &bias, const at::Tensor &add, at::Tensor &y)
{
    if (s.c % 8 || s.k % 8)
        return false;
    const std::vector<int64_t> sizes{s.n, s.k, s.out(s.h, s.kernel_h), s.out(s.w, s.kernel_w)};
    const bool fits =
        y.defined() && y.sizes() == sizes && y.is_contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor out =
        fits ? y : at::empty(sizes, x.options().memory_format(at::MemoryFormat::ChannelsLast));
    cudnn::request what{s.key(),
                        [&] { return operations(s); },
                        {CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
                         CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_FFT},
                        /*frugal=*/false,
                        {},
                        {}};
    what.bind(SLOT_X, x);
    what.bind(SLOT_W, weight);
    what.bind(SLOT_Y, out);
    if (bias.defined())
        what.bind(SLOT_BIAS, bias);
    if (add.defined())
        what.bind(SLOT_ADD, add);
    if (!cudnn::run(what, x.device()))
        return false;
    y = out;
    return true;
}

bool cudnn_convolve(const at::Tensor &x, const at::Tensor &weight, const at::Tensor &bias,
                    const at::Tensor &add, int64_t stride, conv_padding pad, int64_t dilation,
                    at::Tensor &y)
{
    shape s = shape_of(x, weight, stride, pad);
    s.k = weight.size(0), s.dilation = dilation;
    s.bias = bias.defined(), s.add = add.defined();
    return run(s, x, weight, bias, add, y);
}

bool cudnn_convolve_transposed(const at::Tensor &x, const at::Tensor &weight, int64_t stride,
                               conv_padding pad, at::Tensor &y)
{
    shape s = shape_of(x, weight, stride, pad);
    s.k = weight.size(1), s.transposed = true;
    return run(s, x, weight, {}, {}, y);
}

} // namespace kiln

#else

#pragma message(                                                                                       \
    "cudnn.h was not found: convolutions are LibTorch's, with passes of their own for what is added, " \
    "and attention of FP8 pictures stays in bf16")

namespace kiln
{

bool cudnn_convolve(const at::Tensor &, const at::Tensor &, const at::Tensor &, const at::Tensor &,
                    int64_t, conv_padding, int64_t, at::Tensor &)
{
    return false;
}

bool cudnn_convolve_transposed(const at::Tensor &, const at::Tensor &, int64_t, conv_padding,
                               at::Tensor &)
{
    return false;
}

} // namespace kiln

#endif
