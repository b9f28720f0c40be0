/* low_rank_down.cu - see low_rank_down.h; as fast as x can be read, or nearly so.
 *
 * A tile is 128 rows of x, or 64 where those would give the device too little to do.  The blocks of
 * a cluster share out the columns, which are summed over, in `ranks` parts: a part of `down` is
 * read once for a whole tile, and how a row is summed does not follow from the tile.  Each warp has
 * rows of its own and goes through the part of its block a step of 32 columns at a time:
 *
 *     ring       steps of x and of `down`, copied ahead of their use.  A lane copies just those
 *                chunks of x that it will want: warps wait for one another because of `down` alone
 *     products   by the tensor cores; tensor_cores.cuh says which lane has what of them
 *     sums       of the parts, which the blocks of the cluster exchange, in the order of the parts
 *
 * Without clusters a block does everything as one part: other sums, but always the same.  The last
 * rows come first: as a rule x has just been written, and those are still in the L2.
 */
#include "kernels/low_rank_down.h"

#include "kernels/clusters.cuh"
#include "kernels/rows.cuh"
#include "kernels/tensor_cores.cuh"

using namespace kiln;

constexpr int warps = 4, threads = warps * warp_size;
constexpr int ranks = 8;                         /* blocks of a cluster: what every device takes */
constexpr int step = 32, step_chunks = step / 8; /* columns of x */
constexpr int down_rows = threads / step_chunks; /* of which the block copies a step at once */
constexpr int ring_chunks = (64 << 10) / 16; /* at most; three blocks of it fit a multiprocessor */

static const char name[] = "low_rank_down";

/* What a block holds: ROWS of x, and of the sums as many COLUMNS as `rank`, or more. */
template <int COLUMNS, int ROWS> struct plan {
    static constexpr int tiles = ROWS / warps / 16; /* of a warp, 16 rows each */
    static constexpr int pieces = 2 * tiles;        /* chunks of x in a lane's step, 8 rows apart */
    static constexpr int x_chunks = ROWS * step_chunks, chunks = x_chunks + COLUMNS * step_chunks;
    static constexpr int down_pieces = (COLUMNS + down_rows - 1) / down_rows; /* at most */
    static constexpr int stages = ring_chunks / chunks;                       /* of the ring */
    /* Of the sums' rows, in floats: those that a warp writes at once are in different banks. */
    static constexpr int pitch = COLUMNS + 8;
    static constexpr int ring = stages * chunks, sums = (COLUMNS + 8) / 4 * ROWS;
    static constexpr int held = ring > sums ? ring : sums;
};

/* What of the work is this thread's. */
template <typename P> struct part {
    const uint16_t *x[P::pieces]; /* its chunks of the block's first step */
    const uint16_t *down;         /* likewise, the first of some, that are down_rows rows apart */
    int64_t row;                  /* of its first piece */
    int rank, steps, in_tile;     /* in_tile: the row's place in the tile */
};

/* The last row stands in for those that are not there. */
template <typename P>
static __device__ __forceinline__ part<P> part_of(const struct kiln_low_rank_down &a, int64_t rows,
                                                  int parts, int tile_rows)
{
    part<P> mine;
    const int lane = threadIdx.x % warp_size, tile = (gridDim.x - 1 - blockIdx.x) / parts;
    mine.rank = blockIdx.x % parts;
    const int64_t steps = a.n / step, first = steps * mine.rank / parts;
    mine.steps = static_cast<int>(steps * (mine.rank + 1) / parts - first);
    const int64_t column = first * step + lane % 4 * 8;
    mine.down = static_cast<const uint16_t *>(a.down) + threadIdx.x / step_chunks * a.n + column;
    mine.in_tile = threadIdx.x / warp_size * 16 * P::tiles + lane / 4;
    mine.row = static_cast<int64_t>(tile) * tile_rows + mine.in_tile;
#pragma unroll
    for (int j = 0; j < P::pieces; j++) {
        const int64_t row = mine.row + 8 * j < rows ? mine.row + 8 * j : rows - 1;
        mine.x[j] = static_cast<const uint16_t *>(a.x) + row * a.pitch + column;
    }
    return mine;
}

