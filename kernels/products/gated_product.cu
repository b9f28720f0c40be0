/* gated_product.cu - see gated_product.h; the product of a large library's kind, whose sums go
 * through the gate while they are still in registers.
 *
 * A block makes a tile of y, 128 x 128, at a time: 128 rows of x with 128 of gate and the same 128
 * of up, which side by side are the 256 columns of one wgmma step.  Of its three warpgroups the
 * last one's first thread loads, 64 values of k at a time, into a ring of four stages, and knows
 * nothing of products; the other two multiply, 64 rows each, and know nothing of addresses.  A
 * thread then holds the gate and the up of the same places of y, so that nothing has to be
 * exchanged.  y goes by way of shared memory, out of which whole boxes are stored while the next
 * tile is multiplied.
 *
 * Every tile has to get its operands out of the L2, which can only give so much.  So blocks work in
 * twos, a cluster each: two tiles one above the other have gate and up in common, two side by side
 * x.  Each block loads one half of what they have in common, into both.  Two above each other save
 * more, and are used where the number of tiles is even that way; otherwise half of a pair would
 * idle at the end of every column.  As many pairs as the device holds go round the tiles, in bands
 * of rows that are few enough for x's to stay in the L2 while the weight passes.
 *
 * k goes in order, and what is beyond its end is zeros.
 *
 * Where lora is wanted (gated_lora.cuh) down's part for a tile comes by the same ring, behind the
 * tile's own slices.
 */
#include "kernels/products/gated_product.h"

#include "kernels/device.cuh"

#ifdef __CUDACC__
#include "kernels/products/gated_lora.cuh"
#endif

using namespace kiln;

constexpr int64_t size_max = 1 << 30; /* of rows, k and 2n, so that coordinates are ints */

static int check(const struct kiln_gated_product *a, int64_t rows, const char *name,
                 struct kiln_error *err)
{
    if (rows < 0 || a->n < 1 || a->k < 1 || a->pitch < a->n || a->x_pitch < a->k ||
        a->weight_pitch < a->k)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s: %lld rows of %lld values, pitch %lld, to %lld, pitch %lld, by a "
                         "weight of pitch %lld",
                         name, (long long)rows, (long long)a->k, (long long)a->x_pitch,
                         (long long)a->n, (long long)a->pitch, (long long)a->weight_pitch);
    if (a->rank < 0 || (a->rank && a->lora_pitch < a->rank))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: lora of rank %lld, pitch %lld", name,
                         (long long)a->rank, (long long)a->lora_pitch);
    if (rows && (!a->x || !a->weight || !a->y || (a->rank && (!a->down || !a->lora || !a->parts))))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    if (a->format != KILN_BF16)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: on the GPU rows are bf16", name);
    if ((a->n | a->k | a->pitch | a->x_pitch | a->weight_pitch) % 8 || !on_bytes(a->x, 16) ||
        !on_bytes(a->weight, 16) || !on_bytes(a->y, 16))
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: rows that are not on 16 bytes", name);
    if (a->rank && (a->rank != KILN_GATED_RANK || a->n % KILN_GATED_COLUMNS || a->lora_pitch % 2 ||
                    !on_bytes(a->lora, 4) || !on_bytes(a->down, 16) || !on_bytes(a->parts, 16)))
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "%s: lora of %lld values, rank %lld, pitch %lld, or off its bytes", name,
                         (long long)a->n, (long long)a->rank, (long long)a->lora_pitch);
    if (rows > size_max || a->n > size_max / 2 || a->pitch > size_max || a->x_pitch > size_max ||
        a->weight_pitch > size_max)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: %lld rows of %lld values to %lld", name,
                         (long long)rows, (long long)a->k, (long long)a->n);
    return KILN_OK;
}

#ifdef __CUDACC__

/* --- tiles ------------------------------------------------------------------------------------ */

constexpr int tile_rows = 128, tile_columns = KILN_GATED_COLUMNS;

/* What the two blocks of a pair have in common: the weight, one tile being above the other, or x,
 * the tiles being side by side. */
enum common { COMMON_WEIGHT, COMMON_X };

