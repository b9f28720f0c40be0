/* rms_norm.cu - see rms_norm.h; a row stays in the registers of its block from the first norm
 * through the residual and the next norm to the quantising: every value is read once and written
 * once.  There are three ways to go through the rows, with the same bits:
 *
 * A block a row, for every shape and form.  The residual stream is loaded before the first barrier,
 * with the rest, so that one wait for memory covers both.  Weights are read by every row and come
 * from the caches.
 *
 * Rows in turn, by as many blocks as the device holds at once: the weights stay in registers, and
 * the next row is on its way while one is worked on.  For the forms that a transformer has, with
 * neither residual nor next norm or with both, and rows of 3,080 to 4,096 values, which give each
 * of 128 threads four chunks.  It takes so many registers that with many rows it is the slower way.
 *
 * There, with residual and next norm, a block has a row again, but by the same code, in which only
 * a thread's last chunk asks whether it is within the row.
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
                store_chunk<W>(a.y, row * (a.next_weight ? a.n : a.pitch), chunk_of(j), held[j]);
        }
    if (a.next_weight) {
        inverse = inverse_rms<W, ITEMS>(held, chunks, a.eps, slots[1]);
#pragma unroll
        for (int j = 0; j < ITEMS; j++)
            if (chunk_of(j) < chunks) {
                held[j] = normed<W>(held[j], inverse, a.next_weight, a.next_factor, chunk_of(j));
                if (a.next)
                    store_chunk<W>(a.next, row * a.pitch, chunk_of(j), held[j]);
            }
    }
    if (a.quantised)
        quantise_held<W, ITEMS>(held, chunks, row, a, slots[2]);
}

/* --- rows in turn, and one row of a known width ----------------------------------------------- */

constexpr int turn_threads = 128, turn_items = items_long;

/* Blocks that every multiprocessor has registers for; they decide how many a thread may have. */
template <bool AFTER, bool IN_TURN> constexpr int turn_blocks = !AFTER ? 5 : IN_TURN ? 3 : 6;

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

/* What a norm multiplies by: in registers for many rows, or where it lies for one. */
template <bool HELD> struct gains {
    const void *from; /* NULL: 1 */
    part held;
};

template <bool HELD>
static __device__ __forceinline__ void open_gains(const void *from, int chunks, gains<HELD> *ret)
{
    ret->from = from;
    if (HELD && from)
        load_part(from, 0, chunks, &ret->held);
}

template <bool HELD>
static __device__ __forceinline__ chunk<8> gain_of(const gains<HELD> &g, int item, int chunks)
{
    if (HELD)
        return g.held.items[item];
    chunk<8> c = {};
    if (in_row(item, chunks))
        c = load_constant(g.from, chunk_of<turn_threads>(item));
    return c;
}

template <bool HELD>
static __device__ __forceinline__ void norm_part(part *held, const gains<HELD> &weight,
                                                 const gains<HELD> &factor, int chunks, float eps,
                                                 float *slots)
{
    const float inverse = inverse_rms<8, turn_items, turn_threads>(held->items, chunks, eps, slots);
#pragma unroll
    for (int j = 0; j < turn_items; j++) {
        held->items[j] =
            product_of<8>(scaled<8>(held->items[j], inverse), gain_of<HELD>(weight, j, chunks));
        if (factor.from)
            held->items[j] = product_of<8>(held->items[j], gain_of<HELD>(factor, j, chunks));
    }
}

/* AFTER: with residual and next norm; else with neither.  IN_TURN: the grid is what the device
 * holds at once; else a block a row, which goes round once. */