/* Queues the copies of step i, if there is one, as a group. */
template <typename P>
static __device__ __forceinline__ void copy_step(const struct kiln_low_rank_down &a,
                                                 const part<P> &mine, uint4 *memory, int i)
{
    const int me = threadIdx.x;
    uint4 *to = memory + i % P::stages * P::chunks;
    if (i < mine.steps) {
#pragma unroll
        for (int j = 0; j < P::pieces; j++)
            copy_chunk<true>(to + j * threads + me, mine.x[j] + i * step);
#pragma unroll
        for (int j = 0; j < P::down_pieces; j++)
            if (j * threads + me < a.rank * step_chunks)
                copy_chunk<true>(to + P::x_chunks + j * threads + me,
                                 mine.down + j * down_rows * a.n + i * step);
    }
    end_of_copies();
}

/* The products of step i onto the sums. */
template <typename P, int EIGHTS>
static __device__ __forceinline__ void add_step(const uint4 *memory, int i,
                                                float sums[P::tiles][EIGHTS][4])
{
    const uint4 *from = memory + i % P::stages * P::chunks;
    chunk<8> in[P::pieces];
#pragma unroll
    for (int j = 0; j < P::pieces; j++)
        in[j] = load_chunk<8>(from, 0, j * threads + threadIdx.x);
#pragma unroll
    for (int t = 0; t < EIGHTS; t++) { /* beyond the rank: of anything, and nobody looks */
        const chunk<8> of =
            load_chunk<8>(from, 0, P::x_chunks + t * warp_size + threadIdx.x % warp_size);
#pragma unroll
        for (int m = 0; m < P::tiles; m++)
#pragma unroll
            for (int w = 0; w < 4; w += 2) {
                const chunk<8> &upper = in[2 * m], &lower = in[2 * m + 1];
                const uint32_t both[4] = {upper.words[w], lower.words[w], upper.words[w + 1],
                                          lower.words[w + 1]};
                const uint32_t other[2] = {of.words[w], of.words[w + 1]};
                multiply_add(sums[m][t], both, other);
            }
    }
}

/* The sums of this block's part, from where each thread has them to shared memory. */
template <typename P, int EIGHTS>
static __device__ __forceinline__ void store_sums(const part<P> &mine, uint4 *memory,
                                                  const float sums[P::tiles][EIGHTS][4])
{
    float *to = reinterpret_cast<float *>(memory) + mine.in_tile * P::pitch + threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < P::pieces; j++)
#pragma unroll
        for (int t = 0; t < EIGHTS; t++)
            *reinterpret_cast<float2 *>(to + 8 * j * P::pitch + 8 * t) =
                make_float2(sums[j / 2][t][j % 2 * 2], sums[j / 2][t][j % 2 * 2 + 1]);
}

/* Adds up the parts and writes low: each block of the cluster for its share of the tile's rows. */
template <typename P>
static __device__ __forceinline__ void write_low(const struct kiln_low_rank_down &a, int rank,
                                                 int64_t tile_row, int64_t rows, int parts,
                                                 int share, const uint4 *memory)
{
    const int fours = static_cast<int>(a.rank / 4);
    for (int i = threadIdx.x; i < share * fours; i += threads) {
        const int in_tile = rank * share + i / fours, column = i % fours * 4;
        const float4 *at =
            reinterpret_cast<const float4 *>(memory) + (in_tile * P::pitch + column) / 4;
        float4 of[ranks], sum;
#pragma unroll
        for (int r = 0; r < ranks; r++)
            if (r < parts)
                of[r] = at_rank(at, r);
        sum = of[0];
#pragma unroll
        for (int r = 1; r < ranks; r++)
            if (r < parts)
                sum.x += of[r].x, sum.y += of[r].y, sum.z += of[r].z, sum.w += of[r].w;
        if (tile_row + in_tile < rows) {
            uint16_t *low =
                static_cast<uint16_t *>(a.x) + (tile_row + in_tile) * a.pitch + a.n + column;
            *reinterpret_cast<uint2 *>(low) =
                uint2{pack_bf16(sum.x, sum.y), pack_bf16(sum.z, sum.w)};
        }
    }
}

