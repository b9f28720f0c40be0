/* stream.h - weights from a file to a device without a mapping: read by several threads,
 * converted on the device, checked there once at the end.
 *
 * On the CPU a mapping is as fast and needs no second copy, so that weights.c streams to GPUs
 * alone; the code here runs on both.
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

/* Waits for the device and frees ws.  KILN_CORRUPT for a tensor with values that are not finite,
 * which it names, and for a file that was changed since st was opened. */
int kiln_weights_stream_close(struct kiln_weights_stream *ws,
                              struct kiln_error *err) KILN_MUST_CHECK;

#endif