/* How many pairs make a band, which is walked column by column: 2,304 and 1,408 rows. */
template <common C> constexpr int band_height = C == COMMON_WEIGHT ? 9 : 11;

struct tiling {
    int down, across; /* tiles of y */
    int slices;       /* of k, each as much as a stage holds */
    int last_steps;   /* of 16, in the last slice: what is behind them is zeros */
    int n;            /* columns of y, after which up begins in the weight */
};

struct tile {
    int row, column; /* counted in tiles; may lie outside in a pair that is not whole */
};

template <common C> __host__ __device__ constexpr int pairs_down(const tiling &t)
{
    return C == COMMON_WEIGHT ? (t.down + 1) / 2 : t.down;
}
template <common C> __host__ __device__ constexpr int pairs_across(const tiling &t)
{
    return C == COMMON_X ? (t.across + 1) / 2 : t.across;
}

/* The tile of block `rank` of the pair of tiles that comes as number `turn`. */
template <common C>
static __device__ __forceinline__ tile tile_at(const tiling &t, int turn, int rank)
{
    const int whole_band = band_height<C> * pairs_across<C>(t);
    const int band = turn / whole_band, first = band * band_height<C>;
    const int height = min(band_height<C>, pairs_down<C>(t) - first);
    const int row = first + (turn - band * whole_band) % height;
    const int column = (turn - band * whole_band) / height;
    return C == COMMON_WEIGHT ? tile{2 * row + rank, column} : tile{row, 2 * column + rank};
}

/* --- shared memory ---------------------------------------------------------------------------- */

constexpr int slice = box_columns<BOX_BF16>, slice_steps = box_pitch / step_bytes; /* of k */
constexpr int stages = 4;
constexpr int third = 128 * box_pitch; /* bytes of a stage: 128 rows of x, of gate, of up */
constexpr int stage_bytes = 3 * third;
constexpr int multipliers = 2, multiplier_rows = tile_rows / multipliers; /* warpgroups */
constexpr int out_boxes = 2, out_bytes = multiplier_rows * box_pitch;     /* of y, for each */
constexpr int shared_bytes =
    stages * stage_bytes + multipliers * out_boxes * out_bytes + static_cast<int>(box_alignment);
constexpr int down_bytes = KILN_GATED_RANK * box_pitch; /* a box of down */
constexpr int threads = (multipliers + 1) * warpgroup_size;

/* Addresses: of the stages, of what is stored from, and of the two barriers of stage 0, the other
 * stages' being 8 bytes apart. */
struct places {
    uint32_t stage, out, filled, emptied;
};

/* Where a thread is in the ring.  The parity is that of the phase it waits for. */
struct ring {
    int stage, parity;
    __device__ __forceinline__ void advance()
    {
        if (++stage == stages)
            stage = 0, parity ^= 1;
    }
};

struct maps {
    CUtensorMap x, weight, y, down; /* down only where there is a lora */
};

/* --- loading ---------------------------------------------------------------------------------- */

/* The block's part of a slice that begins at value k; with what the other block loads it is all. */
template <common C>
static __device__ __forceinline__ void load_slice(const maps &m, const tiling &t, const tile &at,
                                                  int rank, int k, uint32_t stage, uint32_t filled)
{
    const uint32_t gate = stage + third, up = stage + 2 * third;
    const int row = at.row * tile_rows, column = at.column * tile_columns;
    expect_bytes(filled, stage_bytes);
    if constexpr (C == COMMON_WEIGHT) {
        load_box(stage, m.x, filled, k, row);
        load_box_for_both(rank == 0 ? gate : up, m.weight, filled, k, column + rank * t.n);
    } else {
        load_box_for_both(stage + rank * third / 2, m.x, filled, k, row + rank * tile_rows / 2);
        load_box(gate, m.weight, filled, k, column);
        load_box(up, m.weight, filled, k, column + t.n);
    }
}

/* What is no template here is not static either: built for another card, nothing refers to it. */

