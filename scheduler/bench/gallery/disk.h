/* disk.h - how soon the disk has what a bare file writes to it, beside a load.
 *
 * A commit waits for the disk.  When the disk itself stalls, for whatever reason, this file stalls
 * too, so that the stalls of a load can be told from those of the machine.
 */
#ifndef KILN_BENCH_GALLERY_DISK_H
#define KILN_BENCH_GALLERY_DISK_H

#include <stdbool.h>

#include "scheduler/bench/gallery/times.h"

struct kiln_bench_disk;

/* Makes a file in this directory, which must be on the disk that is meant.  Nothing is written
 * before the first run. */
int kiln_bench_disk_new(const char *dir, struct kiln_bench_disk **ret,
                        struct kiln_error *err) KILN_MUST_CHECK;
void kiln_bench_disk_free(struct kiln_bench_disk *disk); /* accepts NULL; removes the file */
/* Writes and syncs a page of the file, 50 times a second, until kiln_bench_disk_end(); adds the
 * times to `times`, as many as were made room for. */
int kiln_bench_disk_begin(struct kiln_bench_disk *disk, double seconds,
                          struct kiln_bench_times *times, struct kiln_error *err) KILN_MUST_CHECK;
/* Returns 0, or the error of a write. */
int kiln_bench_disk_end(struct kiln_bench_disk *disk, struct kiln_error *err) KILN_MUST_CHECK;
/* Whether the disk stalled between these moments (kiln_now_s) of the last run, which has ended: a
 * page took longer than 10 ms. */
bool kiln_bench_disk_stalled(const struct kiln_bench_disk *disk, double from_s, double to_s);

#endif
