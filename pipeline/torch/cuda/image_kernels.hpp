/* image_kernels.hpp - what pictures need on a GPU: the part of the plug-in's table that is called
 * for tensors on a CUDA device, bf16 but for bytes.  Pictures are [n,C,H,W], channels last; all
 * throw as LibTorch does.
 */
#ifndef KILN_TORCH_IMAGE_KERNELS_HPP
#define KILN_TORCH_IMAGE_KERNELS_HPP

#include <ATen/ATen.h>

#include "pipeline/torch/tensor.h"

namespace kiln
{

struct image_kernels {
    /* Undefined where no single kernel does it all: the caller then goes through LibTorch.  In new
     * memory where the kernel cannot write into that of the arguments. */
    at::Tensor (*convolve)(const kt_conv_args &args);
    /* y: dense, may be x. */
    void (*group_norm)(const at::Tensor &x, const at::Tensor &y, const struct kt_norm &n);
    void (*strip_norm_add)(const struct kt_strip_norm &n, const at::Tensor &strip);
    at::Tensor (*strip_norm)(const struct kt_strip_norm &n, const at::Tensor &strip);
    /* Undefined as above; all dense. */
    at::Tensor (*upsample_convolve)(const at::Tensor &x, const at::Tensor &weight);
    /* The first three channels as bytes, on the device; bad: of kt_rgb8(), or undefined. */
    at::Tensor (*rgb8)(const at::Tensor &x, const at::Tensor &bad);
    /* Packed rows [rows, 3d] of one head without norms and angles. */
    at::Tensor (*wide_attention)(const at::Tensor &qkv, int64_t d);
    /* Bytes, of one picture. */
    at::Tensor (*downscale)(const at::Tensor &rgb, const struct kt_downscale &to);
};

extern const image_kernels cuda_image_kernels; /* in libkiln_cuda.so */

} // namespace kiln

#endif
