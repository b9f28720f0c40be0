/* graph.cpp - recordings of work on a GPU, over LibTorch's own.
 *
 * LibTorch keeps what is allocated while recording in a pool apart, so that a replay finds its
 * memory as it was.  The graphs of one device share a pool: they run one at a time, and nothing in
 * it outlives a replay.  A pool that no graph uses is gone for good, so the next graph gets a new
 * one.
 *
 * Other threads may go on using the device: only this one is held to what can be recorded.
 */
#include <map>
#include <memory>
#include <mutex>

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include "pipeline/torch/cuda/plugin.hpp"

namespace kiln
{

struct pool {
    at::MempoolId_t id{0, 0};
    int graphs = 0; /* that use it */
};

struct recorded_graph {
    c10::DeviceIndex device;
    at::MempoolId_t pool;
    std::unique_ptr<at::cuda::CUDAGraph> graph;
};

static std::mutex pools_lock;
static std::map<c10::DeviceIndex, pool> pools;

static at::MempoolId_t join_pool(c10::DeviceIndex device)
{
    std::lock_guard<std::mutex> lock(pools_lock);
    pool &p = pools[device];
    if (p.graphs++ == 0)
        p.id = at::cuda::graph_pool_handle();
    return p.id;
}

static void leave_pool(const recorded_graph &r)
{
    std::lock_guard<std::mutex> lock(pools_lock);
    pool &p = pools[r.device];
    if (p.id == r.pool)
        p.graphs--;
}

/* After a recording that could not be ended, LibTorch still sends allocations to its pool, those on
 * the device and of pinned memory.  Either half may have been ended already. */
static void abandon_pool(const recorded_graph &r)
{
    try {
        c10::cuda::CUDACachingAllocator::endAllocateToPool(r.device, r.pool);
        c10::cuda::CUDACachingAllocator::releasePool(r.device, r.pool);
    } catch (const std::exception &) {
    }
    try {
        at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(r.pool);
    } catch (const std::exception &) {
    }
    std::lock_guard<std::mutex> lock(pools_lock);
    if (pools[r.device].id == r.pool)
        pools.erase(r.device);
}

static void *begin()
{
    auto r = std::make_unique<recorded_graph>();
    r->device = c10::cuda::current_device();
    r->graph = std::make_unique<at::cuda::CUDAGraph>();
    r->pool = join_pool(r->device);
    try {
        r->graph->capture_begin(r->pool, cudaStreamCaptureModeThreadLocal);
    } catch (...) {
        abandon_pool(*r);
        throw;
    }
    return r.release();
}

static void *end(void *recording)
{
    std::unique_ptr<recorded_graph> r(static_cast<recorded_graph *>(recording));
    try {
        r->graph->capture_end();
    } catch (...) {
        abandon_pool(*r);
        /* LibTorch remembers its address as that of a graph being recorded: it must not be reused.
         */
        (void)r->graph.release();
        throw;
    }
    return r.release();
}

static void replay(void *graph)
{
    static_cast<recorded_graph *>(graph)->graph->replay();
}

static void drop(void *graph)
{
    std::unique_ptr<recorded_graph> r(static_cast<recorded_graph *>(graph));
    if (r)
        leave_pool(*r);
}

const graphs cuda_graphs = {begin, end, replay, drop};

} // namespace kiln