/* Down's part for a tile: box behind box of its columns. */
__device__ __forceinline__ void load_down(const maps &m, const tile &at, uint32_t stage,
                                          uint32_t filled)
{
    expect_bytes(filled, tile_columns / slice * down_bytes);
    for (int b = 0; b < tile_columns / slice; b++)
        load_box(stage + b * down_bytes, m.down, filled, at.column * tile_columns + b * slice, 0);
}

/* One thread.  A stage is loaded once the multipliers of both blocks are done with it. */
template <common C, bool LOW>
static __device__ __forceinline__ void load_tiles(const maps &m, const tiling &t, const places &p,
                                                  int rank)
{
    const int turns = pairs_down<C>(t) * pairs_across<C>(t);
    ring r = {0, 1};
    for (int turn = blockIdx.x / 2; turn < turns; turn += gridDim.x / 2) {
        const tile at = tile_at<C>(t, turn, rank);
        for (int i = 0; i < t.slices; i++, r.advance()) {
            await_phase(p.emptied + 8 * r.stage, r.parity);
            load_slice<C>(m, t, at, rank, i * slice, p.stage + r.stage * stage_bytes,
                          p.filled + 8 * r.stage);
        }
        if constexpr (LOW) {
            await_phase(p.emptied + 8 * r.stage, r.parity);
            load_down(m, at, p.stage + r.stage * stage_bytes, p.filled + 8 * r.stage);
            r.advance();
        }
    }
}

/* --- multiplying ------------------------------------------------------------------------------ */

/* The warpgroup does not need the stage any more; both blocks load into it. */
__device__ __forceinline__ void release_stage(const places &p, int stage)
{
    if (threadIdx.x % warpgroup_size < 2)
        arrive_at(p.emptied + 8 * stage, threadIdx.x % warpgroup_size);
}

/* A tile that lies outside: what the other block loads for both is let go, by a warpgroup that
 * stays together: a warp left behind by a round of the ring would wait for the wrong phase. */
__device__ __forceinline__ void pass_slices(int count, const places &p, int group, ring &r)
{
    for (int i = 0; i < count; i++, r.advance()) {
        await_phase(p.filled + 8 * r.stage, r.parity);
        meet_warpgroup(group + 1);
        release_stage(p, r.stage);
    }
}

/* One slice, of which the first `steps` steps are not zeros, for the warpgroup's 64 rows of the
 * tile, gate and up side by side; its products are under way then. */
template <bool WHOLE>
static __device__ __forceinline__ void multiply_slice(float (&sums)[128], const places &p,
                                                      int group, const ring &r, int add, int steps)
{
    await_phase(p.filled + 8 * r.stage, r.parity);
    const uint32_t stage = p.stage + r.stage * stage_bytes;
    const uint64_t x = box_operand(stage + group * multiplier_rows * box_pitch);
    const uint64_t weight = box_operand(stage + third);
    begin_products();
#pragma unroll
    for (int step = 0; step < slice_steps; step++)
        if (WHOLE || step < steps)
            multiply<BOX_BF16, 256>(sums, x + step * next_step, weight + step * next_step,
                                    add | step);
    end_products();
}

/* All slices.  A stage is released when the products of the next one are under way. */
__device__ __forceinline__ void multiply_slices(float (&sums)[128], const tiling &t,
                                                const places &p, int group, ring &r)
{
    int last = -1;
    for (int i = 0; i < t.slices - 1; i++, r.advance()) {
        multiply_slice<true>(sums, p, group, r, i, slice_steps);
        await_products<1>();
        if (last >= 0)
            release_stage(p, last);
        last = r.stage;
    }
    multiply_slice<false>(sums, p, group, r, t.slices - 1, t.last_steps);
    await_products<0>();
    take_sums(sums);
    if (last >= 0)
        release_stage(p, last);
    release_stage(p, r.stage);
    r.advance();
}

/* Of two neighbours, rounded where swiglu.cu rounds. */
__device__ __forceinline__ uint32_t gated(uint32_t gate, uint32_t up)
{
    return multiply_pairs(pack_bf16(silu(low_bf16(gate)), silu(high_bf16(gate))), up);
}

