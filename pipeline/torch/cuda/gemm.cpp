/* gemm.cpp - a product described to cuBLASLt; see gemm.hpp. */
#include "pipeline/torch/cuda/gemm.hpp"

#include <algorithm>
#include <cstring>

#include <c10/cuda/CUDAStream.h>

namespace kiln
{

/* What cuBLASLt recommends for Hopper, twice; the allocator keeps it between two products. */
constexpr size_t workspace_most = size_t{64} << 20;
constexpr int asked_most = 32;

static void check(cublasStatus_t status, const char *what)
{
    TORCH_CHECK(status == CUBLAS_STATUS_SUCCESS, "cuBLASLt, ", what, ": status ",
                static_cast<int>(status));
}

static cublasLtMatrixLayout_t layout(cudaDataType_t type, int64_t rows, int64_t cols)
{
    cublasLtMatrixLayout_t raw = nullptr;
    check(cublasLtMatrixLayoutCreate(&raw, type, static_cast<uint64_t>(rows),
                                     static_cast<uint64_t>(cols), rows),
          "layout");
    return raw;
}

template <class T>
static void set(cublasLtMatmulDesc_t op, cublasLtMatmulDescAttributes_t name, const T &value)
{
    check(cublasLtMatmulDescSetAttribute(op, name, &value, sizeof value), "attribute");
}

static void describe(cublasLtMatmulDesc_t op, const gemm_operands &o, const gemm_shape &shape)
{
    set(op, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(op, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    if (shape.bias) {
        set(op, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
        set(op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, o.bias.const_data_ptr());
        set(op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);
    }
    if (shape.e4m3) {
        const auto by_row = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
        set(op, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, by_row);
        set(op, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, by_row);
        set(op, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, o.weight.scale.const_data_ptr());
        set(op, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, o.x.scale.const_data_ptr());
        set(op, CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
    }
}

gemm_shape gemm_shape_of(const gemm_operands &o)
{
    return {o.x.t.size(0),    o.weight.t.size(0), o.weight.t.size(1), o.weight.scale.defined(),
            o.bias.defined(), o.into.defined()};
}

gemm::gemm(const gemm_operands &operands) : o_(operands), shape_(gemm_shape_of(operands))
{
    const cudaDataType_t type = shape_.e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_16BF;
    cublasLtMatmulDesc_t op = nullptr;
    check(cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F), "product");
    op_.reset(op);
    describe(op, o_, shape_);
    weight_.reset(layout(type, shape_.k, shape_.n));
    x_.reset(layout(type, shape_.k, shape_.m));
    y_.reset(layout(CUDA_R_16BF, shape_.n, shape_.m));
}

/* --- ways ------------------------------------------------------------------------------------- */

template <class T>
static T config(const cublasLtMatmulAlgo_t &algo, cublasLtMatmulAlgoConfigAttributes_t name)
{
    T value{};
    size_t written = 0;
    cublasLtMatmulAlgoConfigGetAttribute(&algo, name, &value, sizeof value, &written);
    return written == sizeof value ? value : T{};
}

static bool whole_sums(const cublasLtMatmulAlgo_t &algo)
{
    return config<int32_t>(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) <= 1 &&
           config<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) ==
               CUBLASLT_REDUCTION_SCHEME_NONE;
}

bool gemm::takes(gemm_way *way) const
{
    cublasLtMatmulHeuristicResult_t result{};
    if (!whole_sums(way->algo) ||
        cublasLtMatmulAlgoCheck(at::cuda::getCurrentCUDABlasLtHandle(), op_.get(), weight_.get(),
                                x_.get(), y_.get(), y_.get(), &way->algo,
                                &result) != CUBLAS_STATUS_SUCCESS)
        return false;
    way->workspace = result.workspaceSize;
    return way->workspace <= workspace_most;
}

static std::vector<gemm_way> asked(cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t weight,
                                   cublasLtMatrixLayout_t x, cublasLtMatrixLayout_t y)
{
    cublasLtMatmulPreference_t wish = nullptr;
    cublasLtMatmulHeuristicResult_t found[asked_most];
    const uint32_t whole = CUBLASLT_REDUCTION_SCHEME_NONE;
    int count = 0;
    check(cublasLtMatmulPreferenceCreate(&wish), "preference");
    cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &workspace_most, sizeof workspace_most);
    cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &whole,
                                         sizeof whole);
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(at::cuda::getCurrentCUDABlasLtHandle(), op, weight, x, y, y,
                                       wish, asked_most, found, &count);
    cublasLtMatmulPreferenceDestroy(wish);
    std::vector<gemm_way> ways;
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS && whole_sums(found[i].algo))
            ways.push_back({found[i].algo, found[i].workspaceSize});
    return ways;
}

