/* products.hpp - matrix products on the CPU, with what follows them while results are in the cache.
 *
 * A product is shared out in panels of columns and blocks of rows.  Few rows are multiplied with
 * the operands swapped, so that the weight is read where it is stored.  A value's sum is always in
 * the order of k, so results do not depend on the number of threads or on other rows. */
#ifndef KILN_TORCH_CPU_PRODUCTS_HPP
#define KILN_TORCH_CPU_PRODUCTS_HPP

#include <functional>

#include "kernels/floats.h"
#include "pipeline/torch/internal.hpp"

namespace kiln::cpu
{

/* Whether oneDNN has kernels for products of such values here: fp32 from AVX2 on, bf16 where the
 * processor has instructions for it. */
bool multiplies(at::ScalarType dtype);

/* Whether oneDNN is kept below AVX-512, whatever the processor has (ONEDNN_MAX_CPU_ISA). */
bool kept_below_avx512();

/* Whether `product` takes x [rows,k] and weight [n,k]. */
bool takes_product(const at::Tensor &x, const at::Tensor &weight);
/* x weight^T + bias; the bias may be undefined. */
at::Tensor product(const at::Tensor &x, const at::Tensor &weight, const at::Tensor &bias);
/* silu(gate) * up of x weight^T, for weight [2n,k]: the bits of a product and swiglu() of it. */
at::Tensor gated_product(const at::Tensor &x, const at::Tensor &weight);

/* Runs f(0) ... f(tasks - 1), each once, on LibTorch's threads; a thread takes the next one that is
 * left, so that none waits long for the others. */
void share(int64_t tasks, const std::function<void(int64_t)> &f);

/* A piece of memory of this thread for `bytes`, lent until its next call with the same number. */
enum scratch_use { PANELS, ROWS, SUMS, VALUES, RESULTS, SCRATCH_USES };
void *scratch(scratch_use use, int64_t bytes);

/* Rows of a block are a multiple of this many, or padded to it: oneDNN makes a kernel for each
 * shape of a product and keeps it, so that there should be few. */
constexpr int64_t block_step = 16;

/* c [m rows of n, each ldc after the last] = a b.  b: a panel, or rows in fp32, or pairs of rows in
 * bf16 (kernels/products/panel.h), lines ldb apart.  Only in a task of share(). */
void multiply(kiln_float format, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda,
              const void *b, int64_t ldb, float *c, int64_t ldc);

inline kiln_float format_of(const at::Tensor &x)
{
    return x.scalar_type() == at::kBFloat16 ? KILN_BF16 : KILN_F32;
}

} // namespace kiln::cpu

#endif
