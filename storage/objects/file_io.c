/* file_io.c - the system calls of file.c and file_put.c, and their errors.
 *
 * Every path is opened relative to the root's descriptor and without following a final link.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/objects/file.h"

int kiln_file_code(int number)
{
    switch (number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
        return KILN_FULL;
    case EACCES:
    case EPERM:
    case EROFS:
        return KILN_DENIED;
    case ENOENT:
        return KILN_NOT_FOUND;
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
        return KILN_BAD_INPUT; /* "a" and "a/b" cannot both be files */
    case ENOMEM:
        return KILN_NO_MEMORY;
    default:
        return KILN_IO;
    }
}

int kiln_file_fail(struct kiln_error *err, const char *what, const struct kiln_file_store *store,
                   const char *key)
{
    int number = errno;
    return kiln_fail(err, kiln_file_code(number), "%s %s/%s: %s", what, store->root, key,
                     strerror(number));
}

size_t kiln_file_dir_length(const char *path, size_t len)
{
    while (len > 0 && path[len - 1] != '/')
        len--;
    return len > 0 ? len - 1 : 0;
}

int kiln_file_read_all(int fd, char *data, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(fd, data + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? EIO : errno; /* the file became shorter meanwhile */
            return -1;
        }
        done += (size_t)n;
    }
    return 0;
}

int kiln_file_open(struct kiln_file_store *store, const char *key, int *ret_fd, size_t *ret_size,
                   struct kiln_error *err)
{
    int fd = openat(store->root_fd, key, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        errno = errno == ENOTDIR ? ENOENT : errno; /* "a/b" where "a" is an object */
        return kiln_file_fail(err, "open", store, key);
    }
    struct stat st;
    int code = KILN_OK;
    if (fstat(fd, &st))
        code = kiln_file_fail(err, "stat", store, key);
    else if (!S_ISREG(st.st_mode))
        code = kiln_fail(err, KILN_NOT_FOUND, "%s/%s is not an object", store->root, key);
    if (code) {
        close(fd);
        return code;
    }
    *ret_fd = fd;
    *ret_size = (size_t)st.st_size;
    return KILN_OK;
}

int kiln_file_sync_dir(struct kiln_file_store *store, const char *dir, struct kiln_error *err)
{
    int fd = openat(store->root_fd, dir[0] ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return kiln_file_fail(err, "open directory", store, dir);
    int code = fsync(fd) ? kiln_file_fail(err, "sync directory", store, dir) : KILN_OK;
    close(fd);
    return code;
}
