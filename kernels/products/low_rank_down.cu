/* low_rank_down.cu - see low_rank_down.h; in the time of reading x.
 *
 * A tile is 128 rows of x, and there are too few of them to keep a device busy.  So eight blocks, a
 * cluster, take a tile together, each an eighth of k.  Of a block's warps the last one's first
 * thread loads, 128 bytes of every row at a time, into a ring of stages, and the others, two
 * warpgroups of 64 rows each, multiply.  In the end every block leaves its sums in its own memory,
 * where the ring was, and adds up 16 of the rows over all eight, in order.  It is eight for any
 * number of rows, so that a row's bits do not depend on it.
 *
 * A cluster's blocks have to lie together: of one block a multiprocessor an H200 holds 15 clusters.
 * So blocks are small enough to be three on one, where registers allow it.
 *
 * The last rows come first: the pass before has written them last, so that they are still in the
 * L2, and the product behind it begins with the first ones, which are then.
 *
 * The rank is rounded up to what there is a kernel for; rows of down that do not exist are zeros,
 * and their sums are not stored.
 */
#include "kernels/products/low_rank_down.h"

#include "kernels/device.cuh"

#ifdef __CUDACC__
#include "kernels/products/hopper.cuh"
#endif

using namespace kiln;

constexpr int64_t size_max = 1 << 30; /* of rows, k and pitches, so that coordinates are ints */

static int check(const struct kiln_low_rank_down *a, int64_t rows, const char *name,
                 struct kiln_error *err)
{
    const int in_16_bytes = a->e4m3 ? 16 : 8;
    if (rows < 0 || a->k < 1 || a->rank < 1 || a->x_pitch < a->k || a->lora_pitch < a->rank)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s: %lld rows of %lld values, pitch %lld, to rank %lld, pitch %lld", name,
                         (long long)rows, (long long)a->k, (long long)a->x_pitch,
                         (long long)a->rank, (long long)a->lora_pitch);
    if (rows && (!a->x || !a->down || !a->lora))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    if (a->format != KILN_BF16 && !a->e4m3)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: on the GPU rows are bf16 or e4m3", name);
    if (a->rank % 16 || a->rank > KILN_LOW_RANK_DOWN_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: rank %lld, not 16, 32, ... %d", name,
                         (long long)a->rank, KILN_LOW_RANK_DOWN_MAX);
    if ((a->k | a->x_pitch | a->lora_pitch) % in_16_bytes || !on_bytes(a->x, 16) ||
        !on_bytes(a->down, 16) || !on_bytes(a->lora, 4))
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: rows that are not on 16 bytes", name);
    if (rows > size_max || a->x_pitch > size_max || a->lora_pitch > size_max)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: %lld rows of %lld values", name,
                         (long long)rows, (long long)a->k);
    return KILN_OK;
}

#ifdef __CUDACC__

/* --- what a block does ------------------------------------------------------------------------ */

constexpr int cluster = 8, tile_rows = 128;
constexpr int multipliers = 2; /* warpgroups, of 64 rows each */
constexpr int multiplier_threads = multipliers * warpgroup_size;
constexpr int threads = multiplier_threads + warp_size;
static_assert(cluster * 16 == tile_rows, "a block adds up the rows of one warp");

/* Of the kernel for ranks up to R, whose sums are so many products of so many columns. */
template <int R> struct plan {
    static constexpr int width = R % 64 == 0 ? 64 : R % 48 == 0 ? 48 : R, parts = R / width;
    static constexpr int blocks = R <= 64 ? 3 : R <= 128 ? 2 : 1; /* on a multiprocessor */
    static constexpr int stage_bytes = (tile_rows + R) * box_pitch;
    static constexpr int sum_bytes = tile_rows * R * 4;
    /* Of 228 KiB, where each block takes 1 KiB for the system, and may lose as much when the ring
     * is aligned; the barriers are 256 bytes at most. */
    static constexpr int room = (228 * 1024) / blocks - 2 * 1024 - 256;
    static constexpr int stages = room / stage_bytes;
    static constexpr int ring_bytes = stages * stage_bytes;
    static constexpr int shared_bytes =
        (ring_bytes > sum_bytes ? ring_bytes : sum_bytes) + static_cast<int>(box_alignment);
};

struct maps {
    CUtensorMap x, down;
};

struct result {
    const float *factor;
    void *lora;
    int64_t pitch;
    int rows, rank;
    int slices; /* of k, each as much as a stage holds */
};

/* Addresses: of the ring, where the sums lie in the end, and of the two barriers of stage 0, the
 * other stages' being 8 bytes apart. */
struct places {
    uint32_t ring, filled, emptied;
};

/* --- loading ---------------------------------------------------------------------------------- */

/* Slices [begin, end) of those from `first` on, counted from there.  One thread.  A stage is loaded
 * once both multipliers are done with it. */
