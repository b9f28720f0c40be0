/* rms_norm.cu - see rms_norm.h; a block a row, which stays in registers from the first norm through
 * the residual and the next norm to the quantising: every value is read once and written once.
 *
 * The residual stream is loaded before the first barrier, with the rest, so that one wait for
 * memory covers both.  Weights are read by every row and come from the caches: all of a thread's
 * are asked for together, and behind the sum, since in front of it they would hold registers that
 * further blocks can use.
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
    for (int j = 0; j < ITEMS; j++) {
        float v[W];
        unpack<W>(held[j], v);
#pragma unroll
        for (int i = 0; i < W; i++)
            sum += v[i] * v[i];
    }
    return 1.0f / sqrtf(block_sum(sum, slots) / static_cast<float>(chunks * W) + eps);
}

/* The row times a vector; every product rounded. */
template <int W, int ITEMS>
static __device__ __forceinline__ void multiply_held(chunk<W> held[ITEMS], const void *by,
                                                     int chunks)
{
    chunk<W> factors[ITEMS];
    load_held<W, ITEMS>(by, 0, chunks, factors);
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        held[j] = product_of<W>(held[j], factors[j]);
}

/* The row normed; every product rounded. */
template <int W, int ITEMS>
static __device__ __forceinline__ void norm_held(chunk<W> held[ITEMS], const void *weight,
                                                 const void *factor, int chunks, float eps,
                                                 float *slots)
{
    const float inverse = inverse_rms<W, ITEMS>(held, chunks, eps, slots);
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        float v[W];
        unpack<W>(held[j], v);
#pragma unroll
        for (int i = 0; i < W; i++)
            v[i] *= inverse;
        held[j] = pack<W>(v);
    }
    multiply_held<W, ITEMS>(held, weight, chunks);
    if (factor)
        multiply_held<W, ITEMS>(held, factor, chunks);
}

/* AFTER: with a residual or a next norm; a norm alone does with fewer registers. */
template <int W, int ITEMS, bool AFTER>
static __global__ void __launch_bounds__(row_threads_max<W>)
    norm_rows(const struct kiln_rms_norm a, int chunks)
{
    __shared__ float slots[3][warp_size];
    const int64_t row = blockIdx.x, at = row * a.n;
    chunk<W> held[ITEMS], residual[ITEMS];
    load_held<W, ITEMS>(a.x, at, chunks, held);
    if (AFTER && a.add)
        load_held<W, ITEMS>(a.add, at, chunks, residual);
    norm_held<W, ITEMS>(held, a.weight, a.factor, chunks, a.eps, slots[0]);
    if (AFTER && a.add)
#pragma unroll
        for (int j = 0; j < ITEMS; j++)
            held[j] = sum_of<W>(held[j], residual[j]);
    if (a.y)
        store_held<W, ITEMS>(a.y, at, chunks, held);
    if (AFTER && a.next_weight) {
        norm_held<W, ITEMS>(held, a.next_weight, a.next_factor, chunks, a.eps, slots[1]);
        if (a.next)
            store_held<W, ITEMS>(a.next, at, chunks, held);
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
    const bool after = args->add || args->next_weight;
    const row_kernels<struct kiln_rms_norm> kernels = {
        norm_rows<1, items_single, true>, norm_rows<8, 1, true>,
        after ? norm_rows<8, items_long, true> : norm_rows<8, items_long, false>};
    return launch_rows(err, name, kernels, *args, rows, args->n, vectors, stream);
}
