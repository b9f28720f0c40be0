/* rms_norm.cu - see rms_norm.h; a row stays in the registers of its block from the first norm
 * through the residual and the next norm to the quantising: every value is read once and written
 * once.  There are three ways to go through the rows, with the same bits:
 *
 * A block a row, for every shape and form.  The residual stream is loaded before the first barrier,
 * with the rest, so that one wait for memory covers both.  Gains are read by every row and come
 * from the caches.
 *
 * Rows of 3,080 to 4,096 values, which give each of 128 threads four chunks, have kernels of their
 * own for all forms but a next norm without a residual (norm_wide), in which only a thread's last
 * chunk asks whether it is within the row; so have rows of 2,056 values on, for the form that a
 * text encoder has.  For the forms that every block of a transformer has they take the rows in
 * turn, by as many blocks as the device holds at once: the gains stay in registers, and the next
 * row is on its way while one is worked on.  That takes so many registers that with many rows a
 * block a row is the faster way again.
 */
#include "kernels/rows/rms_norm.h"

#include "kernels/rows.cuh"
#include "kernels/tails.cuh"

using namespace kiln;

/* 1 / RMS of the row that the block holds. */
template <int W, int ITEMS, int THREADS = 0>
static __device__ __forceinline__ float inverse_rms(const float held[ITEMS][W], int chunks,
                                                    float eps, float *slots)
{
    float sum = 0;
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (THREADS || chunk_of(j) < chunks)
#pragma unroll
            for (int i = 0; i < W; i++)
                sum += held[j][i] * held[j][i];
    sum = block_sum<THREADS>(sum, slots);
    return 1.0f / sqrtf(sum / static_cast<float>(chunks * W) + eps);
}

template <int W>
static __device__ __forceinline__ void scale(float v[W], float inverse, const float gain[W])
{
#pragma unroll
    for (int i = 0; i < W; i++)
        v[i] = v[i] * inverse * gain[i];
}

/* The same onto v, in which the residual stream is. */
template <int W>
static __device__ __forceinline__ void scale_onto(float v[W], const float x[W], float inverse,
                                                  const float gain[W])
{
#pragma unroll
    for (int i = 0; i < W; i++)
        v[i] = fmaf(x[i] * inverse, gain[i], v[i]);
}

/* --- a block a row ---------------------------------------------------------------------------- */

template <int W, int ITEMS>
static __global__ void __launch_bounds__(row_threads_max<W>)
    norm_rows(const struct kiln_rms_norm a, int chunks)
{
    __shared__ float slots[3][warp_size];
    const int64_t row = blockIdx.x;
    const bool x_tails = a.tails && !a.add;
    float held[ITEMS][W];
    residual_chunk<W> in[ITEMS], residual[ITEMS];
    chunk<W> last[ITEMS];
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (chunk_of(j) < chunks) {
            in[j] = load_residual<W>(a.x, row, a.n, chunk_of(j), x_tails);
            if (a.add)
                residual[j] = load_residual<W>(a.add, row, a.n, chunk_of(j), a.tails);
        }
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (chunk_of(j) < chunks)
            unpack_residual<W>(in[j], x_tails, held[j]);
    float inverse = inverse_rms<W, ITEMS>(held, chunks, a.eps, slots[0]);
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (chunk_of(j) < chunks) {
            float gain[W];
            load_gains<W>(a.gain, chunk_of(j), gain);
            if (a.add) {
                float sum[W];
                unpack_residual<W>(residual[j], a.tails, sum);
                scale_onto<W>(sum, held[j], inverse, gain);
                const residual_chunk<W> c = round_residual<W>(sum, a.tails);
                if (a.y)
                    store_residual<W>(a.y, row, a.tails || a.next_gain ? a.n : a.pitch, chunk_of(j),
                                      a.tails, c);
                last[j] = c.high;
#pragma unroll
                for (int i = 0; i < W; i++)
                    held[j][i] = sum[i];
            } else {
                scale<W>(held[j], inverse, gain);
                last[j] = pack<W>(held[j]);
                unpack<W>(last[j], held[j]);
                if (a.y)
                    store_chunk<W>(a.y, row * (a.next_gain ? a.n : a.pitch), chunk_of(j), last[j]);
            }
        }
    if (a.next_gain) {
        inverse = inverse_rms<W, ITEMS>(held, chunks, a.eps, slots[1]);
#pragma unroll
        for (int j = 0; j < ITEMS; j++)
            if (chunk_of(j) < chunks) {
                float gain[W];
                load_gains<W>(a.next_gain, chunk_of(j), gain);
                scale<W>(held[j], inverse, gain);
                last[j] = pack<W>(held[j]);
                if (a.next)
                    store_chunk<W>(a.next, row * a.pitch, chunk_of(j), last[j]);
            }
    }
    if (a.quantised)
        quantise_held<W, ITEMS>(last, chunks, row, a, slots[2]);
}

/* --- rows in turn, and one row of a known width ----------------------------------------------- */

