/* products.hpp - the transformer's matrix products on a GPU, by cuBLASLt, the fastest of the ways
 * that give the same bits. */
#ifndef KILN_CUDA_PRODUCTS_HPP
#define KILN_CUDA_PRODUCTS_HPP

#include "pipeline/torch/internal.hpp"

namespace kiln
{

/* x weight^T in bf16, plus bias, plus what `into` holds, which then is changed and returned; both
 * may be undefined.  x and weight plain in bf16 or both quantised (then with fast accumulation).
 * An undefined tensor where LibTorch's operator shall do it: few or odd rows, narrow weights, no
 * proposal from cuBLASLt, which warns once if it failed. */
at::Tensor cuda_product(const kt_tensor &x, const kt_tensor &weight, const at::Tensor &bias,
                        const at::Tensor &into);

/* How many of cuBLASLt's proposals are timed when a shape comes for the first time and the file of
 * such choices does not have it; 1: its first one is taken, 0: LibTorch's operators do it all. */
void cuda_product_search(int proposals);

/* What is known of the way of the last product; empty where it was LibTorch's. */
void cuda_product_choice(char *text, size_t size);

} // namespace kiln

#endif
