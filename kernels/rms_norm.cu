/* rms_norm.cu - see rms_norm.h; a block a row, which stays in registers from the first norm through
 * the residual and the next norm to the quantising: every value is read once and written once.
 *
 * The residual stream is loaded before the first barrier, with the rest, so that one wait for
 * memory covers both.  Weights are read by every row and come from the caches.
 */
#include "kernels/rms_norm.h"

#include "kernels/rows.cuh"

using namespace kiln;

/* 1 / RMS of the row that the block holds. */
template <int W, int ITEMS>
static __device__ __forceinline__ float inverse_rms(const chunk<W> held[ITEMS], int chunks,
                                                    float eps, float *slots)
{
    float sum = 0;
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (chunk_of(j) < chunks) {
            float v[W];
            unpack<W>(held[j], v);
#pragma unroll
            for (int i = 0; i < W; i++)
                sum += v[i] * v[i];
        }
    return 1.0f / sqrtf(block_sum(sum, slots) / static_cast<float>(chunks * W) + eps);
}

/* One chunk normed; every product rounded. */
template <int W>
static __device__ __forceinline__ chunk<W> normed(const chunk<W> &in, float inverse,
                                                  const void *weight, const void *factor, int index)
{
    float v[W];
    unpack<W>(in, v);
#pragma unroll
    for (int i = 0; i < W; i++)
        v[i] *= inverse;
    const chunk<W> out = product_of<W>(pack<W>(v), load_chunk<W>(weight, 0, index));
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

static bool takes_vectors(const struct kiln_rms_norm *a)
{
    return on_bytes(a->x, 16) && on_bytes(a->weight, 16) && on_bytes(a->factor, 16) &&
           on_bytes(a->add, 16) && on_bytes(a->y, 16) && on_bytes(a->next_weight, 16) &&
           on_bytes(a->next_factor, 16) && on_bytes(a->next, 16) && on_bytes(a->quantised, 8);
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
    const row_kernels<struct kiln_rms_norm> kernels = {norm_rows<1, items_single>, norm_rows<8, 1>,
                                                       norm_rows<8, items_long>};
    return launch_rows(err, name, kernels, *args, rows, args->n, vectors, stream);
}