template <box_values V, int R>
static __device__ __forceinline__ void load_slices(const maps &m, const places &p, int tile,
                                                   int first, int begin, int end)
{
    using its = plan<R>;
    for (int i = begin; i < end; i++) {
        const int stage = i % its::stages, column = (first + i) * box_columns<V>;
        const uint32_t to = p.ring + stage * its::stage_bytes, filled = p.filled + 8 * stage;
        await_phase(p.emptied + 8 * stage, i / its::stages % 2 ^ 1);
        expect_bytes(filled, its::stage_bytes);
        load_box(to, m.x, filled, column, tile * tile_rows);
        load_box(to + tile_rows * box_pitch, m.down, filled, column, 0);
    }
}

/* --- multiplying ------------------------------------------------------------------------------ */

/* What is no template here is not static either: built for another card, nothing refers to it. */

/* The warpgroup does not need the stage any more. */
__device__ __forceinline__ void release_stage(const places &p, int stage, int rank)
{
    if (threadIdx.x % warpgroup_size == 0)
        arrive_at(p.emptied + 8 * stage, rank);
}

/* The warpgroup's 64 rows of x with all of down, over `count` slices.  A stage is released when the
 * products of the next one are under way. */
template <box_values V, int R, int PARTS, int SUMS>
static __device__ __forceinline__ void multiply_slices(float (&sums)[PARTS][SUMS], const places &p,
                                                       int rank, int group, int count)
{
    using its = plan<R>;
    for (int i = 0; i < count; i++) {
        const int stage = i % its::stages;
        const uint32_t at = p.ring + stage * its::stage_bytes;
        await_phase(p.filled + 8 * stage, i / its::stages % 2);
        const uint64_t x = box_operand(at + group * (tile_rows / multipliers) * box_pitch);
        const uint64_t down = box_operand(at + tile_rows * box_pitch);
        begin_products();
#pragma unroll
        for (int step = 0; step < box_pitch / step_bytes; step++)
#pragma unroll
            for (int part = 0; part < PARTS; part++)
                multiply<V, its::width>(
                    sums[part], x + step * next_step,
                    down + part * (its::width * box_pitch / 16) + step * next_step, 1);
        end_products();
        await_products<1>();
        if (i > 0)
            release_stage(p, (i - 1) % its::stages, rank);
    }
    await_products<0>();
#pragma unroll
    for (int part = 0; part < PARTS; part++)
        take_sums(sums[part]);
}

/* --- adding up -------------------------------------------------------------------------------- */

/* Sums lie in fours, as wgmma leaves them in a thread: of all its threads those of 8 columns, then
 * of the next 8. */
__device__ __forceinline__ uint32_t place_of_sums(const places &p, int columns, int thread)
{
    return p.ring + (columns * multiplier_threads + thread) * 16;
}

template <int PARTS, int SUMS>
static __device__ __forceinline__ void leave_sums(const float (&sums)[PARTS][SUMS], const places &p)
{
#pragma unroll
    for (int i = 0; i < PARTS * SUMS / 4; i++) {
        const float *four = sums[i / (SUMS / 4)] + i % (SUMS / 4) * 4;
        store_to(place_of_sums(p, i, threadIdx.x), make_float4(four[0], four[1], four[2], four[3]));
    }
}

template <box_values V>
static __device__ __forceinline__ void store_pair(void *lora, int64_t at, float left, float right)
{
    if constexpr (V == BOX_BF16)
        *reinterpret_cast<uint32_t *>(static_cast<uint16_t *>(lora) + at) = pack_bf16(left, right);
    else
        *reinterpret_cast<uint16_t *>(static_cast<uint8_t *>(lora) + at) =
            static_cast<uint16_t>(pack_e4m3(left, right));
}

/* The block's 16 rows of the tile, which are those of one warp in each of the eight. */
template <box_values V, int R>
static __device__ __forceinline__ void add_up(const result &to, const places &p, int tile, int rank)
{
    const int lane = threadIdx.x % warp_size;
    const int row = tile * tile_rows + rank * 16 + lane / 4;
    for (int columns = threadIdx.x / warp_size; columns < R / 8; columns += threads / warp_size) {
        const uint32_t from = place_of_sums(p, columns, rank * warp_size + lane);
        float4 of[cluster], sum;
#pragma unroll
        for (int i = 0; i < cluster; i++)
            of[i] = load_from(from, i);
        sum = of[0];
#pragma unroll
        for (int i = 1; i < cluster; i++)
            sum.x += of[i].x, sum.y += of[i].y, sum.z += of[i].z, sum.w += of[i].w;
        const int column = columns * 8 + lane % 4 * 2;
        if (column >= to.rank)
            continue;
        const float left = to.factor ? to.factor[column] : 1.0f;
        const float right = to.factor ? to.factor[column + 1] : 1.0f;
        if (row < to.rows)
            store_pair<V>(to.lora, row * to.pitch + column, sum.x * left, sum.y * right);
        if (row + 8 < to.rows)
            store_pair<V>(to.lora, (row + 8) * to.pitch + column, sum.z * left, sum.w * right);
    }
}

