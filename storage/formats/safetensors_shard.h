/* safetensors_shard.h - one safetensors file with its bytes, mapped or read; for the files of this
 * folder. */
#ifndef KILN_SAFETENSORS_SHARD_H
#define KILN_SAFETENSORS_SHARD_H

#include "storage/formats/safetensors_header.h"

struct kiln_st_shard {
    char *path;
    void *data; /* mapped or read; NULL for borrowed memory */
    bool mapped;
    size_t size;
    int fd; /* open as long as the set, for kiln_st_check; -1 for memory */
    struct timespec mtime;
    struct kiln_st_header header;
};

/* Fills *s, to be released also after a failure.  *room: how many bytes may be read, less those of
 * this file afterwards; KILN_ST_MAP maps it. */
#define KILN_ST_MAP SIZE_MAX
int kiln_st_shard_open(struct kiln_st_shard *s, const char *path, size_t *room,
                       struct kiln_error *err) KILN_MUST_CHECK;
void kiln_st_shard_release(struct kiln_st_shard *s);

/* See kiln_st_check. */
int kiln_st_shard_check(const struct kiln_st_shard *s, struct kiln_error *err) KILN_MUST_CHECK;

#endif
