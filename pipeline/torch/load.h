/* load.h - what tensor.h has no need of: weights out of files and out of nothing, and a device's
 * memory in figures.  For loaders and benchmarks.  Same rules as tensor.h.
 */
#ifndef KILN_TORCH_LOAD_H
#define KILN_TORCH_LOAD_H

#include "pipeline/torch/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Normally distributed values, drawn on the scope's device by its own generator: the same on every
 * run of one device for one seed, up to the rounding of dtype.  On the CPU more than some millions
 * of them repeat. */
kt kt_normal(struct kt_scope *s, uint64_t seed, double mean, double deviation, enum kt_dtype dtype,
             int ndim, const int64_t *shape);

int kt_device_of(const struct kt_scope *s); /* KT_CPU or a CUDA index */

/* --- tensors that are filled piece by piece --------------------------------------------------- */
/* A ring of host buffers, page-locked for a CUDA device, from which a tensor is filled while the
 * host goes on.  For one thread; the buffers may be written to by any. */
struct kt_upload;
/* NULL without memory.  The device is open. */
struct kt_upload *kt_upload_new(int device, int slots, size_t slot_bytes);
void kt_upload_free(struct kt_upload *u); /* accepts NULL */
void *kt_upload_buffer(struct kt_upload *u, int slot);
/* A tensor whose values are unknown until all its bytes have been sent, which come next. */
kt kt_upload_target(struct kt_upload *u, struct kt_scope *s, enum kt_dtype dtype, int ndim,
                    const int64_t *shape);
/* Copies the first `size` bytes of a slot to byte `at` of the last target, in its turn among the
 * scope's operations. */
void kt_upload_send(struct kt_upload *u, int slot, uint64_t at, size_t size);
/* Returns when the slot may be written to again; a device that is lost or silent fails the scope of
 * the target. */
void kt_upload_wait(struct kt_upload *u, int slot);

/* Changes flags, KT_U8 [n]: element i becomes 1 if a value of x is not finite.  Asks the device,
 * waits for nothing. */
void kt_note_not_finite(struct kt_scope *s, kt x, kt flags, int64_t i);

/* --- quantised rows, taken apart ---------------------------------------------------------------
 */
/* Codes, KT_U8 [rows,n], and factors, KT_F32 [rows], as one tensor of quantised rows; and back. */
kt kt_rows_of(struct kt_scope *s, kt codes, kt factors);
void kt_rows_parts(struct kt_scope *s, kt rows, kt *ret_codes, kt *ret_factors);
/* The sums of codes and of factors, each as 64-bit words.  Waits; false with the scope's error. */
bool kt_rows_sums(struct kt_scope *s, kt rows, uint64_t ret[2]);

/* --- memory ----------------------------------------------------------------------------------- */
struct kt_memory {
    size_t used, peak_used; /* bytes in tensors */
    size_t held, peak_held; /* bytes taken from the device for them */
    size_t taken, total;    /* of the device, by all processes, and its own context too */
};
/* False for the CPU. */
bool kt_memory_of(int device, struct kt_memory *ret);
void kt_memory_reset_peak(int device);
/* Lets the operations of the scope's lane find so many bytes in one piece: when more are asked for
 * than ever before, what no tensor uses goes back to the device first.  No more than a wish. */
void kt_reserve(struct kt_scope *s, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
