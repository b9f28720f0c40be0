/* kernels.hpp - the kernels of kernels/ on the CPU, over LibTorch's tensors and threads.  Callers
 * check takes() first; for other devices and dtypes they compose LibTorch's operators instead. */
#ifndef KILN_TORCH_CPU_KERNELS_HPP
#define KILN_TORCH_CPU_KERNELS_HPP

#include "pipeline/torch/internal.hpp"

namespace kiln::cpu
{

/* fp32 or bf16, in host memory. */
bool takes(const at::Tensor &x);

/* RMS(x) * gain, or add + RMS(x) * gain; add may be undefined.  Where x, or add, has more columns
 * than the gain, these are tails. */
at::Tensor rms_norm(const at::Tensor &x, const at::Tensor &gain, double eps, const at::Tensor &add);
at::Tensor layer_norm(const at::Tensor &x, double eps, const at::Tensor &scale);
at::Tensor swiglu(const at::Tensor &gate_up);
kt_tensor quantise(const at::Tensor &rows, int64_t room);
/* x and y channels last; y may be x. */
void group_norm(const at::Tensor &x, const at::Tensor &y, const struct kt_norm &n);
void strip_norm_add(const struct kt_strip_norm &n, const at::Tensor &strip);
at::Tensor strip_norm(const struct kt_strip_norm &n, const at::Tensor &strip);
/* Operands are checked by the caller; latents [C,H,W] or [items,C,H,W]. */
at::Tensor patchify(const at::Tensor &latent, int patch, at::ScalarType dtype);
void euler_step(const struct kt_euler_step &step);

} // namespace kiln::cpu

#endif
