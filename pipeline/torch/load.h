/* load.h - what tensor.h has no need of: weights out of nothing, and a device's memory in figures.
 *
 * For loaders and benchmarks.  Same rules as tensor.h.
 */
#ifndef KILN_TORCH_LOAD_H
#define KILN_TORCH_LOAD_H

#include "pipeline/torch/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Normally distributed values, drawn on the scope's device by its own generator: the same on every
 * run of one device for one seed, up to the rounding of dtype. */
kt kt_normal(struct kt_scope *s, uint64_t seed, double mean, double deviation, enum kt_dtype dtype,
             int ndim, const int64_t *shape);

struct kt_memory {
    size_t used, peak_used; /* bytes in tensors */
    size_t held, peak_held; /* bytes taken from the device for them */
    size_t taken, total;    /* of the device, by all processes, and its own context too */
};
/* False for the CPU. */
bool kt_memory_of(int device, struct kt_memory *ret);
void kt_memory_reset_peak(int device);

#ifdef __cplusplus
}
#endif
#endif
