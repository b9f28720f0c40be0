/* group_norm_slices.cu - GroupNorm of a small map, in slices of its channels.
 *
 * A slice is 64 bytes of every pixel, which are whole groups; `ranks` blocks share its pixels out,
 * in the order of the pixels.  A cluster of blocks (compute capability 9.0) has room for a slice in
 * registers and shared memory: it reads each value once, adds up, exchanges the sums, and writes.
 * No block waits for one outside its cluster.
 *
 * Devices without clusters, or without so much shared memory, add up in the same order and leave
 * the rest to the kernels of group_norm_silu.cu.
 */
#include "kernels/pictures/group_norm.cuh"

#include <atomic>

using namespace kiln;

constexpr int threads = 512, warps = threads / warp_size;
constexpr int lanes = 4, depth = threads / lanes; /* chunks side by side, pixels deep */
constexpr int width = lanes * 8;                  /* channels of a slice */
constexpr int values = 2 * width;                 /* sums of a slice: of values, then of squares */
constexpr int ranks = norm_slice_parts;           /* a GPC of 16 multiprocessors has room for two */
constexpr int held = 4;   /* chunks of a thread in registers; the others are in shared memory */
constexpr int kept = 27;  /* so many fit there */
constexpr int ahead = 11; /* copies into it that a thread has under way */
constexpr int64_t pixels_max = (int64_t)ranks * depth * (held + kept);
/* A narrow map gives work to few multiprocessors, and is faster by pixels unless it is short. */
constexpr int many_slices = 8;
constexpr int64_t narrow_pixels_max = (int64_t)ranks * depth * 8;

static const char name[] = "group_norm";

/* What of a slice is this thread's: the chunks [0, count), `step` chunks of memory apart. */
struct slice_part {
    int rank, lane, count;
    int64_t item, item_at, first; /* first: of the chunks, in the picture */
    int64_t step;
    int channel; /* the slice's first */
};

static __device__ __forceinline__ slice_part part_of(const struct kiln_group_norm &a,
                                                     const norm_plan &p)
{
    slice_part mine;
    const int chunks = a.channels / 8, slice = blockIdx.x / ranks, deep = threadIdx.x / lanes;
    const int64_t share = (p.pixels + ranks - 1) / ranks;
    mine.rank = blockIdx.x % ranks;
    mine.lane = threadIdx.x % lanes;
    const int64_t begin = mine.rank * share + deep, most = (mine.rank + 1) * share;
    const int64_t end = most < p.pixels ? most : p.pixels;
    mine.count = begin < end ? static_cast<int>((end - begin + depth - 1) / depth) : 0;
    mine.item = blockIdx.y;
    mine.item_at = mine.item * p.pixels * a.channels;
    mine.first = begin * chunks + slice * lanes + mine.lane;
    mine.step = static_cast<int64_t>(depth) * chunks;
    mine.channel = slice * width;
    return mine;
}

static __device__ __forceinline__ chunk<8> load_item(const struct kiln_group_norm &a,
                                                     const slice_part &mine, int j)
{
    return load_chunk<8>(a.x, mine.item_at, mine.first + j * mine.step);
}

/* The chunk of the origin that lies where this thread's chunks do. */
static __device__ __forceinline__ void load_origin(const struct kiln_group_norm &a,
                                                   const slice_part &mine, float ret[8])
{
    const void *origin = origin_of(a, mine.item_at);
    unpack<8>(load_chunk<8>(origin, mine.channel, mine.lane), ret);
}

/* --- sums ------------------------------------------------------------------------------------- */

/* Adds up v over the lanes of a warp that have the same chunk, half as many of the COUNT values a
 * lane with each step; a lane ends with lanes / 2 of them, those from lane / lanes * lanes / 2 on.
 */
template <int STEP, int COUNT> static __device__ __forceinline__ void fold(float *v)
{
    if constexpr (STEP >= lanes) {
        constexpr int half = COUNT / 2;
        const bool upper = threadIdx.x & STEP;
#pragma unroll
        for (int i = 0; i < half; i++) {
            const float give = upper ? v[i] : v[i + half], keep = upper ? v[i + half] : v[i];
            v[i] = keep + __shfl_xor_sync(all_lanes, give, STEP);
        }
        fold<STEP / 2, half>(v);
    }
}

/* The block's sum of each of the slice's values, at the threads below `values`; v[16] are this
 * thread's sums and squares by channel. */
static __device__ __forceinline__ float total_of(float v[16])
{
    __shared__ float by_warp[warps][values];
    const int me = threadIdx.x, lane = me % warp_size;
    fold<warp_size / 2, 16>(v);
#pragma unroll
    for (int i = 0; i < lanes / 2; i++) {
        const int value = lane / lanes * (lanes / 2) + i; /* 8 sums, then 8 squares */
        by_warp[me / warp_size][value / 8 * width + lane % lanes * 8 + value % 8] = v[i];
    }
    __syncthreads();
    double total = 0;
    if (me < values)
#pragma unroll
        for (int i = 0; i < warps; i++)
            total += by_warp[i][me];
    return static_cast<float>(total);
}