constexpr int turn_threads = 128, items_short = 3;

/* What a pass does, and how it goes through the rows. */
struct way {
    bool add, next; /* onto a residual; with the next norm */
    bool tails;     /* of the residual, or of x where there is none */
    bool in_turn;   /* the grid is what the device holds at once; else a block a row */
    int items;      /* chunks a thread */
};

/* Blocks that every multiprocessor has registers for; they decide how many a thread may have. */
constexpr int turn_blocks(bool add, bool in_turn)
{
    return !in_turn ? 6 : add ? 3 : 5;
}

/* A thread's part of a row as it lies in memory, and in fp32. */
template <int ITEMS> struct part {
    residual_chunk<8> items[ITEMS];
};
template <int ITEMS> struct wide_part {
    float items[ITEMS][8];
};

template <int ITEMS> static __device__ __forceinline__ bool in_row(int item, int chunks)
{
    return within<ITEMS, turn_threads>(item, chunks);
}

template <int ITEMS>
static __device__ __forceinline__ void load_part(const void *p, int64_t row, int64_t n, int chunks,
                                                 bool tails, part<ITEMS> *ret)
{
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        ret->items[j] = {};
        if (in_row<ITEMS>(j, chunks))
            ret->items[j] = load_residual<8>(p, row, n, chunk_of<turn_threads>(j), tails);
    }
}

/* What a norm multiplies by: in registers for many rows, or where it lies for one. */
template <int ITEMS, bool HELD> struct gains {
    const float *from;
    wide_part<ITEMS> held;
};

template <int ITEMS>
static __device__ __forceinline__ void gain_at(const float *from, int item, int chunks, float v[8])
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = 0;
    if (in_row<ITEMS>(item, chunks))
        load_gains<8>(from, chunk_of<turn_threads>(item), v);
}

template <int ITEMS, bool HELD>
static __device__ __forceinline__ void open_gains(const float *from, int chunks,
                                                  gains<ITEMS, HELD> *ret)
{
    ret->from = from;
    if (HELD)
#pragma unroll
        for (int j = 0; j < ITEMS; j++)
            gain_at<ITEMS>(from, j, chunks, ret->held.items[j]);
}

template <int ITEMS, bool HELD>
static __device__ __forceinline__ void gain_of(const gains<ITEMS, HELD> &g, int item, int chunks,
                                               float v[8])
{
    if constexpr (HELD) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i] = g.held.items[item][i];
    } else {
        gain_at<ITEMS>(g.from, item, chunks, v);
    }
}

template <bool ADD, bool NEXT, bool TAILS, bool IN_TURN, int ITEMS = items_long>
static __global__ void __launch_bounds__(turn_threads, turn_blocks(ADD, IN_TURN))
    norm_wide(const struct kiln_rms_norm a, int chunks, int rows)
{
    __shared__ float slots[3][turn_threads / warp_size];
    gains<ITEMS, IN_TURN> gain, next_gain;
    part<ITEMS> coming, coming_add;
    open_gains(a.gain, chunks, &gain);
    if (NEXT)
        open_gains(a.next_gain, chunks, &next_gain);
    if (IN_TURN) {
        load_part(a.x, blockIdx.x, a.n, chunks, TAILS && !ADD, &coming);
        if (ADD)
            load_part(a.add, blockIdx.x, a.n, chunks, TAILS, &coming_add);
    }
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const int64_t ahead = IN_TURN ? row + gridDim.x : row;
        part<ITEMS> in, residual;
        wide_part<ITEMS> held;
        chunk<8> last[ITEMS];
        if (IN_TURN)
            in = coming, residual = coming_add;
        if (ahead < rows) {
            load_part(a.x, ahead, a.n, chunks, TAILS && !ADD, IN_TURN ? &coming : &in);
            if (ADD)
                load_part(a.add, ahead, a.n, chunks, TAILS, IN_TURN ? &coming_add : &residual);
        }
#pragma unroll
        for (int j = 0; j < ITEMS; j++)
            unpack_residual<8>(in.items[j], TAILS && !ADD, held.items[j]);
        float inverse = inverse_rms<8, ITEMS, turn_threads>(held.items, chunks, a.eps, slots[0]);
#pragma unroll
        for (int j = 0; j < ITEMS; j++) {
            float g[8], sum[8];
            gain_of(gain, j, chunks, g);
            if (ADD) {
                unpack_residual<8>(residual.items[j], TAILS, sum);
                scale_onto<8>(sum, held.items[j], inverse, g);
                const residual_chunk<8> c = round_residual<8>(sum, TAILS);
                if (a.y && in_row<ITEMS>(j, chunks))
                    store_residual<8>(a.y, row, NEXT || TAILS ? a.n : a.pitch,
                                      chunk_of<turn_threads>(j), TAILS, c);
                last[j] = c.high;
#pragma unroll
                for (int i = 0; i < 8; i++)
                    held.items[j][i] = sum[i];
            } else {
                scale<8>(held.items[j], inverse, g);
                last[j] = pack<8>(held.items[j]);
                if (a.y && in_row<ITEMS>(j, chunks))
                    store_chunk<8>(a.y, row * a.pitch, chunk_of<turn_threads>(j), last[j]);
            }
        }
        if (NEXT) {
            inverse = inverse_rms<8, ITEMS, turn_threads>(held.items, chunks, a.eps, slots[1]);
#pragma unroll
            for (int j = 0; j < ITEMS; j++) {
                float g[8];
                gain_of(next_gain, j, chunks, g);
                scale<8>(held.items[j], inverse, g);
                last[j] = pack<8>(held.items[j]);
                if (a.next && in_row<ITEMS>(j, chunks))
                    store_chunk<8>(a.next, row * a.pitch, chunk_of<turn_threads>(j), last[j]);
            }
        }
        if (a.quantised)
            quantise_held<8, ITEMS, turn_threads>(last, chunks, row, a, slots[2]);
        else if (IN_TURN)
            __syncthreads(); /* before the next row's sums take the places of this one's */
    }
}

