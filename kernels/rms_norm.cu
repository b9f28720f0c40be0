/* rms_norm.cu - see rms_norm.h; a row stays in the registers of its block from the first norm
 * through the residual and the next norm to the quantising: every value is read once and written
 * once.  There are two ways to go through the rows, with the same bits:
 *
 * A block a row, for every shape and form.  The residual stream is loaded before the first barrier,
 * with the rest, so that one wait for memory covers both.  Weights are read by every row and come
 * from the caches.
 *
 * Rows in turn, by as many blocks as the device holds at once: the weights stay in registers, and
 * the next row is on its way while one is worked on.  For results in e4m3 alone, of which so few
 * bytes are written that the waits within a row show; rows of 3,080 to 4,096 values, which give
 * each of 128 threads four chunks; with neither residual nor next norm, or with both.  Both take
 * so many registers that with many rows the first way is the faster one again.
 */
#include "kernels/rms_norm.h"

#include "kernels/rows.cuh"

using namespace kiln;

/* 1 / RMS of the row that the block holds. */
template <int W, int ITEMS, int THREADS = 0>
static __device__ __forceinline__ float inverse_rms(const chunk<W> held[ITEMS], int chunks,
                                                    float eps, float *slots)
{
    float sum = 0;
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (THREADS || chunk_of(j) < chunks) {
            float v[W];
            unpack<W>(held[j], v);
#pragma unroll
            for (int i = 0; i < W; i++)
                sum += v[i] * v[i];
        }
    sum = block_sum<THREADS>(sum, slots);
    return 1.0f / sqrtf(sum / static_cast<float>(chunks * W) + eps);
}

/* One chunk of the quotient, rounded. */
template <int W>
static __device__ __forceinline__ chunk<W> scaled(const chunk<W> &in, float inverse)
{
    float v[W];
    unpack<W>(in, v);
#pragma unroll
    for (int i = 0; i < W; i++)
        v[i] *= inverse;
    return pack<W>(v);
}

/* --- a block a row ---------------------------------------------------------------------------- */

/* One chunk normed; every product rounded. */
template <int W>
static __device__ __forceinline__ chunk<W> normed(const chunk<W> &in, float inverse,
                                                  const void *weight, const void *factor, int index)
{
    const chunk<W> out = product_of<W>(scaled<W>(in, inverse), load_chunk<W>(weight, 0, index));
    return factor ? product_of<W>(out, load_chunk<W>(factor, 0, index)) : out;
}

template <int W, int ITEMS>
static __global__ void __launch_bounds__(row_threads_max<W>)
    norm_rows(const struct kiln_rms_norm a, int chunks)
{
    __shared__ float slots[3][warp_size];
    const int64_t row = blockIdx.x, at = row * a.n;
    chunk<W> held[ITEMS], residual[ITEMS];
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (chunk_of(j) < chunks) {
            held[j] = load_chunk<W>(a.x, at, chunk_of(j));
            if (a.add)
                residual[j] = load_chunk<W>(a.add, at, chunk_of(j));
        }
    float inverse = inverse_rms<W, ITEMS>(held, chunks, a.eps, slots[0]);
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (chunk_of(j) < chunks) {
            held[j] = normed<W>(held[j], inverse, a.weight, a.factor, chunk_of(j));
            if (a.add)
                held[j] = sum_of<W>(held[j], residual[j]);
            if (a.y)
                store_chunk<W>(a.y, at, chunk_of(j), held[j]);
        }
    if (a.next_weight) {
        inverse = inverse_rms<W, ITEMS>(held, chunks, a.eps, slots[1]);
#pragma unroll
        for (int j = 0; j < ITEMS; j++)
            if (chunk_of(j) < chunks) {
                held[j] = normed<W>(held[j], inverse, a.next_weight, a.next_factor, chunk_of(j));
                if (a.next)
                    store_chunk<W>(a.next, at, chunk_of(j), held[j]);
            }
    }
    if (a.quantised)
        quantise_held<W, ITEMS>(held, chunks, row, a.quantised, a.row_scale, slots[2]);
}

/* --- rows in turn ----------------------------------------------------------------------------- */

constexpr int turn_threads = 128, turn_items = items_long;

/* Blocks that every multiprocessor has registers for; they decide how many a thread may have. */
template <bool AFTER> constexpr int turn_blocks = AFTER ? 3 : 5;

/* With residual and next norm: rows for each block up to which this way is the faster one; where
 * the two ways' times, which grow with the rows, cross on an H200 (LAB.md), rounded down. */
constexpr int turns_after = 24;

/* A thread's part of a row. */
struct part {
    chunk<8> items[turn_items];
};

static __device__ __forceinline__ bool in_row(int item, int chunks)
{
    return within<turn_items, turn_threads>(item, chunks);
}

static __device__ __forceinline__ void load_part(const void *p, int64_t at, int chunks, part *ret)
{
#pragma unroll
    for (int j = 0; j < turn_items; j++) {
        ret->items[j] = {};
        if (in_row(j, chunks))
            ret->items[j] = load_chunk<8>(p, at, chunk_of<turn_threads>(j));
    }
}

static __device__ __forceinline__ void store_part(void *p, int64_t at, int chunks, const part &from)
{
#pragma unroll
    for (int j = 0; j < turn_items; j++)
        if (in_row(j, chunks))
            store_chunk<8>(p, at, chunk_of<turn_threads>(j), from.items[j]);
}

