/* products.cpp - which products go to cuBLASLt, and the ways that are known; see products.hpp.
 *
 * Rows come in many numbers: every length of a caption makes another.  A way is chosen for the next
 * multiple of 128 rows, a tile's height, and serves all below it; it gives the same bits as any
 * other, so that nobody can tell for how many rows it was chosen.
 */
#include "pipeline/torch/cuda/products.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>

#include <ATen/cuda/CUDAGraphsUtils.cuh>
#include <c10/cuda/CUDAGuard.h>

#include "pipeline/torch/cuda/gemm.hpp"

namespace kiln
{

/* Below, the sums of K must be cut into parts to fill a card, which LibTorch's operators do. */
constexpr int64_t rows_least = 256, width_least = 512;
constexpr int64_t rows_multiple = 32, width_multiple = 16, class_rows = 128;
constexpr int proposals_most = 48;

/* 0: LibTorch's operators do all products until bench_ops has shown that the search wins. */
static std::atomic<int> proposals_timed{0};

/* A shape on a device. */
using place = std::pair<int, gemm_shape>;

/* What is known for the life of the process; an empty choice where LibTorch's operators do it. */
static struct {
    std::mutex lock;
    std::map<place, std::optional<gemm_choice>> classes, shapes;
    place last; /* that was asked for */
} known;

void cuda_product_search(int proposals)
{
    proposals_timed = std::clamp(proposals, 0, proposals_most);
}

void cuda_product_choice(char *text, size_t size)
{
    const std::lock_guard<std::mutex> guard(known.lock);
    const auto found = known.shapes.find(known.last);
    const bool ours = found != known.shapes.end() && found->second;
    snprintf(text, size, "%s", ours ? found->second->note.c_str() : "");
}

static std::optional<gemm_choice> first_proposal(const gemm &product)
{
    const std::vector<gemm_way> ways = product.proposals(1);
    return ways.empty() ? std::nullopt : std::make_optional(gemm_choice{ways[0], ""});
}

/* The way of all shapes up to the next tile: known, kept in the file, or found by a search. */
static std::optional<gemm_choice> of_class(const gemm &product, int device)
{
    gemm_shape shape = product.shape();
    shape.m = (shape.m + class_rows - 1) / class_rows * class_rows;
    const auto found = known.classes.find({device, shape});
    if (found != known.classes.end())
        return found->second;
    std::optional<gemm_choice> choice = gemm_recall(shape);
    if (!choice || !product.takes(&choice->way)) {
        choice = gemm_search(product, proposals_timed);
        if (choice)
            gemm_keep(shape, *choice);
    }
    return known.classes[{device, shape}] = choice;
}

/* Where nothing can be timed, the first proposal, and not for good: as long as a recording runs,
 * or without the memory for a second result. */
static std::optional<gemm_choice> choice_for(const gemm &product, int device)
{
    const auto found = known.shapes.find({device, product.shape()});
    if (found != known.shapes.end())
        return found->second;
    if (at::cuda::currentStreamCaptureStatusMayInitCtx() != at::cuda::CaptureStatus::None)
        return first_proposal(product);
    std::optional<gemm_choice> choice;
    try {
        choice = of_class(product, device);
    } catch (const c10::OutOfMemoryError &) {
        return first_proposal(product);
    }
    if (choice && !product.takes(&choice->way))
        choice = first_proposal(product);
    return known.shapes[{device, product.shape()}] = choice;
}

/* Whether it is one of those this file is for. */
static bool suits(const gemm_operands &o)
{
    const at::Tensor &x = o.x.t, &w = o.weight.t;
    const at::ScalarType type = o.weight.scale.defined() ? at::kFloat8_e4m3fn : at::kBFloat16;
    const auto plain_bf16 = [](const at::Tensor &t) {
        return !t.defined() || (t.scalar_type() == at::kBFloat16 && t.is_contiguous());
    };
    return w.is_cuda() && x.dim() == 2 && w.dim() == 2 && x.scalar_type() == type &&
           w.scalar_type() == type && w.is_contiguous() && x.size(1) == w.size(1) &&
           x.size(0) >= rows_least && x.size(0) % rows_multiple == 0 && w.size(0) >= width_least &&
           w.size(0) % width_multiple == 0 && w.size(1) % width_multiple == 0 &&
           plain_bf16(o.bias) && plain_bf16(o.into);
}

/* Undefined where cuBLASLt has no way, which then is remembered. */
static at::Tensor multiply(const gemm_operands &o, int device)
{
    const gemm product(o);
    std::optional<gemm_choice> choice;
    {
        const std::lock_guard<std::mutex> guard(known.lock);
        known.last = {device, product.shape()};
        choice = choice_for(product, device);
    }
    if (!choice)
        return {};
    at::Tensor y = o.into.defined() ? o.into : product.room();
    TORCH_CHECK(product.run(choice->way, y), "cuBLASLt refused ", gemm_name(choice->way));
    return y;
}

at::Tensor cuda_product(const kt_tensor &x, const kt_tensor &weight, const at::Tensor &bias,
                        const at::Tensor &into)
{
    if (proposals_timed == 0)
        return {};
    const gemm_operands o{{x.t.contiguous(), x.scale, {}}, weight, bias, into};
    if (!suits(o))
        return {};
    const int device = x.t.device().index();
    const c10::cuda::CUDAGuard guard(x.t.device());
    try {
        return multiply(o, device);
    } catch (const c10::OutOfMemoryError &) {
        throw;
    } catch (const c10::Error &e) {
        TORCH_WARN_ONCE(e.what_without_backtrace(), "; LibTorch's own product takes its place");
        const std::lock_guard<std::mutex> lock(known.lock);
        known.shapes[{device, gemm_shape_of(o)}] = std::nullopt;
        return {};
    }
}

} // namespace kiln
