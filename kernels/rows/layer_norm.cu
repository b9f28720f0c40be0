/* layer_norm.cu - see layer_norm.h; a block a row, held in registers between the two sums.
 *
 * Where only a thread's last chunk can be beyond the row, the scale is loaded with the row: one
 * wait for both, and no store between its loads.
 */
#include "kernels/rows/layer_norm.h"

#include "kernels/rows.cuh"
#include "kernels/tails.cuh"

using namespace kiln;

template <int W, int ITEMS, int THREADS>
static __device__ __forceinline__ void load_scale(const float *from, int chunks,
                                                  float scale[ITEMS][W])
{
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (within<ITEMS, THREADS>(j, chunks))
            load_gains<W>(from, chunk_of<THREADS>(j), scale[j]);
}

/* THREADS: as many as such a block has; 0: any number, for any row. */
template <int W, int ITEMS, bool TAILS, int THREADS = 0>
static __global__ void __launch_bounds__(THREADS ? THREADS : row_threads_max<W>)
    norm_rows(const struct kiln_layer_norm a, int chunks)
{
    __shared__ float slots[2][warp_size];
    const int64_t row = blockIdx.x;
    const float n = static_cast<float>(a.n);
    residual_chunk<W> in[ITEMS] = {};
    float v[ITEMS][W] = {}, scale[ITEMS][W] = {}, sum = 0, square = 0;
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (within<ITEMS, THREADS>(j, chunks))
            in[j] = load_residual<W>(a.x, row, a.n, chunk_of<THREADS>(j), TAILS);
    if (THREADS)
        load_scale<W, ITEMS, THREADS>(a.scale, chunks, scale);
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (within<ITEMS, THREADS>(j, chunks)) {
            unpack_residual<W>(in[j], TAILS, v[j]);
#pragma unroll
            for (int i = 0; i < W; i++)
                sum += v[j][i];
        }
    const float mean = block_sum<THREADS>(sum, slots[0]) / n;
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (within<ITEMS, THREADS>(j, chunks)) {
#pragma unroll
            for (int i = 0; i < W; i++) {
                v[j][i] -= mean;
                square += v[j][i] * v[j][i];
            }
        }
    const float inverse = 1.0f / sqrtf(block_sum<THREADS>(square, slots[1]) / n + a.eps);
    if (!THREADS)
        load_scale<W, ITEMS, THREADS>(a.scale, chunks, scale);
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (within<ITEMS, THREADS>(j, chunks)) {
#pragma unroll
            for (int i = 0; i < W; i++)
                v[j][i] = v[j][i] * inverse * scale[j][i];
            store_chunk<W>(a.y, row * a.n, chunk_of<THREADS>(j), pack<W>(v[j]));
        }
}

template <bool TAILS> static row_kernels<struct kiln_layer_norm> kernels_for(int64_t n)
{
    /* Rows whose chunks, four a thread, are shared out among 128 threads. */
    constexpr int wide = 128, row_max = wide * items_long * 8;
    const bool is_wide = n > row_max - wide * 8 && n <= row_max;
    return {norm_rows<1, items_single, false>, norm_rows<8, 1, TAILS>,
            is_wide ? norm_rows<8, items_long, TAILS, wide> : norm_rows<8, items_long, TAILS>};
}

extern "C" int kiln_layer_norm_launch(const struct kiln_layer_norm *args, int64_t rows,
                                      kiln_stream stream, struct kiln_error *err)
{
    const char *name = "layer_norm";
    int code = check_rows(err, name, rows, args->n, args->format);
    if (code)
        return code;
    if (!args->x || !args->scale || !args->y)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    const bool vectors =
        on_bytes(args->x, 16) && on_bytes(args->scale, 16) && on_bytes(args->y, 16);
    if (args->tails && args->y == args->x)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: rows in the place of those with tails", name);
    code = check_tails(err, name, args->tails, args->n, vectors);
    if (code)
        return code;
    const row_kernels<struct kiln_layer_norm> kernels =
        args->tails ? kernels_for<true>(args->n) : kernels_for<false>(args->n);
    return launch_rows(err, name, kernels, *args, rows, args->n, vectors, stream);
}
