/* clusters.cuh - blocks that work together in clusters (compute capability 9.0), and copies into
 * shared memory that nobody waits for while they are under way.
 *
 * A block that is launched without a cluster, and any block of a device without them, is one of its
 * own: rank 0 of one, whose barrier is that of the block.
 */
#ifndef KILN_CLUSTERS_CUH
#define KILN_CLUSTERS_CUH

#include "kernels/device.cuh"

#ifdef __CUDACC__
#include <atomic>
#endif

namespace kiln
{

/* --- copies: a thread's own, in groups -------------------------------------------------------- */

#ifdef __CUDACC__
__device__ __forceinline__ unsigned shared_at(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
#endif

/* 16 bytes into shared memory.  LINE: all 128 bytes around them are brought to the L2, for whoever
 * asks next. */
template <bool LINE> __device__ __forceinline__ void copy_chunk(uint4 *to, const void *from)
{
#ifndef __CUDACC__
    *to = *static_cast<const uint4 *>(from);
#else
    if constexpr (LINE)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared_at(to)),
                     "l"(from)
                     : "memory");
    else
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_at(to)), "l"(from)
                     : "memory");
#endif
}

/* Ends a group: the copies since the last one, if any. */
__device__ __forceinline__ void end_of_copies()
{
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* All but the last LEFT groups of this thread's copies are there. */
template <int LEFT> __device__ __forceinline__ void await_copies()
{
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

/* --- the barrier of a cluster, and the memory of its blocks ----------------------------------- */

__device__ __forceinline__ void arrive_at_cluster()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

__device__ __forceinline__ void await_cluster()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ __forceinline__ unsigned shared_at_rank(const void *p, int rank)
{
    unsigned at;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(shared_at(p)), "r"(rank));
    return at;
}
#endif

/* What the block `rank` of the cluster has in shared memory where this one has p. */
__device__ __forceinline__ float at_rank(const float *p, int rank)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    float value;
    asm volatile("ld.shared::cluster.f32 %0, [%1];"
                 : "=f"(value)
                 : "r"(shared_at_rank(p, rank))
                 : "memory");
    return value;
#else
    return (void)rank, *p;
#endif
}

__device__ __forceinline__ float4 at_rank(const float4 *p, int rank)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    float4 v;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(shared_at_rank(p, rank))
                 : "memory");
    return v;
#else
    return (void)rank, *p;
#endif
}

/* --- launching: nowhere but where CUDA is, for blocks on the host run one by one -------------- */

#ifdef __CUDACC__

inline cudaLaunchAttribute cluster_of(int blocks)
{
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(blocks);
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    return cluster;
}

/* What each device has answered: 1 for yes, -1 for no. */
struct device_answers {
    std::atomic<signed char> of[64];
};

/* Whether the device can run such clusters.  The kernel is allowed all the memory there is, not
 * just what this launch takes: another thread may be about to launch it with more. */
template <typename... Params>
static bool ask_for_clusters(void (*kernel)(Params...), const cudaLaunchConfig_t *config)
{
    int device = 0, most = 0, clusters = 0;
    cudaFuncAttributes of;
    if (!device_has(9) || cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) !=
            cudaSuccess ||
        cudaFuncGetAttributes(&of, kernel) != cudaSuccess)
        return false;
    most -= static_cast<int>(of.sharedSizeBytes);
    return config->dynamicSmemBytes <= static_cast<size_t>(most) &&
           cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most) ==
               cudaSuccess &&
           cudaOccupancyMaxActiveClusters(&clusters, kernel, config) == cudaSuccess && clusters > 0;
}

/* The same; asking takes as long as a launch, so that it is done once for each device: *known is
 * this kernel's, with this much shared memory, and begins as zeros. */
template <typename... Params>
static bool takes_clusters(void (*kernel)(Params...), const cudaLaunchConfig_t *config,
                           device_answers *known)
{
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        device >= static_cast<int>(sizeof known->of / sizeof *known->of))
        return false;
    std::atomic<signed char> &answer = known->of[device];
    if (answer == 0) {
        answer = ask_for_clusters(kernel, config) ? 1 : -1;
        (void)cudaGetLastError(); /* asked, not failed */
    }
    return answer > 0;
}

#endif

} // namespace kiln

#endif
