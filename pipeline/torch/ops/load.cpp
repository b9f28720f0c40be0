/* load.cpp - uploads, random weights and memory figures; see load.h.
 *
 * Streams and events come from the device's registered guard, so that nothing here is linked to
 * CUDA.
 */
#include "pipeline/torch/load.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "pipeline/torch/internal.hpp"
#include "pipeline/torch/pinned.hpp"

static constexpr int64_t RANDOM_MAX = int64_t{1} << 22; /* values, on the CPU */

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
        const at::ScalarType want = kiln::scalar_of(dtype);
        const at::IntArrayRef sizes(shape, ndim);
        at::Generator generator = generator_of(s->place(), seed);
        if (s->device != KT_CPU)
            return at::empty(sizes, at::TensorOptions(s->place()).dtype(want))
                .normal_(mean, deviation, generator);
        /* The CPU's generator gives other values for other dtypes, so values are made in fp32.  It
         * is slow, so large tables repeat. */
        const int64_t count = c10::multiply_integers(sizes), drawn = std::min(count, RANDOM_MAX);
        const at::Tensor values =
            at::empty({drawn}, at::kFloat).normal_(mean, deviation, generator).to(want);
        if (drawn == count)
            return values.view(sizes);
        const at::Tensor all = at::empty({count}, at::TensorOptions(want));
        for (int64_t at = 0; at < count; at += drawn)
            all.narrow(0, at, std::min(drawn, count - at))
                .copy_(values.narrow(0, 0, std::min(drawn, count - at)));
        return all.view(sizes);
    });
}

int kt_device_of(const kt_scope *s)
{
    return s ? s->device : KT_CPU;
}

/* --- uploads ---------------------------------------------------------------------------------- */

struct kt_upload {
    int device;
    std::deque<kiln::pinned> slots;
    kt_scope *scope = nullptr; /* of the target */
    at::Tensor target;         /* its bytes */
};

kt_upload *kt_upload_new(int device, int slots, size_t slot_bytes)
{
    try {
        auto u = std::make_unique<kt_upload>();
        u->device = device;
        for (int i = 0; i < slots; i++)
            u->slots.emplace_back(static_cast<int64_t>(slot_bytes), at::kByte, device != KT_CPU);
        return u.release();
    } catch (...) {
        return nullptr; /* no memory that can be locked; there is no scope to say more */
    }
}

void kt_upload_free(kt_upload *u)
{
    delete u;
}

void *kt_upload_buffer(kt_upload *u, int slot)
{
    return u->slots[static_cast<size_t>(slot)].host().data_ptr();
}

kt kt_upload_target(kt_upload *u, kt_scope *s, kt_dtype dtype, int ndim, const int64_t *shape)
{
    u->scope = s;
    return kiln::run(s, "upload_target", {}, [&] {
        const at::ScalarType type = kiln::scalar_of(dtype);
        auto size = static_cast<int64_t>(at::elementSize(type));
        for (int i = 0; i < ndim; i++)
            size *= shape[i];
        u->target = at::empty({size}, at::TensorOptions(s->place()).dtype(at::kByte));
        return u->target.view(type).view(at::IntArrayRef(shape, ndim));
    });
}

void kt_upload_send(kt_upload *u, int slot, uint64_t at, size_t size)
{
    kiln::pinned &buffer = u->slots[static_cast<size_t>(slot)];
    kiln::run_void(u->scope, "upload", {}, [&] {
        TORCH_CHECK(size <= buffer.host().nbytes() && at <= u->target.nbytes() &&
                        size <= u->target.nbytes() - at,
                    "bytes ", at, " to ", at + size, " of ", u->target.nbytes());
        const at::Tensor part =
            u->target.narrow(0, static_cast<int64_t>(at), static_cast<int64_t>(size));
        if (u->device == KT_CPU)
            memcpy(part.data_ptr(), buffer.host().const_data_ptr(), size);
        else
            buffer.send(part);
    });
}

void kt_upload_wait(kt_upload *u, int slot)
{
    const kiln::pinned &buffer = u->slots[static_cast<size_t>(slot)];
    kiln::run_void(u->scope, "upload", {}, [&] {
        kiln::wait_for(kiln::wait_pause, [&buffer] { return buffer.arrived(); });
    });
}

void kt_note_not_finite(kt_scope *s, kt x, kt flags, int64_t i)
{
    kiln::run_void(s, "note_not_finite", {x, flags}, [&] {
        /* Infinities and NaN survive a sum, and a sum reads each value once. */
        const at::Tensor bad = at::isfinite(x->t.sum(at::kDouble)).logical_not();
        flags->t.narrow(0, i, 1).copy_(bad.view({1}));
    });
}

/* --- memory ----------------------------------------------------------------------------------- */

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

void kt_reserve(kt_scope *s, size_t bytes)
{
    static std::mutex once;
    static std::map<std::pair<int, bool>, size_t> most; /* of each stream */
    if (!s || s->device == KT_CPU || s->error.code)
        return;
    bool larger;
    {
        std::lock_guard<std::mutex> lock(once);
        size_t &known = most[{s->device, s->side}];
        larger = bytes > known;
        known = std::max(known, bytes);
    }
    if (larger)
        kt_device_trim(s->device);
    kt_scope apart; /* whose error is ignored */
    apart.device = s->device, apart.side = s->side;
    kiln::run_void(&apart, "reserve", {}, [&] {
        (void)at::empty({static_cast<int64_t>(bytes)},
                        at::TensorOptions(s->place()).dtype(at::kByte));
    });
}

/* Errors are ignored: the next measurement reports a lost device. */
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