template <bool AFTER, bool IN_TURN>
static __global__ void __launch_bounds__(turn_threads, turn_blocks<AFTER, IN_TURN>)
    norm_wide(const struct kiln_rms_norm a, int chunks, int rows)
{
    __shared__ float slots[3][turn_threads / warp_size];
    gains<IN_TURN> weight, factor, next_weight, next_factor;
    part coming, coming_add;
    open_gains(a.weight, chunks, &weight);
    open_gains(a.factor, chunks, &factor);
    if (AFTER) {
        open_gains(a.next_weight, chunks, &next_weight);
        open_gains(a.next_factor, chunks, &next_factor);
    }
    if (IN_TURN) {
        load_part(a.x, blockIdx.x * a.n, chunks, &coming);
        if (AFTER)
            load_part(a.add, blockIdx.x * a.n, chunks, &coming_add);
    }
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const int64_t ahead = IN_TURN ? row + gridDim.x : row;
        part held, residual;
        if (IN_TURN)
            held = coming, residual = coming_add;
        if (ahead < rows) {
            load_part(a.x, ahead * a.n, chunks, IN_TURN ? &coming : &held);
            if (AFTER)
                load_part(a.add, ahead * a.n, chunks, IN_TURN ? &coming_add : &residual);
        }
        norm_part(&held, weight, factor, chunks, a.eps, slots[0]);
        if (AFTER)
#pragma unroll
            for (int j = 0; j < turn_items; j++)
                held.items[j] = sum_of<8>(held.items[j], residual.items[j]);
        if (a.y)
            store_part(a.y, row * (AFTER ? a.n : a.pitch), chunks, held);
        if (AFTER) {
            norm_part(&held, next_weight, next_factor, chunks, a.eps, slots[1]);
            if (a.next)
                store_part(a.next, row * a.pitch, chunks, held);
        }
        if (a.quantised)
            quantise_held<8, turn_items, turn_threads>(held.items, chunks, row, a, slots[2]);
        else
            __syncthreads(); /* before the next row's sums take the places of this one's */
    }
}

/* --- launching -------------------------------------------------------------------------------- */

static bool takes_vectors(const struct kiln_rms_norm *a)
{
    return on_bytes(a->x, 16) && on_bytes(a->weight, 16) && on_bytes(a->factor, 16) &&
           on_bytes(a->add, 16) && on_bytes(a->y, 16) && on_bytes(a->next_weight, 16) &&
           on_bytes(a->next_factor, 16) && on_bytes(a->next, 16) && on_bytes(a->quantised, 8) &&
           a->pitch % 8 == 0;
}

static bool suits_wide(const struct kiln_rms_norm *a)
{
    const int64_t chunks = a->n / 8;
    return !a->add == !a->next_weight && a->n % 8 == 0 &&
           chunks > turn_threads * (turn_items - 1) && chunks <= turn_threads * turn_items;
}

/* Rows for each block up to which taking them in turn is the faster way: where the two ways' times,
 * which grow with the rows, cross on an H200 (LAB.md). */
static int64_t turns_max(const struct kiln_rms_norm *a)
{
    if (a->add)
        return a->quantised ? 14 : 10;
    return a->quantised ? INT32_MAX : 9;
}

/* How many blocks take the rows in turn; 0 where a block a row is better. */
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
    const int64_t blocks =
        processors * (a->add ? turn_blocks<true, true> : turn_blocks<false, true>);
    *ret_blocks = rows > blocks * turns_max(a) ? 0 : rows < blocks ? rows : blocks;
    return KILN_OK;
}

extern "C" int kiln_rms_norm_launch(const struct kiln_rms_norm *args, int64_t rows,
                                    kiln_stream stream, struct kiln_error *err)
{
    const char *name = "rms_norm";
    int code = check_rows(err, name, rows, args->n, args->format);
    code = code ? code : check_quantised(err, name, args->quantised, args->row_scale);
    struct kiln_rms_norm a = *args;
    code = code ? code : settle(err, name, &a);
    if (code)
        return code;
    if (!a.x || !a.weight || (!a.y && (!a.quantised || a.next_weight)) ||
        (a.next_weight && !a.next && !a.quantised))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand or a place for the result is missing",
                         name);
    if (a.y && !a.next_weight && a.pitch != a.n && (a.y == a.x || a.y == a.add))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: room behind rows in an operand's place", name);
    const bool vectors = takes_vectors(&a), wide = vectors && suits_wide(&a);
    int64_t blocks = 0;
    if (wide)
        code = turn_grid(&a, rows, &blocks, name, err);
    if (code || rows == 0)
        return code;
    if (blocks || (wide && a.add))
        return launch(err, name,
                      !a.add   ? norm_wide<false, true>
                      : blocks ? norm_wide<true, true>
                               : norm_wide<true, false>,
                      dim3(static_cast<unsigned>(blocks ? blocks : rows)), turn_threads, stream, a,
                      static_cast<int>(a.n / 8), static_cast<int>(rows));
    const row_kernels<struct kiln_rms_norm> kernels = {norm_rows<1, items_single>, norm_rows<8, 1>,
                                                       norm_rows<8, items_long>};
    return launch_rows(err, name, kernels, a, rows, a.n, vectors, stream);
}
