/* lora_disk.h - the LoRA files of the object store that this machine keeps on its disk, by hash.
 *
 *     DIR/<sha256>.safetensors   a file, written whole or not at all
 *     DIR/<sha256>.used          its lock, whose time says when it was last pinned
 *
 * Several threads and several workers may share a directory.  Whoever uses a file holds its lock,
 * shared, so nobody removes it meanwhile; who fetches or removes one holds it alone.  A file counts
 * only with its hash: one that is cut or damaged is fetched again.  Files that were not pinned for
 * the longest time go first when there are too many bytes; files in use may exceed the bound.
 */
#ifndef KILN_LORA_DISK_H
#define KILN_LORA_DISK_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "schemas/job/inputs.h"
#include "storage/objects/store.h"

struct kiln_lora_disk;

/* Touches no file; the directory is made when the first file is fetched.  *ends, of the caller (may
 * be NULL): not 0 once the process ends.  NULL without memory. */
struct kiln_lora_disk *kiln_lora_disk_new(const char *dir, uint64_t bytes_max,
                                          const _Atomic int *ends);
void kiln_lora_disk_free(struct kiln_lora_disk *disk); /* accepts NULL; pins stay valid */

/* A file that stays as long as the pin. */
struct kiln_lora_pin {
    int lock;
    char path[PATH_MAX];
};
void kiln_lora_unpin(struct kiln_lora_pin *pin); /* frees it; accepts NULL */

/* The file, or NULL if it is not on the disk.  Asks no server.  Any thread. */
struct kiln_lora_pin *kiln_lora_disk_pin(struct kiln_lora_disk *disk,
                                         const char sha256[KILN_LORA_SHA256_MAX]);

/* The first digits (KILN_LORA_KEY_DIGITS) of the hashes of at most max files, the last used first;
 * returns how many.  Reads no file, so one that is damaged is listed.  Any thread. */
uint32_t kiln_lora_disk_list(const struct kiln_lora_disk *disk, uint64_t *ret, uint32_t max);

/* Likewise, and fetches a file that is not there.  The store is the caller's; any thread.  name: of
 * the LoRA, for messages.  KILN_NOT_FOUND: the store has no such file; KILN_CORRUPT: its bytes have
 * another hash, twice; KILN_TIMEOUT: somebody else has been fetching it for a minute;
 * KILN_CANCELLED: this process ends meanwhile; KILN_IO: the directory; else a code of the store. */
int kiln_lora_disk_fetch(struct kiln_lora_disk *disk, struct kiln_store *store, const char *name,
                         const char sha256[KILN_LORA_SHA256_MAX], struct kiln_lora_pin **ret,
                         struct kiln_error *err) KILN_MUST_CHECK;

#endif
