/* file.h - shared by the files of the directory backend; private to storage/.
 *
 * file.c is the backend and calls file_put.c, which makes objects durable; both use file_io.c.
 */
#ifndef KILN_OBJECTSTORE_FILE_H
#define KILN_OBJECTSTORE_FILE_H

#include "schemas/limits.h"
#include "storage/objects/backend.h"

#define KILN_DIR_MODE 0755
#define KILN_TEMP_PREFIX ".put-" /* no key can begin like this */
#define KILN_SYNCED_MAX 4

struct kiln_file_store {
    struct kiln_store base;
    char *root;
    int root_fd;
    bool beside; /* a directory below is another file system: temporary files are made there */
    /* Directories known durable up to the root: those that hold the jobs' own, of pictures, of
     * latents, of last month's. */
    char synced[KILN_SYNCED_MAX][KILN_OBJECT_KEY_MAX + 1];
    unsigned synced_next; /* to be replaced */
};

/* --- file_io.c ------------------------------------------------------------------------------- */
/* The code of an errno: a full disk and a missing right differ. */
int kiln_file_code(int number);
/* Fails with errno; what: the attempted action, path: below the root. */
int kiln_file_fail(struct kiln_error *err, const char *what, const struct kiln_file_store *store,
                   const char *path);
/* Length of the directory part of a path, without its '/'; 0 for the root. */
size_t kiln_file_dir_length(const char *path, size_t len);
/* Opens a regular file for reading; *ret_size is its size. */
int kiln_file_open(struct kiln_file_store *store, const char *key, int *ret_fd, size_t *ret_size,
                   struct kiln_error *err) KILN_MUST_CHECK;
/* Reads exactly size bytes; -1 with errno when it cannot. */
int kiln_file_read_all(int fd, char *data, size_t size);
/* Makes the names in a directory durable; "" is the root. */
int kiln_file_sync_dir(struct kiln_file_store *store, const char *dir,
                       struct kiln_error *err) KILN_MUST_CHECK;

/* --- file_put.c ------------------------------------------------------------------------------ */
void kiln_file_put(struct kiln_store *base, struct kiln_put *puts, size_t count);

#endif