/* The kernels there are: in turn the forms that every block of a transformer has. */
typedef void (*wide_kernel)(struct kiln_rms_norm, int, int);

static wide_kernel wide_kernel_of(const struct way &w)
{
    if (w.add && w.next)
        return w.in_turn ? w.tails ? norm_wide<true, true, true, true>
                                   : norm_wide<true, true, false, true>
               : w.tails ? norm_wide<true, true, true, false>
                         : norm_wide<true, true, false, false>;
    if (w.add)
        return w.tails ? norm_wide<true, false, true, false> : norm_wide<true, false, false, false>;
    if (w.items < items_long)
        return w.in_turn ? norm_wide<false, false, false, true, items_short>
                         : norm_wide<false, false, false, false, items_short>;
    if (w.in_turn)
        return norm_wide<false, false, false, true>;
    return w.tails ? norm_wide<false, false, true, false> : norm_wide<false, false, false, false>;
}

/* --- launching -------------------------------------------------------------------------------- */

static bool takes_vectors(const struct kiln_rms_norm *a)
{
    return on_bytes(a->x, 16) && on_bytes(a->gain, 16) && on_bytes(a->add, 16) &&
           on_bytes(a->y, 16) && on_bytes(a->next_gain, 16) && on_bytes(a->next, 16) &&
           on_bytes(a->quantised, 8) && a->pitch % 8 == 0;
}

/* Chunks of each of so many threads that only the last may be beyond the row; 0: no such kernel. */
static int wide_items(const struct kiln_rms_norm *a)
{
    const int64_t items = (a->n / 8 + turn_threads - 1) / turn_threads;
    if (a->n % 8 || (!a->add && a->next_gain) || items > items_long)
        return 0;
    if (items == items_long || (items == items_short && !a->add && !a->tails))
        return static_cast<int>(items);
    return 0;
}

/* Rows for each block up to which taking them in turn is the faster way: where the two ways' times,
 * which grow with the rows, cross on an H200 (LAB.md). */
static int64_t turns_max(const struct kiln_rms_norm *a)
{
    const bool of_blocks = (a->add != nullptr) == (a->next_gain != nullptr);
    if (!of_blocks || (!a->add && a->tails))
        return 0;
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
    const int64_t blocks = processors * turn_blocks(a->add, true);
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
    if (!a.x || !a.gain || (!a.y && (!a.quantised || a.next_gain)) ||
        (a.next_gain && !a.next && !a.quantised))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand or a place for the result is missing",
                         name);
    if (a.y && !a.next_gain && a.pitch != a.n && (a.y == a.x || a.y == a.add))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: room behind rows in an operand's place", name);
    const bool ends_in_tails = a.tails && a.add && !a.next_gain;
    if (ends_in_tails && (a.quantised || a.pitch != a.n))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: rows with tails quantised, or with room", name);
    if (a.tails && (a.y == a.x || (!a.add && a.next_gain)))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s: rows with tails in the place of x, or a next norm and no residual",
                         name);
    const bool vectors = takes_vectors(&a);
    const int items = vectors ? wide_items(&a) : 0;
    int64_t blocks = 0;
    code = check_tails(err, name, a.tails, a.n, vectors);
    if (!code && items)
        code = turn_grid(&a, rows, &blocks, name, err);
    if (code || rows == 0)
        return code;
    const struct way way = {a.add != nullptr, a.next_gain != nullptr, a.tails, blocks > 0, items};
    if (items)
        return launch(err, name, wide_kernel_of(way),
                      dim3(static_cast<unsigned>(blocks ? blocks : rows)), turn_threads, stream, a,
                      static_cast<int>(a.n / 8), static_cast<int>(rows));
    const row_kernels<struct kiln_rms_norm> kernels = {norm_rows<1, items_single>, norm_rows<8, 1>,
                                                       norm_rows<8, items_long>};
    return launch_rows(err, name, kernels, a, rows, a.n, vectors, stream);
}
