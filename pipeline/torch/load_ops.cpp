/* load_ops.cpp - weights drawn at random on the device, and the allocator's figures; see load.h. */
#include "pipeline/torch/load.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "pipeline/torch/internal.hpp"

static at::Generator generator_of(const at::Device &device, uint64_t seed)
{
    if (device.is_cpu())
        return at::detail::createCPUGenerator(seed);
    at::Generator generator = at::detail::getCUDAHooks().getNewGenerator(device.index());
    generator.set_current_seed(seed);
    return generator;
}

kt kt_normal(kt_scope *s, uint64_t seed, double mean, double deviation, kt_dtype dtype, int ndim,
             const int64_t *shape)
{
    return kiln::run(s, "normal", {}, [&] {
        /* The CPU's generator draws other values for other dtypes, CUDA's the same. */
        const at::ScalarType want = kiln::scalar_of(dtype);
        const at::TensorOptions options =
            at::TensorOptions(s->place()).dtype(s->device == KT_CPU ? at::kFloat : want);
        return at::empty(at::IntArrayRef(shape, ndim), options)
            .normal_(mean, deviation, generator_of(s->place(), seed))
            .to(want);
    });
}

static size_t bytes(int64_t count)
{
    return count > 0 ? static_cast<size_t>(count) : 0;
}

bool kt_memory_of(int device, kt_memory *ret)
{
    if (device == KT_CPU)
        return false;
    try {
        const auto index = static_cast<c10::DeviceIndex>(device);
        c10::DeviceAllocator *allocator = c10::getDeviceAllocator(c10::DeviceType::CUDA);
        const auto stats = allocator->getDeviceStats(index);
        const auto about = allocator->getMemoryInfo(index); /* free, total */
        const auto &used = stats.allocated_bytes[0], &held = stats.reserved_bytes[0];
        *ret = {bytes(used.current), bytes(used.peak),           bytes(held.current),
                bytes(held.peak),    about.second - about.first, about.second};
        return true;
    } catch (...) {
        return false;
    }
}

/* Called between measurements; a device that is lost by then shows in the next of them. */
void kt_memory_reset_peak(int device)
{
    if (device == KT_CPU)
        return;
    try {
        c10::getDeviceAllocator(c10::DeviceType::CUDA)
            ->resetPeakStats(static_cast<c10::DeviceIndex>(device));
    } catch (...) {
        return;
    }
}
