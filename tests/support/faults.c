/* faults.c - the wrapped calls: each counts, and fails when its number is up. */
#include "tests/support/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static enum kiln_fault armed;
static int countdown; /* 0: nothing fails; 1: the next call does */
static bool keeps_on, fired;
static const char *only;  /* NULL: every call of the kind */
static int number_of_all; /* errno; 0: that of the kind */
static size_t most_bytes; /* of a write */
static int synced_folders;

void kiln_fault_arm(enum kiln_fault kind, int n, bool keep_on)
{
    kiln_fault_arm_call(kind, NULL, 0, n, keep_on);
}

void kiln_fault_arm_call(enum kiln_fault kind, const char *call, int number, int n, bool keep_on)
{
    armed = kind;
    only = call;
    number_of_all = number;
    countdown = n;
    keeps_on = keep_on;
    fired = false;
}

bool kiln_fault_disarm(void)
{
    countdown = 0;
    return fired;
}

void kiln_fault_short_writes(size_t most)
{
    most_bytes = most;
}

int kiln_fault_synced_folders(void)
{
    return synced_folders;
}

static bool fails(enum kiln_fault kind, const char *call)
{
    static const int numbers[KILN_FAULT_COUNT] = {ENOMEM, ECONNRESET, EIO, ECONNRESET, ECONNRESET};
    if (kind != armed || (only && strcmp(only, call) != 0) || countdown == 0 || --countdown > 0)
        return false;
    countdown = keeps_on ? 1 : 0;
    errno = number_of_all ? number_of_all : numbers[kind];
    return fired = true;
}

/* Declares the real call and defines its wrapper: result on failure, type, name, (parameters),
 * (arguments). */
#define WRAP(kind, failure, type, name, parameters, arguments)                                     \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return fails(KILN_FAULT_##kind, #name) ? (failure) : __real_##name arguments;              \
    }

WRAP(MEMORY, NULL, void *, malloc, (size_t size), (size))
WRAP(MEMORY, NULL, void *, calloc, (size_t count, size_t size), (count, size))
WRAP(MEMORY, NULL, void *, realloc, (void *old, size_t size), (old, size))
WRAP(MEMORY, NULL, char *, strdup, (const char *text), (text))

WRAP(SYSTEM, -1, int, poll, (struct pollfd * at, nfds_t count, int ms), (at, count, ms))
WRAP(SYSTEM, -1, ssize_t, send, (int fd, const void *bytes, size_t len, int flags),
     (fd, bytes, len, flags))
WRAP(SYSTEM, -1, ssize_t, recv, (int fd, void *bytes, size_t len, int flags),
     (fd, bytes, len, flags))

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    long argument = va_arg(arguments, long);
    va_end(arguments);
    return fails(KILN_FAULT_SYSTEM, "fcntl") ? -1 : __real_fcntl(fd, command, argument);
}

WRAP(FILE, -1, int, mkostemp, (char *path, int flags), (path, flags))
WRAP(FILE, -1, int, fstat, (int fd, struct stat *ret), (fd, ret))
WRAP(FILE, MAP_FAILED, void *, mmap,
     (void *at, size_t size, int access, int flags, int fd, off_t offset),
     (at, size, access, flags, fd, offset))
WRAP(FILE, -1, int, renameat, (int dir, const char *from, int to_dir, const char *to),
     (dir, from, to_dir, to))
WRAP(FILE, -1, int, fchmod, (int fd, mode_t mode), (fd, mode))
WRAP(FILE, -1, int, rename, (const char *from, const char *to), (from, to))

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    unsigned mode = flags & O_CREAT ? va_arg(arguments, unsigned) : 0;
    va_end(arguments);
    return fails(KILN_FAULT_FILE, "open") ? -1 : __real_open(path, flags, mode);
}

int __real_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    unsigned mode = flags & O_CREAT ? va_arg(arguments, unsigned) : 0;
    va_end(arguments);
    return fails(KILN_FAULT_FILE, "openat") ? -1 : __real_openat(dir, path, flags, mode);
}

ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
    if (fails(KILN_FAULT_FILE, "write"))
        return -1;
    return __real_write(fd, bytes, most_bytes && size > most_bytes ? most_bytes : size);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    struct stat st;
    if (fails(KILN_FAULT_FILE, "fsync"))
        return -1;
    int rc = __real_fsync(fd);
    synced_folders += rc == 0 && __real_fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
    return rc;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    int rc = __real_close(fd); /* Linux closes it whatever it says */
    return fails(KILN_FAULT_FILE, "close") ? -1 : rc;
}

WRAP(POSTGRES, NULL, PGconn *, PQconnectStartParams,
     (const char *const *names, const char *const *values, int expand), (names, values, expand))
WRAP(POSTGRES, PGRES_POLLING_FAILED, PostgresPollingStatusType, PQconnectPoll, (PGconn * conn),
     (conn))
WRAP(POSTGRES, 0, int, PQsendQuery, (PGconn * conn, const char *sql), (conn, sql))
WRAP(POSTGRES, 0, int, PQsendQueryParams,
     (PGconn * conn, const char *sql, int count, const Oid *types, const char *const *values,
      const int *lengths, const int *formats, int format),
     (conn, sql, count, types, values, lengths, formats, format))
WRAP(POSTGRES, 0, int, PQsendPrepare,
     (PGconn * conn, const char *name, const char *sql, int count, const Oid *types),
     (conn, name, sql, count, types))
WRAP(POSTGRES, 0, int, PQsendQueryPrepared,
     (PGconn * conn, const char *name, int count, const char *const *values, const int *lengths,
      const int *formats, int format),
     (conn, name, count, values, lengths, formats, format))
WRAP(POSTGRES, -1, int, PQflush, (PGconn * conn), (conn))
WRAP(POSTGRES, 0, int, PQconsumeInput, (PGconn * conn), (conn))
WRAP(POSTGRES, NULL, PGresult *, PQgetResult, (PGconn * conn), (conn))
WRAP(POSTGRES, -1, int, PQsetnonblocking, (PGconn * conn, int on), (conn, on))
WRAP(POSTGRES, 0, int, PQenterPipelineMode, (PGconn * conn), (conn))
WRAP(POSTGRES, 0, int, PQpipelineSync, (PGconn * conn), (conn))
WRAP(POSTGRES, 0, int, PQexitPipelineMode, (PGconn * conn), (conn))

WRAP(REDIS, NULL, redisContext *, redisConnectWithTimeout,
     (const char *host, int port, const struct timeval limit), (host, port, limit))
WRAP(REDIS, NULL, redisContext *, redisConnectUnixWithTimeout,
     (const char *path, const struct timeval limit), (path, limit))
WRAP(REDIS, REDIS_ERR, int, redisReaderFeed, (redisReader * reader, const char *bytes, size_t len),
     (reader, bytes, len))
WRAP(REDIS, REDIS_ERR, int, redisReaderGetReply, (redisReader * reader, void **reply),
     (reader, reply))
