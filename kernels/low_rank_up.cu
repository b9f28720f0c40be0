/* low_rank_up.cu - see low_rank_up.h; on the tensor cores, a warp taking 32 columns of some rows.
 *
 * A step of the tensor cores leaves columns 2q and 2q + 1 of 8 in a lane: 4 bytes of a row.  The
 * four steps that make 32 columns therefore take them in an order of their own (column_of), after
 * which a lane holds columns 8q .. 8q + 7 of a row and moves them in one access of 16 bytes.
 *
 * Up to a rank of 64 the time is that of reading and writing y.  A warp holds its 32 rows of `up`
 * in registers and takes 128 rows of y, of which the next four tiles are always under way; the
 * block's 8 warps lie side by side and find `low` in the cache of their multiprocessor.  Beyond it
 * the products count, too: a block of 128 by 128 shares both operands through shared memory, three
 * pieces of the rank deep.  The rank alone decides which, and so the order of the sums.
 */
#include "kernels/low_rank_up.h"

#include <string.h>

#include "kernels/tensor_cores.cuh"

using namespace kiln;

constexpr int threads = 256, warps = threads / warp_size;
constexpr int warp_columns = 32, tile_rows = 16; /* of y, with which a warp is done at once */
constexpr int step = 16;                         /* of the rank */

/* --- a tile ----------------------------------------------------------------------------------- */

/* Lane l: g = l / 4, q = l % 4, as in tensor_cores.cuh. */
static __device__ __forceinline__ int lane_g()
{
    return static_cast<int>(threadIdx.x % warp_size / 4);
}
static __device__ __forceinline__ int lane_q()
{
    return static_cast<int>(threadIdx.x % 4);
}

/* Which of the 32 columns is the g'th of the 8 that the i'th of four steps takes. */
static __device__ __forceinline__ int column_of(int i, int g)
{
    return 8 * (g / 2) + 2 * i + g % 2;
}

/* What a lane holds of a row of low or of up: of step s the words 2s and 2s + 1. */
template <int STEPS> struct row_part {
    uint32_t words[2 * STEPS];
};

/* 16 bytes for two steps, 8 for a last one alone. */
template <int STEPS>
static __device__ __forceinline__ row_part<STEPS> load_part(const uint16_t *row)
{
    row_part<STEPS> part;
#pragma unroll
    for (int s = 0; s + 1 < STEPS; s += 2) {
        const chunk<8> two = load_constant(row + s * step, lane_q());
#pragma unroll
        for (int i = 0; i < 4; i++)
            part.words[2 * s + i] = two.words[i];
    }
    if constexpr (STEPS % 2 == 1) {
        const uint2 one =
            __ldg(reinterpret_cast<const uint2 *>(row + (STEPS - 1) * step) + lane_q());
        part.words[2 * STEPS - 2] = one.x, part.words[2 * STEPS - 1] = one.y;
    }
    return part;
}

/* Of a tile, by the step that took the columns: [0] and [1] of row g, [2] and [3] of row g + 8. */
struct tile_sums {
    float of[4][4];
};

template <int STEPS>
static __device__ __forceinline__ void add_products(tile_sums &sums, const row_part<STEPS> low[2],
                                                    const row_part<STEPS> up[4])
{
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        const uint32_t a[4] = {low[0].words[2 * s], low[1].words[2 * s], low[0].words[2 * s + 1],
                               low[1].words[2 * s + 1]};
#pragma unroll
        for (int i = 0; i < 4; i++)
            multiply_add(sums.of[i], a, up[i].words + 2 * s);
    }
}

/* The lane's columns of row g (half 0) or g + 8 (half 1), with the sums. */
static __device__ __forceinline__ chunk<8> with_sums(const chunk<8> &y, const tile_sums &sums,
                                                     int half)
{
    chunk<8> c;
#pragma unroll
    for (int i = 0; i < 4; i++)
        c.words[i] = pack_bf16(low_bf16(y.words[i]) + sums.of[i][2 * half],
                               high_bf16(y.words[i]) + sums.of[i][2 * half + 1]);
    return c;
}

/* --- up in registers -------------------------------------------------------------------------- */

constexpr int held_steps = 4; /* at most */
constexpr int held_tiles = 8, ahead = 4;
constexpr int held_rows = held_tiles * tile_rows, held_columns = warps * warp_columns;

