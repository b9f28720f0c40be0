/* spool.c - see spool.h. */
#include "scheduler/gallery/web/spool.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "storage/formats/replace.h"

static _Atomic int open_spools;

static int open_file(int *ret_fd, struct kiln_error *err)
{
    FILE *file = tmpfile();
    int fd = file ? dup(fileno(file)) : -1;
    if (fd < 0)
        kiln_fail(err, KILN_IO, "temporary file for a body: %s", strerror(errno));
    if (file)
        fclose(file);
    *ret_fd = fd;
    return fd < 0 ? KILN_IO : 0;
}

int kiln_web_spool_new(struct kiln_web_spool **ret, struct kiln_error *err)
{
    if (atomic_fetch_add(&open_spools, 1) >= KILN_WEB_SPOOLS) {
        atomic_fetch_sub(&open_spools, 1);
        return kiln_fail(err, KILN_FULL, "%d batches are being sent already; try again",
                         KILN_WEB_SPOOLS);
    }
    struct kiln_web_spool *spool = calloc(1, sizeof *spool);
    int rc =
        spool ? open_file(&spool->fd, err) : kiln_fail(err, KILN_NO_MEMORY, "no memory for a body");
    if (rc) {
        free(spool);
        atomic_fetch_sub(&open_spools, 1);
        return rc;
    }
    *ret = spool;
    return 0;
}

void kiln_web_spool_free(struct kiln_web_spool *spool)
{
    if (!spool)
        return;
    close(spool->fd);
    free(spool);
    atomic_fetch_sub(&open_spools, 1);
}

int kiln_web_spool_add(struct kiln_web_spool *spool, const void *bytes, size_t len,
                       struct kiln_error *err)
{
    if (len > KILN_WEB_SPOOL_MAX - spool->bytes)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "a body has at most %ld MiB; send the rest to the same batch",
                         KILN_WEB_SPOOL_MAX >> 20);
    if (kiln_write_all(spool->fd, bytes, len))
        return kiln_fail(err, KILN_IO, "temporary file for a body: %s", strerror(errno));
    spool->bytes += len;
    return 0;
}
