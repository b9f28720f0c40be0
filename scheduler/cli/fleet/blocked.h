/* blocked.h - why queued jobs cannot run: they are paused, or no worker can render them; in
 * the same words for `why` of a job and for `wait` of a batch. */
#ifndef KILN_CLI_BLOCKED_H
#define KILN_CLI_BLOCKED_H

#include "scheduler/cli/core/output/progress.h"
#include "scheduler/cli/fleet/roster.h"
#include "storage/ledger/queue/pause.h"

/* Whether the worker is alive and serves that model; NULL or "" is any. */
bool kiln_serves(const struct kiln_roster_worker *worker, const char *model);
/* True if no worker of the pool takes any job; the reason goes into out as a sentence. */
bool kiln_blocked_by_workers(const struct kiln_roster *roster, const char *pool, char *out,
                             size_t size);
/* NULL if a worker takes jobs of that model; else the reason, to follow "which". */
const char *kiln_blocked_by_model(const struct kiln_roster *roster, const char *model);

/* What a command that waits for a batch has already said.  Zero-initialise. */
struct kiln_blocked_said {
    double due_s; /* of the next look */
    char text[KILN_PAUSE_NAME_MAX + 640];
};
/* Looks now and then, and says on stderr which pause matches all queued jobs of the batch, or what
 * they lack; again only when the reason changes.  Says nothing where the reason is unknown. */
void kiln_blocked_say(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                      struct kiln_bar *bar, struct kiln_blocked_said *told);

#endif
