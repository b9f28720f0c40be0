/* pinned.cpp - see pinned.hpp: memory of LibTorch's caching allocator, and a list of freed memory
 * that a GPU still uses. */
#include "pipeline/torch/pinned.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

#include <ATen/ops/empty.h>

#include "pipeline/torch/cuda/plugin.hpp"

namespace kiln
{

/* Memory whose owner is gone, and the event after which it may be reused. */
struct lent {
    at::Tensor host;
    c10::Event used;
};

static std::mutex lent_lock;

/* Never destroyed: at exit CUDA may be gone before a static variable is. */
static std::vector<lent> &all_lent()
{
    static auto &all = *new std::vector<lent>;
    return all;
}

/* False on a lost device, and on a thread that records, which must not ask. */
static bool has_come(const c10::Event &used) noexcept
{
    try {
        return !is_recording() && used.query();
    } catch (...) {
        return false;
    }
}

/* Returns memory that is no longer in use to LibTorch. */
static void collect_lent()
{
    const std::lock_guard<std::mutex> guard(lent_lock);
    std::vector<lent> &all = all_lent();
    all.erase(
        std::remove_if(all.begin(), all.end(), [](const lent &l) { return has_come(l.used); }),
        all.end());
}

static void lend(at::Tensor host, c10::Event used)
{
    const std::lock_guard<std::mutex> guard(lent_lock);
    all_lent().push_back({std::move(host), std::move(used)});
}

void copy_pinned(void *to, const void *from, size_t bytes)
{
    const kiln_cuda_plugin *cuda = cuda_plugin();
    TORCH_CHECK(cuda, "no GPU is open");
    if (bytes > 0)
        cuda->copy(to, from, bytes);
}

pinned::pinned(at::IntArrayRef sizes, at::ScalarType type, bool locked)
{
    if (locked)
        collect_lent();
    host_ = at::empty(sizes, at::TensorOptions(type).pinned_memory(locked));
}

pinned::~pinned()
{
    if (!used_ || has_come(*used_))
        return;
    try {
        lend(host_, std::move(*used_));
    } catch (...) { /* no memory for the list: leak the memory */
        (void)host_.unsafeReleaseTensorImpl();
    }
}

void pinned::mark(const at::Device &device)
{
    const c10::impl::VirtualGuardImpl gpu(c10::DeviceType::CUDA);
    if (!used_)
        used_.emplace(c10::DeviceType::CUDA);
    used_->record(gpu.getStream(device));
}

void pinned::send(const at::Tensor &target)
{
    TORCH_CHECK(target.nbytes() <= host_.nbytes() && target.is_non_overlapping_and_dense(),
                "a copy of ", host_.nbytes(), " bytes to ", target.nbytes());
    copy_pinned(target.data_ptr(), host_.const_data_ptr(), target.nbytes());
    mark(target.device());
}

void pinned::receive(const at::Tensor &source)
{
    TORCH_CHECK(source.nbytes() == host_.nbytes() && source.is_contiguous(), "a copy of ",
                source.nbytes(), " bytes to ", host_.nbytes());
    copy_pinned(host_.data_ptr(), source.const_data_ptr(), host_.nbytes());
    mark(source.device());
}

at::Tensor pinned::sent(const at::Device &device)
{
    if (device.is_cpu())
        return host_;
    at::Tensor target =
        at::empty(host_.sizes(), host_.options().device(device).pinned_memory(false));
    send(target);
    return target;
}

} // namespace kiln
