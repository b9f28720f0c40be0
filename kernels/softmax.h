/* softmax.h - rows of attention scores to probabilities: exp(x - max) / sum, in fp32.
 *
 * softmax_ref.c is the meaning.
 */
#ifndef KILN_SOFTMAX_H
#define KILN_SOFTMAX_H

#include "kernels/floats.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiln_softmax {
    float *scores;          /* [rows][n]; used as scratch */
    void *y;                /* [rows][n]; may be scores when the format is fp32 */
    int64_t n;              /* > 0 */
    enum kiln_float format; /* of y */
};

void kiln_softmax_ref(const struct kiln_softmax *args, int64_t begin, int64_t end);

#ifdef __cplusplus
}
#endif

#endif
