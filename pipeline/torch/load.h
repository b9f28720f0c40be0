/* load.h - for loaders and benchmarks: tensors filled from files, random weights, memory figures.
 * The rules of tensor.h hold.
 */
#ifndef KILN_TORCH_LOAD_H
#define KILN_TORCH_LOAD_H

#include "pipeline/torch/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Normally distributed values from the device's own generator: the same in every run on one kind of
 * device for one seed, up to the rounding of dtype.  On the CPU values repeat after 2^22. */
kt kt_normal(struct kt_scope *s, uint64_t seed, double mean, double deviation, enum kt_dtype dtype,
             int ndim, const int64_t *shape);

int kt_device_of(const struct kt_scope *s); /* KT_CPU or a CUDA index */

/* --- tensors that are filled piece by piece --------------------------------------------------- */
/* A ring of host buffers, page-locked for a CUDA device, from which a tensor is filled while the
 * host goes on.  For one thread; any thread may write to the buffers. */
struct kt_upload;
/* NULL without memory.  The device is open. */
struct kt_upload *kt_upload_new(int device, int slots, size_t slot_bytes);
void kt_upload_free(struct kt_upload *u); /* accepts NULL */
void *kt_upload_buffer(struct kt_upload *u, int slot);
/* The tensor that the next sends fill.  Its values are unknown until all its bytes are sent. */
kt kt_upload_target(struct kt_upload *u, struct kt_scope *s, enum kt_dtype dtype, int ndim,
                    const int64_t *shape);
/* Queues a copy of the slot's first `size` bytes to byte `at` of the last target. */
void kt_upload_send(struct kt_upload *u, int slot, uint64_t at, size_t size);
/* Waits until the slot may be written to again.  A lost or silent device fails the target's scope.
 */
void kt_upload_wait(struct kt_upload *u, int slot);

/* Changes flags, KT_U8 [n]: sets element i to 1 if a value of x is not finite.  Does not wait. */
void kt_note_not_finite(struct kt_scope *s, kt x, kt flags, int64_t i);

/* --- the parts of quantised rows -------------------------------------------------------------- */
/* Codes, KT_U8 [rows,n], and factors, KT_F32 [rows], as one tensor of quantised rows; and back. */
kt kt_rows_of(struct kt_scope *s, kt codes, kt factors);
void kt_rows_parts(struct kt_scope *s, kt rows, kt *ret_codes, kt *ret_factors);
/* The sums of codes and of factors, each as 64-bit words.  Waits; false with the scope's error. */
bool kt_rows_sums(struct kt_scope *s, kt rows, uint64_t ret[2]);

/* --- memory ----------------------------------------------------------------------------------- */
struct kt_memory {
    size_t used, peak_used; /* bytes in tensors */
    size_t held, peak_held; /* bytes that LibTorch has allocated for tensors */
    size_t taken, total;    /* of the device: in use by all processes; all there is */
};
/* False for the CPU. */
bool kt_memory_of(int device, struct kt_memory *ret);
void kt_memory_reset_peak(int device);
/* On the CPU, once it is open: no tensor may have more bytes from now on; 0: no bound.  Returns the
 * largest that was asked for since the last call.  For tests of what happens without memory. */
size_t kt_memory_bound(size_t bytes);
/* Makes it likely that later operations of the scope's stream find so many bytes in one piece.  The
 * first time that more are asked for than before, unused memory goes back to the device. */
void kt_reserve(struct kt_scope *s, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
