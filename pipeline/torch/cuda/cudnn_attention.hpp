/* cudnn_attention.hpp - attention whose two products multiply e4m3, by one kernel of cuDNN's.
 *
 *     out = softmax(q k^T / sqrt(head_dim)) v
 *
 * Scores, their softmax and both sums are fp32; probabilities are rounded to e4m3 for the second
 * product, times 256, which keeps the digits of those below 1/64.  LibTorch offers cuDNN's
 * attention in 16 bits alone.
 */
#ifndef KILN_TORCH_CUDNN_ATTENTION_HPP
#define KILN_TORCH_CUDNN_ATTENTION_HPP

#include <ATen/ATen.h>

namespace kiln
{

/* Whether cuDNN has such a kernel, on the current device. */
bool cudnn_attends(int64_t rows, int64_t heads, int64_t head_dim);

struct e4m3_heads {
    at::Tensor codes;   /* [rows, 3 * heads * head_dim] e4m3: q, k, v of a row side by side */
    at::Tensor scale;   /* fp32: its first value is what codes of v and of the result stand for; */
    at::Tensor inverse; /* fp32 [1]: one over it; codes of q and k stand for themselves */
    int64_t heads, head_dim;
};

/* The result's codes into out, [rows, heads * head_dim], dense; false where cuDNN does not do it
 * after all. */
bool cudnn_attend(const e4m3_heads &in, const at::Tensor &out);

} // namespace kiln

#endif
