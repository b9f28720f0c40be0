/* gemm.hpp - one matrix product by cuBLASLt, the search for the fastest way to it, and the file in
 * which ways are kept.  For products.cpp.
 *
 * A way is what cuBLASLt calls an algorithm: kernel, tile, stages, cluster.  Only ways that sum all
 * of K in one go are used, so that a product has the same bits in every run.
 */
#ifndef KILN_CUDA_GEMM_HPP
#define KILN_CUDA_GEMM_HPP

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/cuda/CUDAContextLight.h>

#include "pipeline/torch/internal.hpp"

namespace kiln
{

/* y = x weight^T, plus bias [N], plus what `into` [M,N] holds; both may be undefined.  Everything
 * in bf16, or x and weight as quantised rows; contiguous, on one device. */
struct gemm_operands {
    kt_tensor x, weight;
    at::Tensor bias, into;
};

struct gemm_shape {
    int64_t m, n, k;
    bool e4m3, bias, adds;
    auto key() const { return std::make_tuple(m, n, k, e4m3, bias, adds); }
    bool operator<(const gemm_shape &other) const { return key() < other.key(); }
};

gemm_shape gemm_shape_of(const gemm_operands &operands);

struct gemm_way {
    cublasLtMatmulAlgo_t algo{};
    size_t workspace = 0; /* bytes it needs */
};

/* A way, what it is, and how it was found. */
struct gemm_choice {
    gemm_way way;
    std::string note;
};

/* Ends what cuBLASLt has made. */
struct gemm_end {
    void operator()(cublasLtMatmulDescOpaque_t *op) const { cublasLtMatmulDescDestroy(op); }
    void operator()(cublasLtMatrixLayoutOpaque_t *m) const { cublasLtMatrixLayoutDestroy(m); }
};

/* A product described to cuBLASLt, which reads column by column: y^T = weight x^T.  Throws where
 * cuBLASLt does not know such a product. */
class gemm
{
  public:
    explicit gemm(const gemm_operands &operands);
    const gemm_shape &shape() const { return shape_; }
    /* Whether the way can do this product; sets the bytes it needs. */
    bool takes(gemm_way *way) const;
    /* What cuBLASLt proposes, best guess first, then the same kernels in other clusters. */
    std::vector<gemm_way> proposals(int most) const;
    /* Room for a result. */
    at::Tensor room() const;
    /* Queues the product on the current stream; y may be `into`.  False where the way failed. */
    bool run(const gemm_way &way, const at::Tensor &y) const;

  private:
    gemm_operands o_;
    gemm_shape shape_;
    std::unique_ptr<cublasLtMatmulDescOpaque_t, gemm_end> op_;
    std::unique_ptr<cublasLtMatrixLayoutOpaque_t, gemm_end> weight_, x_, y_;
};

/* Times at most so many proposals on the product's own operands and waits for the device, a
 * quarter of a second or, while kernels are loaded, under one; nothing where there is no way. Never
 * while a graph is recorded. */
std::optional<gemm_choice> gemm_search(const gemm &product, int most);

/* "kernel 66, tile 128x256, stages 4, cluster 2x1" */
std::string gemm_name(const gemm_way &way);

/* The file of the current device and this cuBLAS; neither throws nor fails where there is none. */
std::optional<gemm_choice> gemm_recall(const gemm_shape &shape);
void gemm_keep(const gemm_shape &shape, const gemm_choice &choice);

} // namespace kiln

#endif