/* The warpgroup's rows of y from its sums, by two boxes of columns; `out` is free for the first one
 * when all of its threads know that thread 0's stores have been read.  `down` is a stage. */
template <bool LOW>
static __device__ __forceinline__ void store_gated(const float (&sums)[128], const maps &m,
                                                   uint32_t out, int group, int row, int column,
                                                   uint32_t down, lora_sums &lora)
{
    constexpr int boxes = tile_columns / slice, places_of_16 = box_pitch / 16;
    const int lane = threadIdx.x % warp_size, warp = threadIdx.x % warpgroup_size / warp_size;
    const int square = lane / 8, line = warp * 16 + square % 2 * 8 + lane % 8;
    const bool stores = threadIdx.x % warpgroup_size == 0;
#pragma unroll
    for (int b = 0; b < boxes; b++) {
        const uint32_t box = out + b % out_boxes * out_bytes;
        if (stores)
            await_box_reads<out_boxes - 1>();
        meet_warpgroup(group + 1);
#pragma unroll
        for (int place = 0; place < places_of_16; place += 2) {
            uint32_t words[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int at = 4 * (b * places_of_16 + place) + 2 * i;
                words[i] = gated(pack_bf16(sums[at], sums[at + 1]),
                                 pack_bf16(sums[64 + at], sums[64 + at + 1]));
            }
            store_squares(box + line * box_pitch + ((place + square / 2) ^ lane % 8) * 16, words);
            if constexpr (LOW)
                add_to_lora(lora, words, down + b * down_bytes, place);
        }
        show_writes();
        meet_warpgroup(group + 1);
        if (stores)
            store_box(m.y, box, column + b * slice, row);
    }
}

template <common C, bool LOW>
static __device__ __forceinline__ void multiply_tiles(const maps &m, const tiling &t,
                                                      const lora_parts &parts, const places &p,
                                                      int rank, int group)
{
    const int turns = pairs_down<C>(t) * pairs_across<C>(t);
    const uint32_t out = p.out + group * out_boxes * out_bytes;
    float sums[128];
    ring r = {0, 0};
    for (int turn = blockIdx.x / 2; turn < turns; turn += gridDim.x / 2) {
        const tile at = tile_at<C>(t, turn, rank);
        if (at.row >= t.down || at.column >= t.across) {
            pass_slices(t.slices + LOW, p, group, r);
            continue;
        }
        multiply_slices(sums, t, p, group, r);
        const int row = at.row * tile_rows + group * multiplier_rows;
        lora_sums lora = {};
        if constexpr (LOW)
            await_phase(p.filled + 8 * r.stage, r.parity);
        store_gated<LOW>(sums, m, out, group, row, at.column * tile_columns,
                         p.stage + r.stage * stage_bytes, lora);
        if constexpr (LOW) { /* the warpgroup has met since it read down */
            release_stage(p, r.stage);
            r.advance();
            store_lora_part(lora, parts, row, at.column);
        }
    }
    if (threadIdx.x % warpgroup_size == 0)
        await_stores();
}

/* --- the kernel ------------------------------------------------------------------------------- */

/* Of the 168 registers that each of 384 threads gets, those who load need few and the others, with
 * 128 sums, many; the hardware has them shared out in eights. */
constexpr int loader_registers = 40, multiplier_registers = 232;

template <common C, bool LOW>
static __global__ void __launch_bounds__(threads, 1)
    multiply_and_gate(const __grid_constant__ maps m, const __grid_constant__ tiling t,
                      const lora_parts parts)
{
    if constexpr (built_for_hopper) {
        extern __shared__ uint8_t memory[];
        __shared__ uint64_t filled[stages], emptied[stages];
        const uint32_t start = (shared_address(memory) + box_alignment - 1) & ~(box_alignment - 1);
        const places p = {start, start + stages * stage_bytes, shared_address(filled),
                          shared_address(emptied)};
        const int rank = blockIdx.x % 2, group = threadIdx.x / warpgroup_size;
        if (threadIdx.x == 0) {
            for (int s = 0; s < stages; s++) {
                make_barrier(p.filled + 8 * s, 1);
                make_barrier(p.emptied + 8 * s, 2 * multipliers);
            }
            show_barriers();
        }
        meet_cluster();
        if (group == multipliers) {
            give_registers<loader_registers>();
            if (threadIdx.x % warpgroup_size == 0)
                load_tiles<C, LOW>(m, t, p, rank);
        } else {
            take_registers<multiplier_registers>();
            multiply_tiles<C, LOW>(m, t, parts, p, rank, group);
        }
        meet_cluster(); /* until then the other block may load into this one's memory */
    }
}