/* Grid tiles x parts, in clusters of `parts` blocks. */
template <int COLUMNS, int ROWS>
static __global__ void __launch_bounds__(threads)
    sum_parts(const struct kiln_low_rank_down a, int64_t rows, int parts)
{
    using P = plan<COLUMNS, ROWS>;
#ifdef __CUDACC__
    extern __shared__ uint4 memory[]; /* [P::held] */
#else
    __shared__ uint4 memory[P::held];
#endif
    const part<P> mine = part_of<P>(a, rows, parts, ROWS);
    float sums[P::tiles][COLUMNS / 8][4] = {};
    for (int i = 0; i < P::stages - 1; i++)
        copy_step<P>(a, mine, memory, i);
    for (int i = 0; i < mine.steps; i++) {
        await_copies<P::stages - 2>();
        __syncthreads(); /* step i is there, and nobody reads i - 1 any more */
        copy_step<P>(a, mine, memory, i + P::stages - 1);
        add_step<P, COLUMNS / 8>(memory, i, sums);
    }
    __syncthreads(); /* the ring is done with */
    store_sums<P, COLUMNS / 8>(mine, memory, sums);
    arrive_at_cluster();
    await_cluster();
    write_low<P>(a, mine.rank, mine.row - mine.in_tile, rows, parts, ROWS / parts, memory);
    arrive_at_cluster();
    await_cluster(); /* others may have been reading here */
}

/* --- launching -------------------------------------------------------------------------------- */

template <int COLUMNS, int ROWS>
static int launch_tiles(const struct kiln_low_rank_down *a, int64_t rows, kiln_stream stream,
                        struct kiln_error *err)
{
    const unsigned tiles = static_cast<unsigned>((rows + ROWS - 1) / ROWS);
#ifdef __CUDACC__
    static device_answers known;
    cudaLaunchAttribute cluster = cluster_of(ranks);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(tiles * ranks), config.blockDim = dim3(threads), config.stream = stream;
    config.dynamicSmemBytes = plan<COLUMNS, ROWS>::held * sizeof(uint4);
    config.attrs = &cluster, config.numAttrs = 1;
    int parts = ranks;
    if (!takes_clusters(sum_parts<COLUMNS, ROWS>, &config, &known)) {
        parts = 1;
        config.gridDim = dim3(tiles), config.numAttrs = 0;
        (void)cudaFuncSetAttribute(sum_parts<COLUMNS, ROWS>,
                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(config.dynamicSmemBytes));
    }
    (void)cudaLaunchKernelEx(&config, sum_parts<COLUMNS, ROWS>, *a, rows, parts);
    return launched(err, name);
#else
    return launch(err, name, sum_parts<COLUMNS, ROWS>, dim3(tiles), threads, stream, *a, rows, 1);
#endif
}

/* Tiles of 128 rows where they give every multiprocessor two blocks; more sums than a thread has
 * registers for come by 64 rows always. */
template <int COLUMNS>
static int launch_columns(const struct kiln_low_rank_down *a, int64_t rows, kiln_stream stream,
                          struct kiln_error *err)
{
    int processors = 0;
    const int code = count_processors(err, name, &processors);
    if (code)
        return code;
    if constexpr (COLUMNS <= 144)
        if (rows > 64 && (rows + 127) / 128 * ranks >= 2 * processors)
            return launch_tiles<COLUMNS, 128>(a, rows, stream, err);
    return launch_tiles<COLUMNS, 64>(a, rows, stream, err);
}

static int check_shapes(const struct kiln_low_rank_down *a, int64_t rows, struct kiln_error *err)
{
    const int code = check_rows(err, name, rows, a->n, a->format);
    if (code)
        return code;
    if (a->rank < 1 || a->pitch < a->n + a->rank)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: %lld values and %lld more, rows %lld apart",
                         name, (long long)a->n, (long long)a->rank, (long long)a->pitch);
    if (rows > 0 && (!a->x || !a->down))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    if (a->n % step || a->rank % 16 || a->rank > KILN_LOW_RANK_MAX || a->pitch % 8 ||
        !on_bytes(a->x, 16) || !on_bytes(a->down, 16))
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "%s: rank %lld of %lld values, rows %lld apart, or where they lie", name,
                         (long long)a->rank, (long long)a->n, (long long)a->pitch);
    return KILN_OK;
}

extern "C" int kiln_low_rank_down_launch(const struct kiln_low_rank_down *args, int64_t rows,
                                         kiln_stream stream, struct kiln_error *err)
{
    const int code = check_shapes(args, rows, err);
    if (code || rows == 0)
        return code;
    if (args->rank <= 16)
        return launch_columns<16>(args, rows, stream, err);
    if (args->rank <= 32)
        return launch_columns<32>(args, rows, stream, err);
    if (args->rank <= 48)
        return launch_columns<48>(args, rows, stream, err);
    if (args->rank <= 96)
        return launch_columns<96>(args, rows, stream, err);
    if (args->rank <= 144)
        return launch_columns<144>(args, rows, stream, err);
    return launch_columns<192>(args, rows, stream, err);
}
