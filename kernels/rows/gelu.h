/* gelu.h - the gate of encoders of the BERT class, on the CPU in fp32:
 *
 *     x * (1 + erf(x / sqrt 2)) / 2                                     exact
 *     x * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2                 with tanh
 *
 * within 1e-6 of these.  gelu_ref.c is the definition and there is no CUDA kernel.
 */
#ifndef KILN_GELU_H
#define KILN_GELU_H

#include <stdbool.h>

#include "kernels/floats.h"

#ifdef __cplusplus
extern "C" {
#endif

void kiln_gelu_ref(float *x, int64_t n, bool with_tanh);

#ifdef __cplusplus
}
#endif

#endif
