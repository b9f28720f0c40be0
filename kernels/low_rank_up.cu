/* low_rank_up.cu - see low_rank_up.h; on the tensor cores, in the time of reading and writing y.
 *
 * A warp holds its 32 rows of `up` in registers and takes 128 rows of y, of which the next tiles
 * are always under way; the block's 8 warps lie side by side and find `low` in the cache of their
 * multiprocessor.
 *
 * A step of the tensor cores leaves columns 2q and 2q + 1 of 8 in a lane: 4 bytes of a row.  The
 * four steps that make 32 columns therefore take them in an order of their own (column_of), after
 * which a lane holds columns 8q .. 8q + 7 of a row and moves them in one access of 16 bytes.
 */
#include "kernels/low_rank_up.h"

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

/* --- the kernel ------------------------------------------------------------------------------- */

constexpr int steps_max = KILN_LOW_RANK_UP_MAX / step;
constexpr int block_rows = 8 * tile_rows, block_columns = warps * warp_columns;
/* Tiles under way, and blocks on a multiprocessor: a third block hides more than two tiles more, as
 * long as there are registers for it (LAB.md). */
template <int STEPS> constexpr int tiles_ahead = STEPS < 4 ? 2 : 4;
template <int STEPS> constexpr int blocks = STEPS < 4 ? 3 : 2;

template <int STEPS>
static __global__ void __launch_bounds__(threads, blocks<STEPS>)
    add_products_to(const struct kiln_low_rank_up a, int rows, unsigned across)
{
    constexpr int ahead = tiles_ahead<STEPS>;
    const int g = lane_g(), q = lane_q();
    const int64_t first = (int64_t)(blockIdx.x / across) * block_rows;
    const int64_t column =
        (int64_t)(blockIdx.x % across) * block_columns + threadIdx.x / warp_size * warp_columns;
    if (column >= a.n)
        return;
    const int64_t of_part = column / (a.n / a.parts) * a.rank, up_pitch = a.parts * a.rank;
    uint16_t *y = static_cast<uint16_t *>(a.y) + (first + g) * a.pitch + column;
    const uint16_t *low =
        static_cast<const uint16_t *>(a.low) + (first + g) * a.low_pitch + of_part;
    const uint16_t *next = y;
    /* From the lane's row of the tile under work on, of those that are the block's. */
    int left = static_cast<int>(rows - first < block_rows ? rows - first : block_rows) - g;
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
                                 (column + column_of(i, g)) * up_pitch + of_part);
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

/* --- launching -------------------------------------------------------------------------------- */

static int check(const struct kiln_low_rank_up *a, int64_t rows, const char *name,
                 struct kiln_error *err)
{
    if (rows < 0 || a->n < 1 || a->rank < 1 || a->parts < 1 || a->n % a->parts || a->pitch < a->n ||
        a->low_pitch / a->parts < a->rank)
        return kiln_fail(
            err, KILN_BAD_INPUT,
            "%s: %lld rows of %lld values, pitch %lld, %lld parts of rank %lld, pitch %lld", name,
            (long long)rows, (long long)a->n, (long long)a->pitch, (long long)a->parts,
            (long long)a->rank, (long long)a->low_pitch);
    if (rows && (!a->y || !a->low || !a->up))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    if (a->format != KILN_BF16)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: on the GPU rows are bf16", name);
    if (a->rank % step || a->rank > KILN_LOW_RANK_UP_MAX || a->n / a->parts % warp_columns)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "%s: %lld columns of rank %lld, not of 32, 64, ... and 16, 32, ... %d",
                         name, (long long)(a->n / a->parts), (long long)a->rank,
                         KILN_LOW_RANK_UP_MAX);
    if (a->pitch % 8 || a->low_pitch % 8 || !on_bytes(a->y, 16) || !on_bytes(a->low, 16) ||
        !on_bytes(a->up, 16))
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: rows that are not on 16 bytes", name);
    if (rows > INT32_MAX || a->n > INT32_MAX ||
        (rows / block_rows + 1) * (a->n / block_columns + 1) > INT32_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: %lld rows of %lld values", name,
                         (long long)rows, (long long)a->n);
    return KILN_OK;
}

extern "C" int kiln_low_rank_up_launch(const struct kiln_low_rank_up *args, int64_t rows,
                                       kiln_stream stream, struct kiln_error *err)
{
    static void (*const kernels[steps_max])(struct kiln_low_rank_up, int, unsigned) = {
        add_products_to<1>, add_products_to<2>, add_products_to<3>, add_products_to<4>};
    const char *name = "low_rank_up";
    const int code = check(args, rows, name, err);
    if (code || rows == 0)
        return code;
    const unsigned across = static_cast<unsigned>((args->n + block_columns - 1) / block_columns);
    const unsigned down = static_cast<unsigned>((rows + block_rows - 1) / block_rows);
    return launch(err, name, kernels[args->rank / step - 1], dim3(across * down), threads, stream,
                  *args, static_cast<int>(rows), across);
}
