/* cpu_ops.hpp - the model's own steps on the CPU: the kernels of kernels/ over LibTorch's tensors
 * and threads.  Each is asked first whether it can take the operands; where it cannot (another
 * device or format), the callers compose the same from LibTorch's operators. */
#ifndef KILN_TORCH_CPU_OPS_HPP
#define KILN_TORCH_CPU_OPS_HPP

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
at::Tensor attention(const kt_attention_args &args);
/* x and y channels last; y may be x. */
void group_norm(const at::Tensor &x, const at::Tensor &y, const struct kt_norm &n);
void strip_norm_add(const struct kt_strip_norm &n, const at::Tensor &strip);
at::Tensor strip_norm(const struct kt_strip_norm &n, const at::Tensor &strip);

} // namespace kiln::cpu

#endif
