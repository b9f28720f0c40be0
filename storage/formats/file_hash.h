/* file_hash.h - the SHA-256 of files that are asked for again and again.
 *
 * A file is read once for each state of it (device, inode, size, times); a repeated request costs a
 * stat.  Any thread may ask: one file is read at a time, and who asks for one that was read before
 * does not wait.
 */
#ifndef KILN_FILE_HASH_H
#define KILN_FILE_HASH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define KILN_FILE_HASH_MAX 65 /* hex digits and a NUL */

/* False for a file that cannot be read, is changed meanwhile, or has more than max bytes: whoever
 * waits for the hash of 100 GB waits for minutes.  UINT64_MAX for files that may have any size. */
bool kiln_file_hash(const char *path, uint64_t max, char hex[KILN_FILE_HASH_MAX]);
/* Likewise, and false if *ends is not 0 before the file has been read: a caller that must end does
 * not wait for gigabytes. */
bool kiln_file_hash_until(const char *path, uint64_t max, const _Atomic int *ends,
                          char hex[KILN_FILE_HASH_MAX]);
/* The hash of a folder of weights, in one file or in shards: that which
 * `LC_ALL=C sha256sum *.safetensors | sha256sum` prints there.  False if it has no such file, or
 * one that cannot be read. */
bool kiln_folder_hash(const char *dir, char hex[KILN_FILE_HASH_MAX]);

#endif
