/* attention.hpp - attention on the CPU: two products and a softmax over a block
 * of query rows at a time, whose scores stay in the cache. */
#ifndef KILN_TORCH_CPU_ATTENTION_HPP
#define KILN_TORCH_CPU_ATTENTION_HPP

#include "pipeline/torch/internal.hpp"

namespace kiln::cpu
{

/* Whether `attention` takes these rows, of one item. */
bool takes_attention(const kt_attention_args &args);
/* Scores are fp32, probabilities have the rows' dtype, sums of their products are fp32. */
at::Tensor attention(const kt_attention_args &args);

} // namespace kiln::cpu

#endif
