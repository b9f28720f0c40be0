/* commits.h - pictures that a fleet commits while others search: the real path of a worker, from
 * the intake's rows to kiln_ledger_commit, each its own transaction. */
#ifndef KILN_BENCH_GALLERY_COMMITS_H
#define KILN_BENCH_GALLERY_COMMITS_H

#include "scheduler/bench/gallery/disk.h"
#include "scheduler/bench/gallery/times.h"
#include "schemas/config/config.h"

#define KILN_BENCH_TENANT "bench" /* of all of them */

struct kiln_bench_commits;

/* Inserts `count` jobs into the pool of the settings and assigns them.  KILN_EXISTS: a scheduler
 * leads the pool, and would take the jobs.  Their prompts are these, each with a number and the
 * batch; lent for this call. */
int kiln_bench_commits_new(const struct kiln_config *config, char *const *prompts,
                           uint32_t prompt_count, uint32_t count, struct kiln_bench_commits **ret,
                           struct kiln_error *err) KILN_MUST_CHECK;
void kiln_bench_commits_free(struct kiln_bench_commits *commits); /* accepts NULL */
/* Removes the jobs and their pictures, which have no files: every gallery that starts would look
 * for them.  After the last run. */
int kiln_bench_commits_remove(struct kiln_bench_commits *commits,
                              struct kiln_error *err) KILN_MUST_CHECK;
/* Of one kind of turn; the caller releases the times. */
struct kiln_bench_commit_times {
    struct kiln_bench_times all, calm; /* from when a commit was due; calm: without a stall of the
                                          disk, or a queue behind one */
    struct kiln_bench_times disk;      /* of the file beside it (disk.h) */
};
void kiln_bench_commit_times_release(struct kiln_bench_commit_times *times);
/* Commits the next of them for so long, from a few sessions, in an open loop, and adds their times.
 */
int kiln_bench_commits_run(struct kiln_bench_commits *commits, double rate, double seconds,
                           struct kiln_bench_disk *disk, struct kiln_bench_commit_times *times,
                           struct kiln_error *err) KILN_MUST_CHECK;

#endif
