/* swiglu.cu - see swiglu.h; a block a row, since the scale of a quantised row needs its largest
 * value before the first byte is written.  The products wait in registers.
 */
#include "kernels/rows/swiglu.h"

#include "kernels/rows.cuh"

using namespace kiln;

template <int W, int ITEMS>
static __global__ void __launch_bounds__(row_threads_max<W>)
    gate_rows(const struct kiln_swiglu a, int chunks)
{
    __shared__ float slots[warp_size];
    const int64_t row = blockIdx.x, at = row * a.n;
    chunk<W> held[ITEMS], up[ITEMS];
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (chunk_of(j) < chunks) {
            held[j] = load_chunk<W>(a.gate_up, 2 * at, chunk_of(j));
            up[j] = load_chunk<W>(a.gate_up, 2 * at + a.n, chunk_of(j));
        }
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (chunk_of(j) < chunks) {
            float v[W];
            unpack<W>(held[j], v);
#pragma unroll
            for (int i = 0; i < W; i++)
                v[i] = silu(v[i]);
            held[j] = product_of<W>(pack<W>(v), up[j]);
            if (a.y)
                store_chunk<W>(a.y, row * a.pitch, chunk_of(j), held[j]);
        }
    if (a.quantised)
        quantise_held<W, ITEMS>(held, chunks, row, a, slots);
}

extern "C" int kiln_swiglu_launch(const struct kiln_swiglu *args, int64_t rows, kiln_stream stream,
                                  struct kiln_error *err)
{
    const char *name = "swiglu";
    int code = check_rows(err, name, rows, args->n, args->format);
    code = code ? code : check_quantised(err, name, args->quantised, args->row_scale);
    struct kiln_swiglu a = *args;
    code = code ? code : settle(err, name, &a);
    if (code)
        return code;
    if (!a.gate_up || (!a.y && !a.quantised))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand or a place for the result is missing",
                         name);
    const bool vectors = on_bytes(a.gate_up, 16) && on_bytes(a.y, 16) && on_bytes(a.quantised, 8) &&
                         a.pitch % 8 == 0;
    const row_kernels<struct kiln_swiglu> kernels = {gate_rows<1, items_single>, gate_rows<8, 1>,
                                                     gate_rows<8, items_long>};
    return launch_rows(err, name, kernels, a, rows, a.n, vectors, stream);
}
