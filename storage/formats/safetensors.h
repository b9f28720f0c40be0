/* safetensors.h - map, read and write safetensors files, single or sharded.
 *
 * Format: u64 little-endian header length, JSON header, raw little-endian tensors
 * (github.com/huggingface/safetensors).  The reader is stricter than the reference: bounds of
 * limits.h, no duplicate names, tensors contiguous from 0 without holes, sizes proven
 * representable before they are used.
 */
#ifndef KILN_SAFETENSORS_H
#define KILN_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"
#include "schemas/limits.h"

enum kiln_st_dtype {
    KILN_ST_F32,
    KILN_ST_F16,
    KILN_ST_BF16,
    KILN_ST_U8,
    KILN_ST_I8,
    KILN_ST_I32,
    KILN_ST_I64,
    KILN_ST_F8_E4M3,
    KILN_ST_F64,
    KILN_ST_DTYPE_COUNT
};
size_t kiln_st_dtype_size(enum kiln_st_dtype dtype);
const char *kiln_st_dtype_name(enum kiln_st_dtype dtype); /* "F32", "F8_E4M3" */

struct kiln_st_tensor {
    const char *name; /* borrowed from the file */
    enum kiln_st_dtype dtype;
    uint32_t ndim;
    int64_t shape[KILN_ST_DIMS_MAX];
    const void *data; /* inside the file's bytes, read-only, aligned to nothing */
    size_t size;      /* bytes */
};

struct kiln_st;

/* path: a .safetensors file, a .safetensors.index.json (all shards are opened), or a directory
 * that holds one of the two (model / diffusion_pytorch_model / the only one there is). */
int kiln_st_open(const char *path, struct kiln_st **ret, struct kiln_error *err) KILN_MUST_CHECK;
/* The same, read into memory instead of mapped: a file that is truncated meanwhile is
 * KILN_CORRUPT, and later changes do no harm.  KILN_UNSUPPORTED beyond bytes_max in all. */
int kiln_st_open_read(const char *path, size_t bytes_max, struct kiln_st **ret,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* The same from memory; data is borrowed until close. */
int kiln_st_open_memory(const void *data, size_t size, const char *what, struct kiln_st **ret,
                        struct kiln_error *err) KILN_MUST_CHECK;
void kiln_st_close(struct kiln_st *st); /* accepts NULL; tensors die with it */

/* KILN_CORRUPT if a file was cut or written to since it was opened: reading a mapping of a
 * truncated file raises SIGBUS, so call this before a long read. */
int kiln_st_check(const struct kiln_st *st, struct kiln_error *err) KILN_MUST_CHECK;

/* Where a tensor's bytes are on disk, for callers that read instead of mapping: an open file,
 * borrowed until close, its path and the offset.  False for a set in memory. */
bool kiln_st_source(const struct kiln_st *st, const struct kiln_st_tensor *t, int *ret_fd,
                    uint64_t *ret_offset, const char **ret_path);

size_t kiln_st_count(const struct kiln_st *st);
uint64_t kiln_st_total(const struct kiln_st *st); /* bytes of all tensors */
const struct kiln_st_tensor *kiln_st_at(const struct kiln_st *st, size_t i); /* sorted by name */
const struct kiln_st_tensor *kiln_st_find(const struct kiln_st *st, const char *name); /* or NULL */
/* A value of __metadata__, or NULL. */
const char *kiln_st_metadata(const struct kiln_st *st, const char *key);

/* The whole file as bytes, malloc'd; metadata: key, value pairs ended by NULL, or NULL. */
int kiln_st_encode(const struct kiln_st_tensor *tensors, size_t count, const char *const *metadata,
                   uint8_t **ret_data, size_t *ret_size, struct kiln_error *err) KILN_MUST_CHECK;
/* The same into a file, by kiln_replace_bytes. */
int kiln_st_write(const char *path, const struct kiln_st_tensor *tensors, size_t count,
                  const char *const *metadata, struct kiln_error *err) KILN_MUST_CHECK;

#endif