/* What a norm multiplies by. */
struct gains {
    part weight, factor;
};

static __device__ __forceinline__ void load_gains(const void *weight, const void *factor,
                                                  int chunks, gains *ret)
{
    load_part(weight, 0, chunks, &ret->weight);
    if (factor)
        load_part(factor, 0, chunks, &ret->factor);
}

static __device__ __forceinline__ void norm_part(part *held, const gains &by, bool has_factor,
                                                 int chunks, float eps, float *slots)
{
    const float inverse = inverse_rms<8, turn_items, turn_threads>(held->items, chunks, eps, slots);
#pragma unroll
    for (int j = 0; j < turn_items; j++) {
        held->items[j] = product_of<8>(scaled<8>(held->items[j], inverse), by.weight.items[j]);
        if (has_factor)
            held->items[j] = product_of<8>(held->items[j], by.factor.items[j]);
    }
}

/* AFTER: with residual and next norm; else with neither.  Quantises its result. */
template <bool AFTER>
static __global__ void __launch_bounds__(turn_threads, turn_blocks<AFTER>)
    norm_in_turn(const struct kiln_rms_norm a, int chunks, int rows)
{
    __shared__ float slots[3][turn_threads / warp_size];
    gains first, second;
    part coming, coming_add;
    load_gains(a.weight, a.factor, chunks, &first);
    if (AFTER)
        load_gains(a.next_weight, a.next_factor, chunks, &second);
    load_part(a.x, blockIdx.x * a.n, chunks, &coming);
    if (AFTER)
        load_part(a.add, blockIdx.x * a.n, chunks, &coming_add);
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const int64_t at = row * a.n, next = row + gridDim.x;
        part held = coming, residual = coming_add;
        if (next < rows) {
            load_part(a.x, next * a.n, chunks, &coming);
            if (AFTER)
                load_part(a.add, next * a.n, chunks, &coming_add);
        }
        norm_part(&held, first, a.factor, chunks, a.eps, slots[0]);
        if (AFTER)
#pragma unroll
            for (int j = 0; j < turn_items; j++)
                held.items[j] = sum_of<8>(held.items[j], residual.items[j]);
        if (a.y)
            store_part(a.y, at, chunks, held);
        if (AFTER) {
            norm_part(&held, second, a.next_factor, chunks, a.eps, slots[1]);
            if (a.next)
                store_part(a.next, at, chunks, held);
        }
        quantise_held<8, turn_items, turn_threads>(held.items, chunks, row, a.quantised,
                                                   a.row_scale, slots[2]);
    }
}

/* --- launching -------------------------------------------------------------------------------- */

static bool takes_vectors(const struct kiln_rms_norm *a)
{
    return on_bytes(a->x, 16) && on_bytes(a->weight, 16) && on_bytes(a->factor, 16) &&
           on_bytes(a->add, 16) && on_bytes(a->y, 16) && on_bytes(a->next_weight, 16) &&
           on_bytes(a->next_factor, 16) && on_bytes(a->next, 16) && on_bytes(a->quantised, 8);
}

static bool suits_turns(const struct kiln_rms_norm *a)
{
    const int64_t chunks = a->n / 8;
    return a->quantised && !a->add == !a->next_weight && a->n % 8 == 0 &&
           chunks > turn_threads * (turn_items - 1) && chunks <= turn_threads * turn_items;
}

/* The grid that takes the rows in turn; 0 blocks where a block a row is better. */
static int turn_grid(const struct kiln_rms_norm *a, int64_t rows, int64_t *ret_blocks,
                     const char *name, struct kiln_error *err)
{
    int device = 0, processors = 0;
    cudaError_t code = cudaGetDevice(&device);
    if (code == cudaSuccess)
        code = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (code != cudaSuccess)
        return kiln_fail(err, KILN_DEVICE, "%s: asking for the device: %s", name,
                         cudaGetErrorName(code));
    const int64_t blocks = processors * (a->add ? turn_blocks<true> : turn_blocks<false>);
    *ret_blocks = a->add && rows > blocks * turns_after ? 0 : rows < blocks ? rows : blocks;
    return KILN_OK;
}

extern "C" int kiln_rms_norm_launch(const struct kiln_rms_norm *args, int64_t rows,
                                    kiln_stream stream, struct kiln_error *err)
{
    const char *name = "rms_norm";
    int code = check_rows(err, name, rows, args->n, args->format);
    code = code ? code : check_quantised(err, name, args->quantised, args->row_scale);
    if (code)
        return code;
    if (!args->x || !args->weight || (!args->y && (!args->quantised || args->next_weight)) ||
        (args->next_weight && !args->next && !args->quantised))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand or a place for the result is missing",
                         name);
    const bool vectors = takes_vectors(args);
    int64_t blocks = 0;
    if (vectors && suits_turns(args))
        code = turn_grid(args, rows, &blocks, name, err);
    if (code)
        return code;
    if (blocks)
        return launch(err, name, args->add ? norm_in_turn<true> : norm_in_turn<false>,
                      dim3(static_cast<unsigned>(blocks)), turn_threads, stream, *args,
                      static_cast<int>(args->n / 8), static_cast<int>(rows));
    const row_kernels<struct kiln_rms_norm> kernels = {norm_rows<1, items_single>, norm_rows<8, 1>,
                                                       norm_rows<8, items_long>};
    return launch_rows(err, name, kernels, *args, rows, args->n, vectors, stream);
}
