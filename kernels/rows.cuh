/* rows.cuh - kernels whose block holds one row in its registers: how a row is shared out among the
 * threads, what the launchers check, and the quantising of what is held.
 *
 * Thread t holds the chunks t, t + threads, ..., ITEMS of them at most, so that the row is read
 * once, all loads of a thread are in flight together, and neighbours touch neighbouring memory.
 *
 * A kernel that is written for blocks of THREADS (0: of any size) takes only rows of which a
 * thread's last chunk alone may be beyond the end, and holds zeros there: they change neither a sum
 * nor the largest value, so that arithmetic has no branches and only memory is asked for `within`.
 */
#ifndef KILN_ROWS_CUH
#define KILN_ROWS_CUH

#include "kernels/device.cuh"
#include "kernels/fp8.h"

namespace kiln
{

/* 128 threads with one chunk each for short rows, with four for long ones. */
constexpr int short_row_chunks = 128;
constexpr int items_long = 4, items_single = 16;
constexpr int threads_vector = KILN_ROW_MAX / 8 / items_long;
constexpr int threads_single = KILN_ROW_MAX / items_single;

template <int W> constexpr int row_threads_max = W == 8 ? threads_vector : threads_single;

/* The chunk that this thread holds as its item'th; may be beyond the row. */
template <int THREADS = 0> __device__ __forceinline__ int chunk_of(int item)
{
    return static_cast<int>(threadIdx.x + item * block_threads<THREADS>());
}

/* Whether that chunk is part of the row. */
template <int ITEMS, int THREADS> __device__ __forceinline__ bool within(int item, int chunks)
{
    return (THREADS && item < ITEMS - 1) || chunk_of<THREADS>(item) < chunks;
}

/* The largest magnitude of what this thread holds, at least the floor.  Where THREADS are known as
 * many pairs are under way as a chunk has; other kernels have no registers to spare for that. */
template <int W, int ITEMS, int THREADS>
__device__ __forceinline__ float top_held(const chunk<W> held[ITEMS], int chunks)
{
    uint32_t tops[chunk_words<W>] = {};
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (THREADS || chunk_of(j) < chunks) {
#pragma unroll
            for (int i = 0; i < chunk_words<W>; i++)
                if constexpr (THREADS != 0)
                    tops[i] = larger_signed_pairs(tops[i], word_of<W>(held[j], i));
                else
                    tops[0] = larger_pairs(tops[0], word_of<W>(held[j], i));
        }
    if constexpr (THREADS != 0)
#pragma unroll
        for (int i = 1; i < chunk_words<W>; i++)
            tops[0] = larger_pairs(tops[0], tops[i]);
    return fmaxf(KILN_E4M3_FLOOR, fmaxf(low_bf16(tops[0]), high_bf16(tops[0])));
}

/* Eight values, each times `factor`, as e4m3. */
__device__ __forceinline__ uint2 codes_of(const chunk<8> &in, float factor)
{
    float v[8];
    unpack<8>(in, v);
    return {pack_e4m3(v[0] * factor, v[1] * factor) | pack_e4m3(v[2] * factor, v[3] * factor) << 16,
            pack_e4m3(v[4] * factor, v[5] * factor) | pack_e4m3(v[6] * factor, v[7] * factor)
                                                          << 16};
}

/* Writes the row held in v (bf16, ITEMS chunks a thread) as e4m3 with its scale, to where the
 * kernel's arguments say, whose pitch and code_max have been settled. */
template <int W, int ITEMS, int THREADS = 0, typename Args>
__device__ __forceinline__ void quantise_held(const chunk<W> held[ITEMS], int chunks, int64_t row,
                                              const Args &a, float *slots)
{
    const float top = block_max<THREADS>(top_held<W, ITEMS, THREADS>(held, chunks), slots);
    const float inverse = a.code_max / top;
    if (threadIdx.x == 0)
        a.row_scale[row] = top / a.code_max;
    uint8_t *out = a.quantised + row * a.pitch;
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (within<ITEMS, THREADS>(j, chunks)) {
            if constexpr (W == 1)
                out[chunk_of(j)] = static_cast<uint8_t>(
                    pack_e4m3(low_bf16(word_of<W>(held[j], 0)) * inverse, 0.0f));
            else
                reinterpret_cast<uint2 *>(out)[chunk_of<THREADS>(j)] = codes_of(held[j], inverse);
        }
}

/* --- launchers -------------------------------------------------------------------------------- */

/* Threads that share out `chunks`, each at most `items`; whole warps. */
inline int row_threads(int chunks, int items)
{
    const int threads = (chunks + items - 1) / items;
    return (threads + warp_size - 1) / warp_size * warp_size;
}

/* What every row kernel asks of its arguments. */
inline int check_rows(struct kiln_error *err, const char *name, int64_t rows, int64_t n,
                      enum kiln_float format)
{
    if (rows < 0 || n < 1)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: %lld rows of %lld values", name, (long long)rows,
                         (long long)n);
    if (n > KILN_ROW_MAX || rows > INT32_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: %lld rows of %lld values; at most %d and %d",
                         name, (long long)rows, (long long)n, INT32_MAX, KILN_ROW_MAX);
    if (format != KILN_BF16)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: on the GPU rows are bf16", name);
    return KILN_OK;
}

