/* fp8_cache.h - the 8-bit rows of a model in a file beside it, so that the next engine in fp8 reads
 * half the bytes and quantises nothing.
 *
 * MODEL/fp8.safetensors holds every quantised matrix by its name ("transformer/layers.0...", codes
 * as F8_E4M3 and "....scale" as F32), with two sums of each, and says of which files it was made:
 * their names, sizes and times.  A file of other weights, or one with a damaged matrix, is not used
 * and made anew; one that cannot be written is done without.  In both cases there is one sentence
 * about it.  Several engines may load at once: one of them writes, and what the others see is the
 * whole file or none.
 */
#ifndef KILN_FP8_CACHE_H
#define KILN_FP8_CACHE_H

#include "pipeline/torch/tensor.h"

#define KILN_FP8_CACHE_NAME "fp8.safetensors"
/* Weights of fewer bytes are quantised faster than their file would be opened. */
#define KILN_FP8_CACHE_WORTH ((uint64_t)1 << 30)

struct kiln_fp8_cache;

/* dir: the model's.  worth: see above; for tests.  NULL without memory, and where the weights are
 * not worth it: all functions accept it then, and there is no cache. */
struct kiln_fp8_cache *kiln_fp8_cache_open(const char *dir, int device, uint64_t worth);

/* The matrix of this name, in scope; NULL where it is not to be had: then whoever asks makes it,
 * and notes it. */
kt kiln_fp8_cache_take(struct kiln_fp8_cache *c, struct kt_scope *scope, const char *name,
                       int64_t rows, int64_t cols);
/* matrix is lent until the cache is closed. */
void kiln_fp8_cache_note(struct kiln_fp8_cache *c, const char *name, kt matrix);

/* Writes the file, if a matrix was made and all went well, and frees c.  note: what has to be said
 * about it, or left as it was. */
void kiln_fp8_cache_close(struct kiln_fp8_cache *c, bool write, char *note, size_t size);

#endif
