/* quantise_ref.c - see quantise.h. */
#include "kernels/rows/quantise.h"

#include "kernels/fp8.h"

void kiln_quantise_ref(const struct kiln_quantise *args, int64_t begin, int64_t end)
{
    const int64_t n = args->n, pitch = args->pitch ? args->pitch : n;
    const int64_t size = kiln_float_size(args->format);
    for (int64_t row = begin; row < end; row++)
        kiln_quantise_row((const char *)args->x + row * n * size, n, args->format, args->code_max,
                          args->quantised + row * pitch, args->row_scale + row);
}
