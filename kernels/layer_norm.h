/* layer_norm.h - the norm in front of the transformer's last product: no weight or bias of its own,
 * a scale that depends on time.
 *
 *     y = (x - mean) / sqrt(variance + eps) * scale
 *
 * Mean and variance in fp32, the variance about the mean, the quotient rounded to the rows' format
 * before the scale is multiplied in, as the reference implementation does.
 * layer_norm_ref.c is the meaning.
 */
#ifndef KILN_LAYER_NORM_H
#define KILN_LAYER_NORM_H

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiln_layer_norm {
    const void *x;     /* [rows][n] */
    const void *scale; /* [n] */
    void *y;           /* [rows][n]; may be x */
    int64_t n;
    float eps;
    enum kiln_float format;
};

/* Rows [begin, end). */
void kiln_layer_norm_ref(const struct kiln_layer_norm *args, int64_t begin, int64_t end);

/* On the device, bf16, n at most KILN_ROW_MAX; the promises of stream.h. */
int kiln_layer_norm_launch(const struct kiln_layer_norm *args, int64_t rows, kiln_stream stream,
                           struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
