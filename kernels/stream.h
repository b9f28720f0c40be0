/* stream.h - the CUDA stream that a launcher queues its work on, without CUDA's own headers.
 *
 * Every launcher of this folder keeps the same promises.  It checks its shapes, queues its kernels
 * and returns: it neither waits nor allocates, so it may be recorded into a CUDA graph.  Pointers
 * are device memory of the current device, stay the caller's, and must live until the stream has
 * passed.  Any alignment is taken; pointers on 16 bytes with rows of a multiple of 8 values take
 * the fast path.  0 rows or values are done at once.
 *
 * Returns 0; KILN_BAD_INPUT for a shape or pointer that makes no sense; KILN_UNSUPPORTED for one
 * that this kernel does not take, or FP8 on a device without it; KILN_DEVICE, with CUDA's own name
 * for the error, where the launch failed.  Earlier work that failed shows at the next launch, too.
 */
#ifndef KILN_STREAM_H
#define KILN_STREAM_H

typedef struct CUstream_st *kiln_stream; /* a cudaStream_t; NULL is the default stream */

#endif
