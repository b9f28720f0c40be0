/* staging.h - host memory from which LoRA sets are copied to a device.
 *
 * Staging memory is page-locked, so that a GPU reads it by itself while the host goes on.  Plain C
 * fills it, and it is copied as a whole into a tensor of bytes, of which other tensors are views.
 * The rules of tensor.h hold; any thread may make and free staging memory.
 */
#ifndef KILN_TORCH_STAGING_H
#define KILN_TORCH_STAGING_H

#include "pipeline/torch/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kt_staging;

/* NULL without memory.  Page-locked for a CUDA device, which is open; plain for the CPU. */
struct kt_staging *kt_staging_new(int device, size_t size);
void kt_staging_free(struct kt_staging *m); /* also while a copy runs; accepts NULL */
void *kt_staging_data(const struct kt_staging *m);

/* Changes bytes, KT_U8 [n]: copies all of the staging memory, which has the same size.  On a GPU
 * the copy is queued like an operation, and the memory must not be written to any more. */
void kt_staging_copy(struct kt_scope *s, kt bytes, struct kt_staging *from);

/* Bytes from an offset on, as a tensor of numbers: a view. */
kt kt_view_bytes(struct kt_scope *s, kt bytes, size_t offset, enum kt_dtype dtype, int ndim,
                 const int64_t *shape);

#ifdef __cplusplus
}
#endif
#endif
