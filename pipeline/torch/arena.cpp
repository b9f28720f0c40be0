/* arena.cpp - see arena.hpp.
 *
 * Activations are large and live for an operation or two.  From malloc each would be mapped,
 * cleared page by page and unmapped again: up to a fifth of a picture's time (kernels/LAB.md).  The
 * arena cuts them from regions, in huge pages where the system gives them, and joins what is freed
 * with its free neighbours.  The smallest free piece that fits is taken, and of those the lowest,
 * so that the same operations find the same places.
 */
#include "pipeline/torch/arena.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include "pipeline/torch/internal.hpp"
#include "pipeline/torch/load.h"

namespace kiln
{

namespace
{

constexpr size_t least = 32 << 10;        /* smaller tensors are malloc's */
constexpr size_t region_bytes = 64 << 20; /* a region at least */
constexpr size_t page = 4096, huge_page = 2 << 20;
/* Free bytes that are kept; beyond it a region without tensors goes back to the system. */
constexpr size_t kept = 1 << 30;

class arena final : public c10::Allocator
{
    struct piece {
        size_t bytes;
        char *region;
        bool used;
    };
    std::mutex lock;
    std::map<char *, piece> pieces;             /* all of every region, by place */
    std::set<std::pair<size_t, char *>> unused; /* by size, then place */
    std::map<char *, size_t> regions;
    size_t free_bytes = 0;
    size_t bound = 0, largest = 0; /* of a tensor: kt_memory_bound() */

    void add_free(char *at, size_t bytes, char *region)
    {
        pieces[at] = {bytes, region, false};
        unused.emplace(bytes, at);
    }

    bool add_region(size_t bytes)
    {
        const size_t fewest = up_to(bytes, huge_page);
        auto map = [&bytes](size_t wanted) {
            bytes = wanted;
            return mmap(nullptr, wanted, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        };
        void *at = map(std::max(region_bytes, fewest));
        if (at == MAP_FAILED)
            at = map(fewest);
        if (at == MAP_FAILED)
            return false;
        madvise(at, bytes, MADV_HUGEPAGE); /* only a wish */
        char *region = static_cast<char *>(at);
        regions[region] = bytes;
        free_bytes += bytes;
        add_free(region, bytes, region);
        return true;
    }

    char *take(size_t bytes)
    {
        auto best = unused.lower_bound({bytes, nullptr});
        if (best == unused.end()) {
            if (!add_region(bytes))
                return nullptr;
            best = unused.lower_bound({bytes, nullptr});
        }
        const auto [size, at] = *best;
        unused.erase(best);
        piece &p = pieces[at];
        p.used = true, p.bytes = bytes;
        if (size > bytes)
            add_free(at + bytes, size - bytes, p.region);
        free_bytes -= bytes;
        return at;
    }

    /* Takes a free piece away, to be joined with another. */
    size_t leave(std::map<char *, piece>::iterator p)
    {
        const size_t bytes = p->second.bytes;
        unused.erase({bytes, p->first});
        pieces.erase(p);
        return bytes;
    }

    void give(std::map<char *, piece>::iterator p)
    {
        char *at = p->first, *const region = p->second.region;
        size_t bytes = p->second.bytes;
        free_bytes += bytes;
        auto next = std::next(p);
        if (next != pieces.end() && !next->second.used && next->second.region == region)
            bytes += leave(next);
        if (p != pieces.begin()) {
            auto before = std::prev(p);
            if (!before->second.used && before->second.region == region) {
                at = before->first;
                bytes += leave(before);
            }
        }
        pieces.erase(p);
        add_free(at, bytes, region);
        if (free_bytes > kept && bytes == regions[region])
            remove(region);
    }

    void remove(char *region)
    {
        const size_t bytes = leave(pieces.find(region));
        free_bytes -= bytes;
        regions.erase(region);
        munmap(region, bytes);
    }

    static arena *the();
    /* Of whatever a tensor has: oneDNN's own tensors ask the allocator of the moment. */
    static void free_any(void *at)
    {
        {
            std::lock_guard<std::mutex> hold(the()->lock);
            if (auto p = the()->pieces.find(static_cast<char *>(at)); p != the()->pieces.end())
                return the()->give(p);
        }
        c10::GetDefaultCPUAllocator()->raw_deallocate(at);
    }
    static c10::DataPtr owned(void *at)
    {
        return {at, at, free_any, c10::Device(c10::DeviceType::CPU)};
    }

  public:
    c10::DataPtr allocate(size_t bytes) override
    {
        std::unique_lock<std::mutex> hold(lock);
        largest = std::max(largest, bytes);
        const bool allowed = bound == 0 || bytes <= bound;
        if (bytes < least && allowed) {
            hold.unlock();
            return owned(c10::GetDefaultCPUAllocator()->raw_allocate(bytes));
        }
        char *at = allowed ? take(up_to(bytes, page)) : nullptr;
        TORCH_CHECK(at, "not enough memory: ", bytes, " bytes were wanted");
        return owned(at);
    }
    c10::DeleterFnPtr raw_deleter() const override { return free_any; }
    void copy_data(void *to, const void *from, size_t bytes) const override
    {
        default_copy_data(to, from, bytes);
    }
    void trim()
    {
        std::lock_guard<std::mutex> hold(lock);
        for (auto next = unused.begin(); next != unused.end();) {
            const auto [bytes, at] = *next++;
            if (auto region = regions.find(at); region != regions.end() && region->second == bytes)
                remove(at);
            else
                madvise(at, bytes, MADV_DONTNEED);
        }
    }
    size_t set_bound(size_t bytes)
    {
        std::lock_guard<std::mutex> hold(lock);
        bound = bytes;
        return std::exchange(largest, 0);
    }

    friend void kiln::use_arena();
    friend void kiln::trim_arena() noexcept;
    friend size_t(::kt_memory_bound)(size_t);
};

/* Never destroyed: tensors may outlive every destructor. */
arena *arena::the()
{
    static arena *const one = new arena;
    return one;
}

} // namespace

void use_arena()
{
    static std::once_flag once;
    std::call_once(once, [] { c10::SetCPUAllocator(arena::the(), /*priority=*/100); });
}

void trim_arena() noexcept
{
    arena::the()->trim();
}

} // namespace kiln

size_t kt_memory_bound(size_t bytes)
{
    return kiln::arena::the()->set_bound(bytes);
}