/* --- launching -------------------------------------------------------------------------------- */

template <common C, bool LOW>
static int launch_tiles(const struct kiln_gated_product *a, int64_t rows, const tiling &t,
                        kiln_stream stream, const char *name, struct kiln_error *err)
{
    maps m = {};
    int multiprocessors = 0;
    int code = check_hopper(err, name, reinterpret_cast<const void *>(multiply_and_gate<C, LOW>),
                            &multiprocessors);
    code = code ? code
                : map_matrix<BOX_BF16>(err, name, &m.x, a->x, rows, a->k, a->x_pitch,
                                       C == COMMON_X ? tile_rows / 2 : tile_rows);
    code = code ? code
                : map_matrix<BOX_BF16>(err, name, &m.weight, a->weight, 2 * a->n, a->k,
                                       a->weight_pitch, tile_columns);
    code = code
               ? code
               : map_matrix<BOX_BF16>(err, name, &m.y, a->y, rows, a->n, a->pitch, multiplier_rows);
    if (LOW && !code)
        code =
            map_matrix<BOX_BF16>(err, name, &m.down, a->down, a->rank, a->n, a->n, KILN_GATED_RANK);
    if (code)
        return code;
    const int pairs = pairs_down<C>(t) * pairs_across<C>(t);
    const int blocks = 2 * min(pairs, max(1, multiprocessors / 2));
    const lora_parts parts = {a->parts, static_cast<int>(rows)};
    code = launch_in_clusters(err, name, multiply_and_gate<C, LOW>, 2, blocks, threads,
                              shared_bytes, stream, m, t, parts);
    return LOW && !code ? launch_adders(a, rows, stream, name, err) : code;
}

template <common C>
static int launch_form(const struct kiln_gated_product *a, int64_t rows, const tiling &t,
                       kiln_stream stream, const char *name, struct kiln_error *err)
{
    return (a->rank ? launch_tiles<C, true> : launch_tiles<C, false>)(a, rows, t, stream, name,
                                                                      err);
}

static int launch_on_device(const struct kiln_gated_product *a, int64_t rows, kiln_stream stream,
                            const char *name, struct kiln_error *err)
{
    const int64_t down = (rows + tile_rows - 1) / tile_rows;
    const int64_t across = (a->n + tile_columns - 1) / tile_columns;
    if (down * across > size_max)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: %lld rows to %lld values", name,
                         (long long)rows, (long long)a->n);
    const int slices = static_cast<int>((a->k + slice - 1) / slice);
    const int last_steps = static_cast<int>((a->k - (slices - 1) * slice + 15) / 16);
    const tiling t = {static_cast<int>(down), static_cast<int>(across), slices, last_steps,
                      static_cast<int>(a->n)};
    return down % 2 == 0 ? launch_form<COMMON_WEIGHT>(a, rows, t, stream, name, err)
                         : launch_form<COMMON_X>(a, rows, t, stream, name, err);
}

#else

/* A host that runs kernels thread by thread has nothing of what this one is made of. */
static int launch_on_device(const struct kiln_gated_product *, int64_t, kiln_stream,
                            const char *name, struct kiln_error *err)
{
    return kiln_fail(err, KILN_UNSUPPORTED, "%s: a build without nvcc", name);
}

#endif

extern "C" int kiln_gated_product_launch(const struct kiln_gated_product *args, int64_t rows,
                                         kiln_stream stream, struct kiln_error *err)
{
    const char *name = "gated_product";
    const int code = check(args, rows, name, err);
    return code || rows == 0 ? code : launch_on_device(args, rows, stream, name, err);
}
