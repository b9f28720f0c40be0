/* snapshot.h - one look at the fleet: what `kiln status` prints once and `kiln watch` again and
 * again.
 *
 * A look opens its own connections and closes them: a watch that runs for days survives restarts of
 * the servers and keeps no connection while it sleeps.
 */
#ifndef KILN_CLI_SNAPSHOT_H
#define KILN_CLI_SNAPSHOT_H

#include "scheduler/cli/core/output/progress.h"
#include "scheduler/cli/fleet/roster.h"
#include "scheduler/cli/fleet/trouble.h"

struct kiln_snapshot {
    struct kiln_cli *cli;
    struct kiln_counts counts;
    struct kiln_roster roster;
    json_t *groups;  /* group, model, loras, width, height, steps, queued, assigned, oldest */
    json_t *pauses;  /* text and more, see pause.c */
    uint64_t intake; /* entries that are in Redis and not in the ledger yet */
    bool led, has_batch;
    struct kiln_progress batch;
    struct kiln_needed needed;     /* by queued jobs of the pool */
    struct kiln_troubles troubles; /* in the way of the pool */
    struct kiln_error bus;         /* why workers and intake are not known; code 0 if they are */
};

/* batch may be NULL.  On an error *ret holds nothing. */
int kiln_snapshot_take(struct kiln_cli *cli, const char *batch, struct kiln_snapshot *ret,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* The same without a batch; if Redis does not answer, ret->bus says why and the ledger's part is
 * there. */
int kiln_snapshot_take_known(struct kiln_cli *cli, struct kiln_snapshot *ret,
                             struct kiln_error *err) KILN_MUST_CHECK;
void kiln_snapshot_release(struct kiln_snapshot *look); /* also of a zeroed one */
/* The contract of `kiln status --json`, and more keys beside it; what is not known is null. */
json_t *kiln_snapshot_json(const struct kiln_snapshot *look);

/* The batch that was looked at has ended. */
bool kiln_snapshot_over(const struct kiln_snapshot *look);
/* Jobs of the batch if there is one, of the pool if not. */
const struct kiln_counts *kiln_snapshot_counts(const struct kiln_snapshot *look);
/* "3 queued, 1 assigned, ..." into out, which is returned. */
#define KILN_COUNTS_TEXT_MAX 160
const char *kiln_counts_text(const struct kiln_counts *counts, char *out, size_t size);
/* Below the counts of a batch, a line each if there are any: jobs whose lines are gone from the
 * file, and cancelled jobs whose rows are removed. */
void kiln_apart_print(const struct kiln_counts *gone, uint64_t removed);

#endif