/* Adds a way that can do the product and is not among them. */
static void add(const gemm &product, std::vector<gemm_way> *ways, gemm_way way)
{
    const auto same = [&](const gemm_way &other) {
        return memcmp(&other.algo, &way.algo, sizeof way.algo) == 0;
    };
    if (std::none_of(ways->begin(), ways->end(), same) && product.takes(&way))
        ways->push_back(way);
}

std::vector<gemm_way> gemm::proposals(int most) const
{
    static const uint16_t clusters[] = {CUBLASLT_CLUSTER_SHAPE_1x1x1, CUBLASLT_CLUSTER_SHAPE_2x1x1,
                                        CUBLASLT_CLUSTER_SHAPE_1x2x1, CUBLASLT_CLUSTER_SHAPE_2x2x1,
                                        CUBLASLT_CLUSTER_SHAPE_4x1x1};
    constexpr size_t varied = 4;
    std::vector<gemm_way> ways = asked(op_.get(), weight_.get(), x_.get(), y_.get());
    const std::vector<gemm_way> first(ways.begin(), ways.begin() + std::min(varied, ways.size()));
    for (const gemm_way &way : first)
        for (uint16_t cluster : clusters) {
            gemm_way other = way;
            if (cublasLtMatmulAlgoConfigSetAttribute(
                    &other.algo, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, &cluster, sizeof cluster) ==
                CUBLAS_STATUS_SUCCESS)
                add(*this, &ways, other);
        }
    ways.resize(std::min(ways.size(), static_cast<size_t>(std::max(most, 1))));
    return ways;
}

at::Tensor gemm::room() const
{
    return at::empty({shape_.m, shape_.n}, o_.x.t.options().dtype(at::kBFloat16));
}

bool gemm::run(const gemm_way &way, const at::Tensor &y) const
{
    const float one = 1, kept = shape_.adds ? 1 : 0;
    const at::Tensor &c = shape_.adds ? o_.into : y;
    at::Tensor work;
    if (way.workspace > 0)
        work = at::empty({static_cast<int64_t>(way.workspace)}, y.options().dtype(at::kByte));
    return cublasLtMatmul(at::cuda::getCurrentCUDABlasLtHandle(), op_.get(), &one,
                          o_.weight.t.const_data_ptr(), weight_.get(), o_.x.t.const_data_ptr(),
                          x_.get(), &kept, c.const_data_ptr(), y_.get(), y.data_ptr(), y_.get(),
                          &way.algo, work.defined() ? work.data_ptr() : nullptr, way.workspace,
                          c10::cuda::getCurrentCUDAStream()) == CUBLAS_STATUS_SUCCESS;
}

/* --- names ------------------------------------------------------------------------------------ */

struct id_name {
    uint32_t id;
    const char *name;
};

template <size_t COUNT> static std::string name_of(const id_name (&names)[COUNT], uint32_t id)
{
    for (const id_name &each : names)
        if (each.id == id)
            return each.name;
    return "#" + std::to_string(id);
}

#define TILE(size)                                                                                 \
    {                                                                                              \
        CUBLASLT_MATMUL_TILE_##size, #size                                                         \
    }
#define CLUSTER(size)                                                                              \
    {                                                                                              \
        CUBLASLT_CLUSTER_SHAPE_##size##x1, #size                                                   \
    }

std::string gemm_name(const gemm_way &way)
{
    static const id_name tiles[] = {TILE(64x64),   TILE(64x128),  TILE(128x64),  TILE(128x128),
                                    TILE(64x256),  TILE(256x64),  TILE(128x192), TILE(192x128),
                                    TILE(128x160), TILE(160x128), TILE(128x256), TILE(256x128),
                                    TILE(256x256), TILE(192x192)};
    static const id_name clusters[] = {
        CLUSTER(1x1), CLUSTER(2x1), CLUSTER(1x2),
        CLUSTER(2x2), CLUSTER(4x1), CLUSTER(1x4),
        CLUSTER(4x2), CLUSTER(2x4), {CUBLASLT_CLUSTER_SHAPE_AUTO, "auto"}};
    const cublasLtMatmulAlgo_t &a = way.algo;
    return "kernel " + std::to_string(config<int32_t>(a, CUBLASLT_ALGO_CONFIG_ID)) + ", tile " +
           name_of(tiles, config<uint32_t>(a, CUBLASLT_ALGO_CONFIG_TILE_ID)) + ", stages #" +
           std::to_string(config<uint32_t>(a, CUBLASLT_ALGO_CONFIG_STAGES_ID)) + ", cluster " +
           name_of(clusters, config<uint16_t>(a, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID)) +
           ", swizzle " + std::to_string(config<uint32_t>(a, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING)) +
           ", option " + std::to_string(config<uint32_t>(a, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION));
}

} // namespace kiln
