/* cudnn_conv.hpp - a convolution, its bias and what is added to it, as one cuDNN kernel.
 *
 * bf16, channels last, sums in fp32, one rounding at the end.  LibTorch's own convolution adds the
 * bias in a pass of its own, and the residual in another: at 1024 px those passes are a fifth of
 * a decode (kernels/LAB.md).
 */
#ifndef KILN_TORCH_CUDNN_CONV_HPP
#define KILN_TORCH_CUDNN_CONV_HPP

#include <ATen/ATen.h>

namespace kiln
{

struct conv_padding {
    int64_t before, after; /* zeros around height and width */
};

/* conv(x, weight) + bias + add, into y's memory if there is some that is dense and fits, else y
 * becomes new memory; bias and add may be undefined, all are dense and channels last, and channels
 * come in eights.  False where cuDNN has no single kernel for this shape, or the build had no cuDNN
 * headers: then there is no result. */
bool cudnn_convolve(const at::Tensor &x, const at::Tensor &weight, const at::Tensor &bias,
                    const at::Tensor &add, int64_t stride, conv_padding pad, int64_t dilation,
                    at::Tensor &y);

/* The same for a transposed convolution, weight [c,k,...], with nothing added. */
bool cudnn_convolve_transposed(const at::Tensor &x, const at::Tensor &weight, int64_t stride,
                               conv_padding pad, at::Tensor &y);

} // namespace kiln

#endif
