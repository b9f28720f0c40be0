/* own_hashes.h - hashes of the files of lora_dir over restarts of the worker.
 *
 * A worker tells which files it has.  Reading 256 of them for their hashes takes minutes, so what
 * was read is kept in the cache directory, a line a file: device, inode, size, times, and the first
 * digits of the hash.  A file of another state is read again.  The list serves heartbeats alone:
 * which file a job is drawn with is always decided by reading it (lora_files.h).  Whatever is wrong
 * with the list, it counts as empty.  One thread.
 */
#ifndef KILN_OWN_HASHES_H
#define KILN_OWN_HASHES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "schemas/wire/wire.h"

#define KILN_OWN_HASHES_NAME "lora_dir.hashes"

struct kiln_own_hashes {
    struct kiln_own_hash {
        uint64_t device, inode, size, mtime_ns, ctime_ns, digits;
        bool asked; /* since the list was saved */
    } at[KILN_HEARTBEAT_FILES_MAX];
    uint32_t count;
    bool changed;
    char dir[PATH_MAX];
};

void kiln_own_hashes_load(struct kiln_own_hashes *own, const char *dir);
/* The first digits (kiln_lora_digits) of the file's hash; 0: it is not known in the state that
 * *ret_state then has, to be handed over to kiln_own_hashes_put after the file was read. */
uint64_t kiln_own_hashes_find(struct kiln_own_hashes *own, const char *path,
                              struct kiln_own_hash *ret_state);
/* Keeps what was read of the file; nothing if there is no room or the file is another one by now. */
void kiln_own_hashes_put(struct kiln_own_hashes *own, const char *path,
                         const struct kiln_own_hash *state, uint64_t digits);
/* Forgets what was not asked for since the last time, and writes the list if it is another.  A
 * directory that cannot be written costs the list and nothing else. */
void kiln_own_hashes_save(struct kiln_own_hashes *own);

#endif
