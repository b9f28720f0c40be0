/* quantise.cu - see quantise.h; a block a row, held in registers until its largest value is known.
 */
#include "kernels/rows/quantise.h"

#include "kernels/rows.cuh"

using namespace kiln;

template <int W, int ITEMS>
static __global__ void __launch_bounds__(row_threads_max<W>)
    quantise_rows(const struct kiln_quantise a, int chunks)
{
    __shared__ float slots[warp_size];
    chunk<W> held[ITEMS];
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (chunk_of(j) < chunks)
            held[j] = load_chunk<W>(a.x, blockIdx.x * a.n, chunk_of(j));
    quantise_held<W, ITEMS>(held, chunks, blockIdx.x, a, slots);
}

extern "C" int kiln_quantise_launch(const struct kiln_quantise *args, int64_t rows,
                                    kiln_stream stream, struct kiln_error *err)
{
    const char *name = "quantise";
    int code = check_rows(err, name, rows, args->n, args->format);
    code = code ? code : check_quantised(err, name, args->quantised, args->row_scale);
    struct kiln_quantise a = *args;
    code = code ? code : settle(err, name, &a);
    if (code)
        return code;
    if (!a.x || !a.quantised)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    const bool vectors = on_bytes(a.x, 16) && on_bytes(a.quantised, 8) && a.pitch % 8 == 0;
    const row_kernels<struct kiln_quantise> kernels = {
        quantise_rows<1, items_single>, quantise_rows<8, 1>, quantise_rows<8, items_long>};
    return launch_rows(err, name, kernels, a, rows, a.n, vectors, stream);
}
