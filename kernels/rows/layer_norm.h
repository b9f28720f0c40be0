/* layer_norm.h - the norm in front of the transformer's last product: no weight or bias of its own,
 * a scale that depends on time.
 *
 *     y = (x - mean) / sqrt(variance + eps) * scale
 *
 * All in fp32, the variance about the mean, rounded once at the end.  layer_norm_ref.c is the
 * meaning.
 */
#ifndef KILN_LAYER_NORM_H
#define KILN_LAYER_NORM_H

#include <stdbool.h>

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiln_layer_norm {
    const void *x;      /* [rows][n] */
    const float *scale; /* [n] */
    void *y;            /* [rows][n]; may be x */
    int64_t n;
    float eps;
    enum kiln_float format;
    bool tails; /* x has tails (tails.h), n is at most KILN_ROW_MAX, and y is apart from x */
};

/* Rows [begin, end). */
void kiln_layer_norm_ref(const struct kiln_layer_norm *args, int64_t begin, int64_t end);

/* On the device, bf16, n at most KILN_ROW_MAX; with tails all rows on 16 bytes; the promises of
 * stream.h. */
int kiln_layer_norm_launch(const struct kiln_layer_norm *args, int64_t rows, kiln_stream stream,
                           struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
