/* onednn.cpp - convolutions through oneDNN on the CPU, and which way a linear layer goes. */
#include "pipeline/torch/cpu/products.hpp"

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
                             cpuinfo_has_x86_avx512vl() && cpuinfo_has_x86_avx512dq() &&
                             !cpu::kept_below_avx512();
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

at::Tensor linear(const at::Tensor &x, const at::Tensor &weight, const at::Tensor &bias)
{
    return cpu::takes_product(x, weight) ? cpu::product(x, weight, bias)
                                         : at::linear(x, weight, bias);
}

} // namespace kiln
