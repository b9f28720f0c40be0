/* stream.h - streams weights from a file to a device: several threads read, the device converts and
 * checks.
 *
 * weights.c uses it for GPUs.  On the CPU a mapping is as fast and needs no second copy.  The code
 * here runs on both.
 */
#ifndef KILN_WEIGHTS_STREAM_H
#define KILN_WEIGHTS_STREAM_H

#include "pipeline/torch/tensor.h"
#include "schemas/error.h"
#include "storage/formats/safetensors.h"

struct kiln_weights_stream;

/* st is lent until the stream is closed. */
int kiln_weights_stream_open(const struct kiln_st *st, int device, struct kiln_weights_stream **ret,
                             struct kiln_error *err) KILN_MUST_CHECK;

/* Tensor `index` of st, which has dtype `from`, converted to dtype `to`.  Returns as soon as all
 * of it is read; NULL with the scope's error or err set. */
kt kiln_weights_stream_load(struct kiln_weights_stream *ws, struct kt_scope *scope, size_t index,
                            enum kt_dtype from, enum kt_dtype to, struct kiln_error *err);

/* Waits for the device and frees ws.  KILN_CORRUPT, with its name, for a tensor that is not finite,
 * and for a file that has changed since st was opened. */
int kiln_weights_stream_close(struct kiln_weights_stream *ws,
                              struct kiln_error *err) KILN_MUST_CHECK;

#endif
