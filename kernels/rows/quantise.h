/* quantise.h - rows to e4m3 with a scale each (fp8.h), where no other pass over them could do it:
 * what attention gives to the next product, and weights, a row an output channel, when they are
 * loaded.  quantise_ref.c is the definition.
 */
#ifndef KILN_QUANTISE_H
#define KILN_QUANTISE_H

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiln_quantise {
    const void *x;      /* [rows][n] */
    uint8_t *quantised; /* [rows][n], e4m3 */
    float *row_scale;   /* [rows] */
    float code_max;     /* see fp8.h; 0 is 448 */
    int64_t n;          /* at most KILN_ROW_MAX */
    int64_t pitch;      /* values from row to row of what is quantised; 0 is n.  What lies behind a
                         * row stays as it is */
    enum kiln_float format;
};

/* Rows [begin, end). */
void kiln_quantise_ref(const struct kiln_quantise *args, int64_t begin, int64_t end);

/* On the device, bf16; the promises of stream.h. */
int kiln_quantise_launch(const struct kiln_quantise *args, int64_t rows, kiln_stream stream,
                         struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
