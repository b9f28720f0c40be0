/* disk.c - see disk.h. */
#include "scheduler/bench/gallery/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/cli/core/cli.h"

#define RATE 50.0 /* a second; a commit's sync at 200 a second is the larger load */
#define PAGE 8192 /* as Postgres' log */
#define PAGES 512 /* written in turn: their blocks are there after the first round */
#define STALL_S 0.010
#define STALLS_MAX 4096 /* of a run */

struct stall {
    double from_s, to_s;
};

struct kiln_bench_disk {
    int fd;
    uint32_t page;
    char bytes[PAGE], path[PATH_MAX];
    struct stall stalls[STALLS_MAX];
    uint32_t stall_count;
    struct kiln_bench_times *times;
    pthread_t thread;
    bool running;
    atomic_bool ending;
    struct kiln_error err;
    int rc;
};

static int write_page(struct kiln_bench_disk *disk, struct kiln_error *err)
{
    const off_t at = (off_t)(disk->page++ % PAGES) * PAGE;
    if (pwrite(disk->fd, disk->bytes, PAGE, at) == PAGE && fdatasync(disk->fd) == 0)
        return 0;
    return kiln_fail(err, KILN_IO, "write %s: %s", disk->path, strerror(errno));
}

int kiln_bench_disk_new(const char *dir, struct kiln_bench_disk **ret, struct kiln_error *err)
{
    struct kiln_bench_disk *disk = calloc(1, sizeof *disk);
    if (!disk)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the bench");
    snprintf(disk->path, sizeof disk->path, "%s/synced", dir);
    disk->fd = open(disk->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int rc = disk->fd < 0 ? kiln_fail(err, KILN_IO, "open %s: %s", disk->path, strerror(errno)) : 0;
    for (int i = 0; i < PAGES && rc == 0; i++)
        if (pwrite(disk->fd, disk->bytes, PAGE, (off_t)i * PAGE) != PAGE)
            rc = kiln_fail(err, KILN_IO, "write %s: %s", disk->path, strerror(errno));
    if (rc == 0)
        rc = write_page(disk, err);
    if (rc) {
        kiln_bench_disk_free(disk);
        return rc;
    }
    *ret = disk;
    return 0;
}

void kiln_bench_disk_free(struct kiln_bench_disk *disk)
{
    struct kiln_error ignored;
    if (!disk)
        return;
    (void)!kiln_bench_disk_end(disk, &ignored);
    if (disk->fd >= 0) {
        close(disk->fd);
        unlink(disk->path);
    }
    free(disk);
}

static void *run(void *arg)
{
    struct kiln_bench_disk *disk = arg;
    while (disk->rc == 0 && !atomic_load(&disk->ending)) {
        const double from_s = kiln_now_s();
        disk->rc = write_page(disk, &disk->err);
        const double to_s = kiln_now_s();
        kiln_bench_times_add(disk->times, (to_s - from_s) * 1e3);
        if (to_s - from_s > STALL_S && disk->stall_count < STALLS_MAX)
            disk->stalls[disk->stall_count++] = (struct stall){from_s, to_s};
        kiln_sleep_s(1 / RATE);
    }
    return NULL;
}

int kiln_bench_disk_begin(struct kiln_bench_disk *disk, double seconds,
                          struct kiln_bench_times *times, struct kiln_error *err)
{
    int rc = kiln_bench_times_fit(times, (uint32_t)(seconds * RATE) + 1, err);
    if (rc)
        return rc;
    disk->times = times;
    disk->stall_count = 0;
    disk->rc = 0;
    atomic_store(&disk->ending, false);
    disk->running = pthread_create(&disk->thread, NULL, run, disk) == 0;
    return disk->running ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no thread for the disk");
}

int kiln_bench_disk_end(struct kiln_bench_disk *disk, struct kiln_error *err)
{
    if (!disk->running)
        return 0;
    atomic_store(&disk->ending, true);
    pthread_join(disk->thread, NULL);
    disk->running = false;
    if (disk->rc)
        *err = disk->err;
    return disk->rc;
}

bool kiln_bench_disk_stalled(const struct kiln_bench_disk *disk, double from_s, double to_s)
{
    for (uint32_t i = 0; i < disk->stall_count; i++)
        if (disk->stalls[i].from_s < to_s && disk->stalls[i].to_s > from_s)
            return true;
    return false;
}
