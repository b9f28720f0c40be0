/* safetensors_header.h - from the bytes of one safetensors file to a checked table of tensors,
 * and back.  Private to safetensors.c and safetensors_write.c; callers use safetensors.h.
 */
#ifndef KILN_SAFETENSORS_HEADER_H
#define KILN_SAFETENSORS_HEADER_H

#include <jansson.h>

#include "storage/formats/safetensors.h"

/* One file's header.  tensors borrow names from json and data from the caller's bytes. */
struct kiln_st_header {
    json_t *json;
    struct kiln_st_tensor *tensors; /* in the order of their data */
    size_t count;
};

/* what names the file in errors.  KILN_CORRUPT for bytes that break the format, KILN_UNSUPPORTED
 * for a dtype or a size that the format allows and Kiln does not. */
int kiln_st_header_parse(const uint8_t *data, size_t size, const char *what,
                         struct kiln_st_header *ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_st_header_release(struct kiln_st_header *header);

/* The bytes a tensor of this dtype and shape takes; false if they cannot be counted in int64. */
bool kiln_st_bytes(enum kiln_st_dtype dtype, const int64_t *shape, uint32_t ndim, int64_t *ret);

#endif
