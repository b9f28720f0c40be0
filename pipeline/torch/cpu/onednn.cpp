/* onednn.cpp - convolutions and linear layers, through oneDNN on the CPU. */
#include "pipeline/torch/internal.hpp"

#include <cpuinfo.h>

namespace kiln
{

/* oneDNN by name on the CPU, for three reasons.  It is the fastest for all of our sizes. LibTorch's
 * own choice depends on the number of threads, which must not change a picture.  And that choice
 * asks whether cuDNN exists: asked before libkiln_cuda.so is loaded, this process could never use
 * CUDA. oneDNN's bf16 needs AVX-512; without it the convolution runs in fp32. */
at::Tensor convolve(const at::Tensor &x, const at::Tensor &weight, const at::Tensor &bias,
                    int64_t stride, int64_t pad, int64_t dilation)
{
    static const bool wide = cpuinfo_initialize() && cpuinfo_has_x86_avx512bw() &&
                             cpuinfo_has_x86_avx512vl() && cpuinfo_has_x86_avx512dq();
    const int64_t strides[2] = {stride, stride}, pads[2] = {pad, pad};
    const int64_t gaps[2] = {dilation, dilation};
    if (!x.is_cpu() || !at::hasMKLDNN())
        return at::conv2d(x, weight, bias, strides, pads, gaps);
    if (x.scalar_type() == at::kFloat || (wide && x.scalar_type() == at::kBFloat16))
        return at::mkldnn_convolution(x, weight, bias, pads, strides, gaps, 1);
    at::Tensor b = bias.defined() ? bias.to(at::kFloat) : bias;
    return at::mkldnn_convolution(x.to(at::kFloat), weight.to(at::kFloat), b, pads, strides, gaps,
                                  1)
        .to(x.scalar_type());
}

/* In fp32 on the CPU as a 1x1 convolution, which goes to oneDNN.  Matrix products go to MKL, which
 * is half as fast on processors of other makers than Intel. */
at::Tensor linear(const at::Tensor &x, const at::Tensor &weight, const at::Tensor &bias)
{
    if (!x.is_cpu() || x.scalar_type() != at::kFloat || x.dim() != 2 || x.size(0) < 16)
        return at::linear(x, weight, bias);
    int64_t rows = x.size(0), in = x.size(1), out = weight.size(0);
    at::Tensor image = x.contiguous().view({1, rows, 1, in}).permute({0, 3, 1, 2});
    at::Tensor y = convolve(image, weight.contiguous().view({out, in, 1, 1}), bias, 1, 0);
    return y.permute({0, 2, 3, 1}).reshape({rows, out});
}

} // namespace kiln