/* Grid (slices x ranks, items). */
static __global__ void __launch_bounds__(threads)
    sum_slices(const struct kiln_group_norm a, const norm_plan p)
{
    const slice_part mine = part_of(a, p);
    const int me = threadIdx.x;
    float first[8], v[16] = {};
    let_next_start();
    load_origin(a, mine, first);
#pragma unroll 4
    for (int j = 0; j < mine.count; j++)
        add_chunk<8>(load_item(a, mine, j), first, v, v + 8);
    const float total = total_of(v);
    if (me < values)
        p.partial[((mine.item * ranks + mine.rank) * 2 + me / width) * a.channels + mine.channel +
                  me % width] = total;
}

#ifdef __CUDACC__

/* --- clusters: nothing here is called on devices without them --------------------------------- */

static __device__ __forceinline__ unsigned shared_at(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

static __device__ __forceinline__ void copy_chunk(uint4 *to, const struct kiln_group_norm &a,
                                                  const slice_part &mine, int j)
{
    const uint4 *x =
        reinterpret_cast<const uint4 *>(static_cast<const uint16_t *>(a.x) + mine.item_at);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_at(to)),
                 "l"(x + mine.first + j * mine.step)
                 : "memory");
}

static __device__ __forceinline__ void end_of_copies()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* All but the last `ahead` groups of copies are there. */
static __device__ __forceinline__ void await_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(ahead) : "memory");
}

static __device__ __forceinline__ void arrive_at_cluster()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

static __device__ __forceinline__ void await_cluster()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/* What another block of the cluster has where this one has p. */
static __device__ __forceinline__ float at_rank(const float *p, int rank)
{
    float value = 0;
#if __CUDA_ARCH__ >= 900
    unsigned at;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(shared_at(p)), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(at) : "memory");
#endif
    return value;
}

/* The sum of `total` over the cluster, in the order in which add_parts of group_norm_silu.cu adds
 * up parts.  Others may still be reading when this returns: await_cluster() before the end. */
static __device__ __forceinline__ double sum_of_ranks(float total)
{
    __shared__ float mine[values];
    double sums[ranks] = {};
    if (threadIdx.x < values)
        mine[threadIdx.x] = total;
    arrive_at_cluster();
    await_cluster();
    if (threadIdx.x < values) {
#pragma unroll
        for (int i = 0; i < ranks; i++)
            sums[i] = at_rank(&mine[threadIdx.x], i);
#pragma unroll
        for (int n = ranks; n > 1; n = (n + 1) / 2)
#pragma unroll
            for (int i = 0; i < n / 2; i++)
                sums[i] += sums[i + (n + 1) / 2];
    }
    arrive_at_cluster();
    return sums[0];
}

/* Of the terms[first, first + count), one of a channel each. */
static __device__ __forceinline__ double sum_of_group(const double *terms, int first, int count)
{
    double sum = 0;
    for (int i = first; i < first + count; i++)
        sum += terms[i];
    return sum;
}

/* What gains are made of besides sums. */
struct channel_values {
    float origin, x_bias, weight, bias;
};

/* Of this thread's channel; loaded at the beginning, for y may be x, and the origin in it. */
static __device__ __forceinline__ channel_values channel_of(const struct kiln_group_norm &a,
                                                            const slice_part &mine)
{
    const int c = mine.channel + threadIdx.x;
    channel_values of = {};
    if (threadIdx.x < width) {
        of.origin = static_cast<float>(bf16_at(origin_of(a, mine.item_at), c));
        of.x_bias = static_cast<float>(x_bias_at(a, c));
        of.weight = static_cast<float>(bf16_at(a.weight, c));
        of.bias = static_cast<float>(bf16_at(a.bias, c));
    }
    return of;
}

/* Gains of the slice's channels, from the sum that each thread below `values` has. */
static __device__ __forceinline__ void gains_of(const struct kiln_group_norm &a, const norm_plan &p,
                                                const channel_values &of, double sum,
                                                norm_line lines[])
{
    __shared__ double sums[values], terms[width];
    const int me = threadIdx.x, group = a.channels / a.groups, first = me / group * group;
    const double origin = static_cast<double>(of.origin) + of.x_bias;
    if (me < values)
        sums[me] = sum;
    __syncthreads();
    if (me < width) { /* one warp */
        terms[me] = mean_term(origin, sum, p);
        __syncwarp();
        const double mean = p.of_width * sum_of_group(terms, first, group);
        __syncwarp();
        terms[me] = second_term(origin, mean, sum, sums[width + me], p);
        __syncwarp();
        const double second = p.of_width * sum_of_group(terms, first, group);
        lines[me] = line_of(mean - of.x_bias, inverse_of(second, a.eps), of.weight, of.bias);
    }
    __syncthreads();
}

/* Clusters of `ranks`; grid as above.  y may be x: the origin is read before anything is written.
 */
