/* fp8_cache.h - a file with the 8-bit rows of a model, so that the next start in fp8 reads half the
 * bytes and quantises nothing.
 *
 * MODEL/fp8.safetensors has every quantised matrix by its name ("transformer/layers.0...", codes as
 * F8_E4M3 and "....scale" as F32), two checksums of each, and the names, sizes and times of the
 * files that it was made from.  If those have changed or a matrix is damaged, the file is made
 * again.  If it cannot be written, the engine runs without it.  Both are reported in a note.
 * Several engines may load at once: one of them writes, and the others see the whole file or none.
 */
#ifndef KILN_FP8_CACHE_H
#define KILN_FP8_CACHE_H

#include "pipeline/torch/tensor.h"

#define KILN_FP8_CACHE_NAME "fp8.safetensors"
/* Quantising fewer bytes of weights than this is faster than opening the file. */
#define KILN_FP8_CACHE_WORTH ((uint64_t)1 << 30)

struct kiln_fp8_cache;

/* dir: the model's; folders: those in it that have the weights.  worth: KILN_FP8_CACHE_WORTH;
 * another value in tests.  NULL, which all functions accept, means no cache: without memory, or for
 * small weights. */
struct kiln_fp8_cache *kiln_fp8_cache_open(const char *dir, const char *const *folders,
                                           size_t folder_count, int device, uint64_t worth);

/* The matrix of this name, in scope; NULL if it is not in the file: then the caller makes it and
 * calls kiln_fp8_cache_note. */
kt kiln_fp8_cache_take(struct kiln_fp8_cache *c, struct kt_scope *scope, const char *name,
                       int64_t rows, int64_t cols);
/* matrix is lent until the cache is closed. */
void kiln_fp8_cache_note(struct kiln_fp8_cache *c, const char *name, kt matrix);

/* Frees c; writes the file first if `write` and a matrix was made.  note: set if there is something
 * to report. */
void kiln_fp8_cache_close(struct kiln_fp8_cache *c, bool write, char *note, size_t size);

#endif
