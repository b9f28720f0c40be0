/* quantise.cu - see quantise.h; a block a row, held in registers until its largest value is known.
 */
#include "kernels/quantise.h"

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
    quantise_held<W, ITEMS>(held, chunks, blockIdx.x, a.quantised, a.row_scale, slots);
}

extern "C" int kiln_quantise_launch(const struct kiln_quantise *args, int64_t rows,
                                    kiln_stream stream, struct kiln_error *err)
{
    const char *name = "quantise";
    int code = check_rows(err, name, rows, args->n, args->format);
    code = code ? code : check_quantised(err, name, args->quantised, args->row_scale);
    if (code)
        return code;
    if (!args->x || !args->quantised)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    if (rows == 0)
        return KILN_OK;
    const bool vectors = args->n % 8 == 0 && on_bytes(args->x, 16) && on_bytes(args->quantised, 8);
    const int chunks = static_cast<int>(vectors ? args->n / 8 : args->n);
    const dim3 grid(static_cast<unsigned>(rows));
    if (!vectors)
        return launch(err, name, quantise_rows<1, items_single>, grid,
                      row_threads(chunks, items_single), stream, *args, chunks);
    if (chunks <= short_row_chunks)
        return launch(err, name, quantise_rows<8, 1>, grid, row_threads(chunks, 1), stream, *args,
                      chunks);
    return launch(err, name, quantise_rows<8, items_long>, grid, row_threads(chunks, items_long),
                  stream, *args, chunks);
}