/* --- the kernel ------------------------------------------------------------------------------- */

template <box_values V, int R>
static __global__ void __launch_bounds__(threads, plan<R>::blocks)
    multiply_rows(const __grid_constant__ maps m, const __grid_constant__ result to)
{
    if constexpr (built_for_hopper) {
        using its = plan<R>;
        extern __shared__ uint8_t memory[];
        __shared__ uint64_t filled[its::stages], emptied[its::stages];
        const uint32_t start = (shared_address(memory) + box_alignment - 1) & ~(box_alignment - 1);
        const places p = {start, shared_address(filled), shared_address(emptied)};
        const int tile = static_cast<int>(gridDim.x - 1 - blockIdx.x) / cluster;
        const int rank = blockIdx.x % cluster;
        const int first = to.slices * rank / cluster;
        const int count = to.slices * (rank + 1) / cluster - first;
        const bool loads = threadIdx.x == multiplier_threads;
        if (loads) {
            for (int s = 0; s < its::stages; s++) {
                make_barrier(p.filled + 8 * s, 1);
                make_barrier(p.emptied + 8 * s, multipliers);
            }
            show_barriers();
            load_slices<V, R>(m, p, tile, first, 0, min(count, its::stages));
        }
        __syncthreads();
        float sums[its::parts][its::width / 2] = {};
        const int group = threadIdx.x / warpgroup_size;
        if (loads)
            load_slices<V, R>(m, p, tile, first, its::stages, count);
        else if (group < multipliers)
            multiply_slices<V, R>(sums, p, rank, group, count);
        __syncwarp();    /* the one who loads comes later than the rest of its warp */
        __syncthreads(); /* all that was loaded has been read */
        if (group < multipliers)
            leave_sums(sums, p);
        meet_cluster();
        add_up<V, R>(to, p, tile, rank);
        meet_cluster(); /* until then the other blocks may read this one's memory */
    }
}

/* --- launching -------------------------------------------------------------------------------- */

template <box_values V, int R>
static int launch_form(const struct kiln_low_rank_down *a, int64_t rows, kiln_stream stream,
                       const char *name, struct kiln_error *err)
{
    maps m;
    int multiprocessors = 0;
    int code = check_hopper(err, name, reinterpret_cast<const void *>(multiply_rows<V, R>),
                            &multiprocessors);
    code = code ? code : map_matrix<V>(err, name, &m.x, a->x, rows, a->k, a->x_pitch, tile_rows);
    code = code ? code : map_matrix<V>(err, name, &m.down, a->down, a->rank, a->k, a->k, R);
    if (code)
        return code;
    const result to = {a->factor,
                       a->lora,
                       a->lora_pitch,
                       static_cast<int>(rows),
                       static_cast<int>(a->rank),
                       static_cast<int>((a->k + box_columns<V> - 1) / box_columns<V>)};
    const int tiles = static_cast<int>((rows + tile_rows - 1) / tile_rows);
    return launch_in_clusters(err, name, multiply_rows<V, R>, cluster, tiles * cluster, threads,
                              plan<R>::shared_bytes, stream, m, to);
}

using launcher = int(const struct kiln_low_rank_down *, int64_t, kiln_stream, const char *,
                     struct kiln_error *);

template <box_values V> static launcher *launcher_of(int64_t rank)
{
    return rank <= 16    ? launch_form<V, 16>
           : rank <= 32  ? launch_form<V, 32>
           : rank <= 48  ? launch_form<V, 48>
           : rank <= 64  ? launch_form<V, 64>
           : rank <= 96  ? launch_form<V, 96>
           : rank <= 128 ? launch_form<V, 128>
                         : launch_form<V, KILN_LOW_RANK_DOWN_MAX>;
}

static int launch_on_device(const struct kiln_low_rank_down *a, int64_t rows, kiln_stream stream,
                            const char *name, struct kiln_error *err)
{
    launcher *launch = a->e4m3 ? launcher_of<BOX_E4M3>(a->rank) : launcher_of<BOX_BF16>(a->rank);
    return launch(a, rows, stream, name, err);
}

#else

/* A host that runs kernels thread by thread has nothing of what this one is made of. */
static int launch_on_device(const struct kiln_low_rank_down *, int64_t, kiln_stream,
                            const char *name, struct kiln_error *err)
{
    return kiln_fail(err, KILN_UNSUPPORTED, "%s: a build without nvcc", name);
}

#endif

extern "C" int kiln_low_rank_down_launch(const struct kiln_low_rank_down *args, int64_t rows,
                                         kiln_stream stream, struct kiln_error *err)
{
    const char *name = "low_rank_down";
    const int code = check(args, rows, name, err);
    return code || rows == 0 ? code : launch_on_device(args, rows, stream, name, err);
}
