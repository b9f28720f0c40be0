/* softmax.h - rows of attention scores to probabilities: exp(x - max) / sum, in fp32.
 *
 * softmax_ref.c is the definition.
 */
#ifndef KILN_SOFTMAX_H
#define KILN_SOFTMAX_H

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiln_softmax {
    float *scores;          /* [rows][n]; the reference uses them up */
    void *y;                /* [rows][n]; may be scores when the format is fp32 */
    int64_t n;              /* > 0 */
    enum kiln_float format; /* of y */
    float scale;            /* scores are multiplied with it first, > 0; 0 is 1 */
    /* [rows]; NULL, as on the device: nothing.  Else y is exp(x - max) alone, and this is 1 / sum,
     * for a caller who multiplies with it later. */
    float *inverse;
};

void kiln_softmax_ref(const struct kiln_softmax *args, int64_t begin, int64_t end);

/* On the device, y in bf16 and apart from the scores; the promises of stream.h. */
int kiln_softmax_launch(const struct kiln_softmax *args, int64_t rows, kiln_stream stream,
                        struct kiln_error *err) KILN_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
