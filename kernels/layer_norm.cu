/* layer_norm.cu - see layer_norm.h; a block a row, held in registers between the two sums.
 *
 * Where only a thread's last chunk can be beyond the row, the scale is loaded with the row: one
 * wait for both, and no store between its loads.
 */
#include "kernels/layer_norm.h"

#include "kernels/rows.cuh"

using namespace kiln;

/* THREADS: as many as such a block has; 0: any number, for any row. */
template <int W, int ITEMS, int THREADS = 0>
static __global__ void __launch_bounds__(THREADS ? THREADS : row_threads_max<W>)
    norm_rows(const struct kiln_layer_norm a, int chunks)
{
    __shared__ float slots[2][warp_size];
    const int64_t row = blockIdx.x, at = row * a.n;
    const float n = static_cast<float>(a.n);
    chunk<W> scale[ITEMS] = {};
    float v[ITEMS][W] = {}, sum = 0, square = 0;
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (within<ITEMS, THREADS>(j, chunks)) {
            unpack<W>(load_chunk<W>(a.x, at, chunk_of<THREADS>(j)), v[j]);
            if (THREADS)
                scale[j] = load_chunk<W>(a.scale, 0, chunk_of<THREADS>(j));
#pragma unroll
            for (int i = 0; i < W; i++)
                sum += v[j][i];
        }
    const float mean = block_sum<THREADS>(sum, slots[0]) / n;
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (within<ITEMS, THREADS>(j, chunks))
#pragma unroll
            for (int i = 0; i < W; i++) {
                v[j][i] -= mean;
                square += v[j][i] * v[j][i];
            }
    const float inverse = 1.0f / sqrtf(block_sum<THREADS>(square, slots[1]) / n + a.eps);
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (within<ITEMS, THREADS>(j, chunks)) {
            if (!THREADS)
                scale[j] = load_chunk<W>(a.scale, 0, chunk_of(j));
#pragma unroll
            for (int i = 0; i < W; i++)
                v[j][i] *= inverse;
            store_chunk<W>(a.y, at, chunk_of<THREADS>(j), product_of<W>(pack<W>(v[j]), scale[j]));
        }
}

extern "C" int kiln_layer_norm_launch(const struct kiln_layer_norm *args, int64_t rows,
                                      kiln_stream stream, struct kiln_error *err)
{
    const char *name = "layer_norm";
    const int code = check_rows(err, name, rows, args->n, args->format);
    if (code)
        return code;
    if (!args->x || !args->scale || !args->y)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    const bool vectors =
        on_bytes(args->x, 16) && on_bytes(args->scale, 16) && on_bytes(args->y, 16);
    /* Rows whose chunks, four a thread, are shared out among 128 threads. */
    constexpr int wide = 128, row_max = wide * items_long * 8;
    const bool is_wide = args->n > row_max - wide * 8 && args->n <= row_max;
    const row_kernels<struct kiln_layer_norm> kernels = {
        norm_rows<1, items_single>, norm_rows<8, 1>,
        is_wide ? norm_rows<8, items_long, wide> : norm_rows<8, items_long>};
    return launch_rows(err, name, kernels, *args, rows, args->n, vectors, stream);
}