template <int STEPS>
static __global__ void __launch_bounds__(threads, 2)
    add_held(const struct kiln_low_rank_up a, int rows, unsigned across)
{
    const int g = lane_g(), q = lane_q();
    const int64_t first = (int64_t)(blockIdx.x / across) * held_rows;
    const int64_t column =
        (int64_t)(blockIdx.x % across) * held_columns + threadIdx.x / warp_size * warp_columns;
    if (column >= a.n)
        return;
    uint16_t *y = static_cast<uint16_t *>(a.y) + (first + g) * a.pitch + column;
    const uint16_t *low = static_cast<const uint16_t *>(a.low) + (first + g) * a.low_pitch;
    const uint16_t *next = y;
    /* From the lane's row of the tile under work on, of those that are the block's. */
    int left = static_cast<int>(rows - first < held_rows ? rows - first : held_rows) - g;
    chunk<8> under_way[ahead][2];
    const auto load_tile = [&](int t) {
#pragma unroll
        for (int half = 0; half < 2; half++, next += 8 * a.pitch)
            if (t * tile_rows + 8 * half < left)
                under_way[t % ahead][half] = load_chunk<8>(next, 0, q);
    };
#pragma unroll
    for (int t = 0; t < ahead; t++)
        load_tile(t);
    row_part<STEPS> up[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        up[i] = load_part<STEPS>(static_cast<const uint16_t *>(a.up) +
                                 (column + column_of(i, g)) * (STEPS * step));
#pragma unroll 1
    for (;; left -= ahead * tile_rows)
#pragma unroll
        for (int t = 0; t < ahead; t++) {
            if (t * tile_rows >= left + g) /* for all lanes of the warp */
                return;
            row_part<STEPS> of_low[2] = {};
            tile_sums sums = {};
#pragma unroll
            for (int half = 0; half < 2; half++, low += 8 * a.low_pitch)
                if (t * tile_rows + 8 * half < left)
                    of_low[half] = load_part<STEPS>(low);
            add_products<STEPS>(sums, of_low, up);
#pragma unroll
            for (int half = 0; half < 2; half++, y += 8 * a.pitch)
                if (t * tile_rows + 8 * half < left)
                    store_chunk<8>(y, 0, q, with_sums(under_way[t][half], sums, half));
            load_tile(t + ahead);
        }
}

/* --- both operands through shared memory ------------------------------------------------------ */

constexpr int tile_side = 128; /* of y, a block's */
constexpr int warps_across = tile_side / warp_columns;
constexpr int warp_tiles = tile_side / tile_rows / (warps / warps_across); /* one above the other */
constexpr int piece_steps = 2, piece_chunks = piece_steps * step / 8;      /* of a row */
constexpr int pieces_held = 3;
constexpr int piece_values = piece_steps * step, rows_a_pass = threads / piece_chunks;
static_assert(tile_side == 2 * rows_a_pass, "a thread copies a chunk of two rows");

/* Queues 16 bytes for shared memory, zeros where there is nothing to come. */
static __device__ __forceinline__ void copy_chunk(uint4 *to, const uint16_t *from, bool there)
{
#ifdef __CUDACC__
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
#else
    if (there)
        memcpy(to, from, sizeof *to);
    else
        *to = {0, 0, 0, 0};
#endif
}

/* What was queued since the last call is one group. */
static __device__ __forceinline__ void end_group()
{
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Returns when at most LEFT groups of this thread are not there yet. */
template <int LEFT> static __device__ __forceinline__ void await_groups()
{
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

static __device__ __forceinline__ void fetch_early(const uint16_t *p)
{
#ifdef __CUDACC__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#else
    (void)p;
#endif
}

/* A piece of the rank of as many rows as a block has of either operand. */
struct piece {
    uint4 chunks[tile_side * piece_chunks];
};

/* What a thread copies of an operand: a chunk of each piece, of two rows. */
struct source {
    const uint16_t *from; /* of the first row and the next piece */
    int64_t apart;        /* values from the first row to the second */
    int rows;             /* how many of the two there are */
};

static __device__ __forceinline__ source source_of(const void *rows, int64_t pitch, int64_t first,
                                                   int64_t count)
{
    const int64_t row = first + threadIdx.x / piece_chunks;
    return {static_cast<const uint16_t *>(rows) + row * pitch + threadIdx.x % piece_chunks * 8,
            rows_a_pass * pitch, (row < count) + (row + rows_a_pass < count)};
}

/* Queues the next piece; `there` says whether the rank reaches to the thread's chunk. */
static __device__ __forceinline__ void copy_next(piece &to, source &s, bool there)
{
    copy_chunk(&to.chunks[threadIdx.x], s.from, there && s.rows > 0);
    copy_chunk(&to.chunks[threadIdx.x + threads], s.from + s.apart, there && s.rows > 1);
    s.from += piece_values;
}

/* The lanes of a warp read neighbours, or pairs of rows that are: no two of a bank. */
static __device__ __forceinline__ row_part<piece_steps> part_of(const piece &p, int row)
{
    const uint4 v = p.chunks[row * piece_chunks + lane_q()];
    return {{v.x, v.y, v.z, v.w}};
}

static __global__ void __launch_bounds__(threads, 2)
    add_shared(const struct kiln_low_rank_up a, int rows, unsigned across)
{
    __shared__ piece low[pieces_held], up[pieces_held];
    const int g = lane_g(), q = lane_q(), warp = static_cast<int>(threadIdx.x / warp_size);
    const int right = warp % warps_across * warp_columns;
    const int down = warp / warps_across * warp_tiles * tile_rows;
    const int64_t first = (int64_t)(blockIdx.x / across) * tile_side;
    const int64_t column = (int64_t)(blockIdx.x % across) * tile_side;
    const bool busy = column + right < a.n && first + down < rows;
    uint16_t *y = static_cast<uint16_t *>(a.y) + column + right;
    const int pieces = static_cast<int>((a.rank + piece_values - 1) / piece_values);
    const int chunks = static_cast<int>(a.rank / 8) - static_cast<int>(threadIdx.x % piece_chunks);
    source low_source = source_of(a.low, a.low_pitch, first, rows);
    source up_source = source_of(a.up, a.rank, column, a.n);
    const auto queue_piece = [&](int index) {
        if (index < pieces) {
            copy_next(low[index % pieces_held], low_source, index * piece_chunks < chunks);
            copy_next(up[index % pieces_held], up_source, index * piece_chunks < chunks);
        }
        end_group();
    };
#pragma unroll
    for (int p = 0; p < pieces_held - 1; p++)
        queue_piece(p);
    /* y is wanted last; two sectors a row. */
    for (int row = static_cast<int>(threadIdx.x % warp_size); busy && row < warp_tiles * tile_rows;
         row += warp_size)
        if (first + down + row < rows) {
            fetch_early(y + (first + down + row) * a.pitch);
            fetch_early(y + (first + down + row) * a.pitch + warp_columns / 2);
        }
    tile_sums sums[warp_tiles] = {};
    for (int p = 0; p < pieces; p++) {
        await_groups<pieces_held - 2>();
        __syncthreads(); /* of all threads, and nobody reads the piece before this one any more */
        queue_piece(p + pieces_held - 1);
        if (!busy)
            continue;
        const piece &of_low = low[p % pieces_held], &of_up = up[p % pieces_held];
        row_part<piece_steps> right_part[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            right_part[i] = part_of(of_up, right + column_of(i, g));
#pragma unroll
        for (int t = 0; t < warp_tiles; t++) {
            const row_part<piece_steps> left_part[2] = {
                part_of(of_low, down + t * tile_rows + g),
                part_of(of_low, down + t * tile_rows + 8 + g)};
            add_products<piece_steps>(sums[t], left_part, right_part);
        }
    }
    if (!busy)
        return;
    chunk<8> held[warp_tiles][2];
#pragma unroll
    for (int t = 0; t < 2 * warp_tiles; t++) {
        const int64_t row = first + down + t * 8 + g;
        if (row < rows)
            held[t / 2][t % 2] = load_chunk<8>(y, row * a.pitch, q);
    }
#pragma unroll
    for (int t = 0; t < 2 * warp_tiles; t++) {
        const int64_t row = first + down + t * 8 + g;
        if (row < rows)
            store_chunk<8>(y, row * a.pitch, q, with_sums(held[t / 2][t % 2], sums[t / 2], t % 2));
    }
}

/* --- launching -------------------------------------------------------------------------------- */

static int check(const struct kiln_low_rank_up *a, int64_t rows, const char *name,
                 struct kiln_error *err)
{
    if (rows < 0 || a->n < 1 || a->rank < 1 || a->pitch < a->n || a->low_pitch < a->rank)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s: %lld rows of %lld values, pitch %lld, of rank %lld, pitch %lld", name,
                         (long long)rows, (long long)a->n, (long long)a->pitch, (long long)a->rank,
                         (long long)a->low_pitch);
    if (rows && (!a->y || !a->low || !a->up))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    if (a->format != KILN_BF16)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: on the GPU rows are bf16", name);
    if (a->rank % step || a->rank > KILN_LOW_RANK_UP_MAX || a->n % warp_columns)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "%s: %lld columns of rank %lld, not of 32, 64, ... and 16, 32, ... %d",
                         name, (long long)a->n, (long long)a->rank, KILN_LOW_RANK_UP_MAX);
    if (a->pitch % 8 || a->low_pitch % 8 || !on_bytes(a->y, 16) || !on_bytes(a->low, 16) ||
        !on_bytes(a->up, 16))
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: rows that are not on 16 bytes", name);
    if (rows > INT32_MAX || a->n > INT32_MAX ||
        (rows / tile_side + 1) * (a->n / tile_side + 1) > INT32_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: %lld rows of %lld values", name,
                         (long long)rows, (long long)a->n);
    return KILN_OK;
}

extern "C" int kiln_low_rank_up_launch(const struct kiln_low_rank_up *args, int64_t rows,
                                       kiln_stream stream, struct kiln_error *err)
{
    static void (*const held[held_steps])(struct kiln_low_rank_up, int, unsigned) = {
        add_held<1>, add_held<2>, add_held<3>, add_held<4>};
    const char *name = "low_rank_up";
    const int code = check(args, rows, name, err);
    if (code || rows == 0)
        return code;
    const bool holds = args->rank <= held_steps * step;
    const int64_t width = holds ? held_columns : tile_side, height = holds ? held_rows : tile_side;
    const unsigned across = static_cast<unsigned>((args->n + width - 1) / width);
    const unsigned down = static_cast<unsigned>((rows + height - 1) / height);
    return launch(err, name, holds ? held[args->rank / step - 1] : add_shared, dim3(across * down),
                  threads, stream, *args, static_cast<int>(rows), across);
}
