/* cudnn_attention.hpp - attention by one kernel of cuDNN's, its two products in bf16 or in e4m3.
 *
 *     out = softmax(q k^T / sqrt(head_dim)) v
 *
 * Scores, their softmax and both sums are fp32; probabilities are rounded for the second product,
 * to e4m3 times 256, which keeps the digits of those below 1/64.  LibTorch offers cuDNN's attention
 * in 16 bits alone, and leaves no room behind the rows of its result.
 */
#ifndef KILN_TORCH_CUDNN_ATTENTION_HPP
#define KILN_TORCH_CUDNN_ATTENTION_HPP

#include <ATen/ATen.h>

namespace kiln
{

/* Items of as many rows each, one behind the other, attention within each.  Packed rows are dense,
 * [items * rows, 3 * heads * head_dim], q, k, v of a row side by side; results are
 * [items * rows, heads * head_dim], their rows `pitch` values apart. */
struct attended {
    int64_t items, rows, heads, head_dim, pitch;
};

/* Whether cuDNN has a kernel for packed rows of the type, bf16 or e4m3, on the current device. */
bool cudnn_attends(at::ScalarType type, const attended &shape);

/* Attention of packed rows in bf16 into out; false where cuDNN does not do it after all. */
bool cudnn_attend(const attended &shape, const at::Tensor &qkv, const at::Tensor &out);

struct e4m3_heads {
    at::Tensor codes;    /* packed rows in e4m3; those of q and k stand for themselves */
    at::Tensor scale;    /* fp32: its first value is what a code of the result stands for */
    at::Tensor to_codes; /* fp32 [1]: see kernels/attention/qkv_e4m3.h */
};

/* The same in e4m3; the result is codes, too. */
bool cudnn_attend_e4m3(const attended &shape, const e4m3_heads &in, const at::Tensor &out);

} // namespace kiln

#endif