/* 0 becomes the largest code. */
inline int settle_code_max(struct kiln_error *err, const char *name, float *code_max)
{
    *code_max = *code_max ? *code_max : KILN_E4M3_MAX;
    if (*code_max > 0 && *code_max <= KILN_E4M3_MAX)
        return KILN_OK;
    return kiln_fail(err, KILN_BAD_INPUT, "%s: codes up to %g, of which the largest is %g", name,
                     static_cast<double>(*code_max), static_cast<double>(KILN_E4M3_MAX));
}

/* Of a result whose rows lie a->pitch values apart, of which 0 becomes n. */
template <typename Args> static int settle(struct kiln_error *err, const char *name, Args *a)
{
    a->pitch = a->pitch ? a->pitch : a->n;
    if (a->pitch < a->n)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: rows of %lld values, %lld apart", name,
                         (long long)a->n, (long long)a->pitch);
    return settle_code_max(err, name, &a->code_max);
}

/* e4m3 came with compute capability 8.9. */
inline int check_quantised(struct kiln_error *err, const char *name, const uint8_t *quantised,
                           const float *row_scale)
{
    int device = 0, major = 0, minor = 0;
    if (!quantised)
        return KILN_OK;
    if (!row_scale)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: quantised rows without row_scale", name);
    cudaError_t code = cudaGetDevice(&device);
    if (code == cudaSuccess)
        code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (code == cudaSuccess)
        code = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (code != cudaSuccess)
        return kiln_fail(err, KILN_DEVICE, "%s: asking for the device: %s", name,
                         cudaGetErrorName(code));
    if (major * 10 + minor < 89)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "%s: FP8 needs compute capability 8.9, device %d has %d.%d", name, device,
                         major, minor);
    return KILN_OK;
}

/* A kernel in its three shapes, by how much of a row a thread holds. */
template <typename Args> struct row_kernels {
    void (*singles)(Args, int), (*shorter)(Args, int), (*longer)(Args, int);
};

/* A block a row of n values, eight at a time where `vectors` says that the operands allow it. */
template <typename Args>
static int launch_rows(struct kiln_error *err, const char *name, const row_kernels<Args> &kernels,
                       const Args &args, int64_t rows, int64_t n, bool vectors, kiln_stream stream)
{
    vectors = vectors && n % 8 == 0;
    const int chunks = static_cast<int>(vectors ? n / 8 : n);
    const dim3 grid(static_cast<unsigned>(rows));
    if (rows == 0)
        return KILN_OK;
    if (!vectors)
        return launch(err, name, kernels.singles, grid, row_threads(chunks, items_single), stream,
                      args, chunks);
    if (chunks <= short_row_chunks)
        return launch(err, name, kernels.shorter, grid, row_threads(chunks, 1), stream, args,
                      chunks);
    return launch(err, name, kernels.longer, grid, row_threads(chunks, items_long), stream, args,
                  chunks);
}

} // namespace kiln

#endif