static __global__ void __launch_bounds__(threads, 2)
    hold_slices(const struct kiln_group_norm a, const norm_plan p, int more)
{
    extern __shared__ uint4 memory[]; /* [more][threads] */
    __shared__ norm_line lines[width];
    const slice_part mine = part_of(a, p);
    uint4 *slots = memory + threadIdx.x;
    chunk<8> registers[held];
    float first[8], v[16] = {};
#pragma unroll
    for (int j = 0; j < held; j++)
        if (j < mine.count)
            registers[j] = load_item(a, mine, j);
    for (int j = 0; j < ahead; j++) {
        if (held + j < mine.count)
            copy_chunk(slots + j * threads, a, mine, held + j);
        end_of_copies();
    }
    load_origin(a, mine, first);
    const channel_values of = channel_of(a, mine);
#pragma unroll
    for (int j = 0; j < held; j++)
        if (j < mine.count)
            add_chunk<8>(registers[j], first, v, v + 8);
    for (int j = 0; j < more; j++) {
        if (held + j + ahead < mine.count)
            copy_chunk(slots + (j + ahead) * threads, a, mine, held + j + ahead);
        end_of_copies();
        await_copies();
        if (held + j < mine.count)
            add_chunk<8>(load_chunk<8>(slots, 0, j * threads), first, v, v + 8);
    }
    gains_of(a, p, of, sum_of_ranks(total_of(v)), lines);
    float gain[8], offset[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        gain[i] = lines[mine.lane * 8 + i].gain;
        offset[i] = lines[mine.lane * 8 + i].offset;
    }
#pragma unroll
    for (int j = 0; j < held; j++)
        if (j < mine.count)
            store_chunk<8>(a.y, mine.item_at, mine.first + j * mine.step,
                           normed<8>(registers[j], gain, offset, a.silu));
#pragma unroll 4
    for (int j = 0; j < more; j++) /* as often for every thread of a warp: barriers want that */
        if (held + j < mine.count)
            store_chunk<8>(a.y, mine.item_at, mine.first + (held + j) * mine.step,
                           normed<8>(load_chunk<8>(slots, 0, j * threads), gain, offset, a.silu));
    await_cluster();
}

/* Whether the device can run such clusters.  The kernel is allowed all the memory there is, not
 * just what this launch takes: another thread may be about to launch it with more. */
static bool ask_for_clusters(const cudaLaunchConfig_t *config)
{
    int device = 0, most = 0, clusters = 0;
    cudaFuncAttributes kernel;
    if (!device_has(9) || cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) !=
            cudaSuccess ||
        cudaFuncGetAttributes(&kernel, hold_slices) != cudaSuccess)
        return false;
    most -= static_cast<int>(kernel.sharedSizeBytes);
    return config->dynamicSmemBytes <= static_cast<size_t>(most) &&
           cudaFuncSetAttribute(hold_slices, cudaFuncAttributeMaxDynamicSharedMemorySize, most) ==
               cudaSuccess &&
           cudaOccupancyMaxActiveClusters(&clusters, hold_slices, config) == cudaSuccess &&
           clusters > 0;
}

/* The same, with `more` chunks of a thread in shared memory; asking takes as long as a launch, so
 * that is done once for each. */
static bool takes_clusters(const cudaLaunchConfig_t *config, int more)
{
    constexpr int devices = 64;
    static std::atomic<signed char> known[devices][kept + 1]; /* 1: it can, -1: it cannot */
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess || device >= devices)
        return false;
    std::atomic<signed char> &answer = known[device][more];
    if (answer == 0) {
        answer = ask_for_clusters(config) ? 1 : -1;
        (void)cudaGetLastError(); /* asked, not failed */
    }
    return answer > 0;
}

static bool launch_clusters(const struct kiln_group_norm *a, dim3 grid, const norm_plan &p,
                            kiln_stream stream)
{
    const int64_t share = (p.pixels + ranks - 1) / ranks, items = (share + depth - 1) / depth;
    const int more = items > held ? static_cast<int>(items - held) : 0;
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = ranks, cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid, config.blockDim = dim3(threads), config.stream = stream;
    config.dynamicSmemBytes = static_cast<size_t>(more) * threads * sizeof(uint4);
    config.attrs = &cluster, config.numAttrs = 1;
    if (!takes_clusters(&config, more))
        return false;
    (void)cudaLaunchKernelEx(&config, hold_slices, *a, p, more);
    return true;
}

#else

static bool launch_clusters(const struct kiln_group_norm *, dim3, const norm_plan &, kiln_stream)
{
    return false; /* blocks run one by one */
}

#endif

/* --- launching -------------------------------------------------------------------------------- */

bool kiln::norm_takes_slices(const struct kiln_group_norm *a)
{
    const int64_t most = a->channels / width < many_slices ? narrow_pixels_max : pixels_max;
    return a->channels % width == 0 && width % (a->channels / a->groups) == 0 && a->pixels <= most;
}

int kiln::norm_slices(const struct kiln_group_norm *a, int64_t items, const norm_plan &p,
                      kiln_stream stream, bool *ret_done, struct kiln_error *err)
{
    const dim3 grid(static_cast<unsigned>(a->channels / width * ranks),
                    static_cast<unsigned>(items));
    *ret_done = launch_clusters(a, grid, p, stream);
    if (*ret_done)
        return launched(err, name);
    return launch(err, name, sum_slices, grid, threads, stream, *a, p);
}
