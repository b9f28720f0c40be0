/* staging.h - contents that come and go in tensors that stay: how sets of LoRAs reach a device.
 *
 * Staging memory is host memory that a GPU reads by itself, while the host goes on.  It is filled
 * by plain C and copied, whole, into a tensor of bytes, of which other tensors are views.  Same
 * rules as tensor.h; staging memory may be made and freed on any thread.
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
void kt_staging_free(struct kt_staging *m); /* copies under way keep what they need; accepts NULL */
void *kt_staging_data(const struct kt_staging *m);

/* Changes bytes, KT_U8 [n]: it becomes what the staging memory, of the same size, holds.  On a GPU
 * in its turn among the other operations; the memory must not be written to any more. */
void kt_staging_copy(struct kt_scope *s, kt bytes, struct kt_staging *from);

/* A part of bytes, from an offset on, as numbers: a view. */
kt kt_view_bytes(struct kt_scope *s, kt bytes, size_t offset, enum kt_dtype dtype, int ndim,
                 const int64_t *shape);

#ifdef __cplusplus
}
#endif
#endif
