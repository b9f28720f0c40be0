/* follow.c - see follow.h. */
#include "scheduler/gallery/follow.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "scheduler/cli/core/cli.h"
#include "scheduler/gallery/background.h"
#include "scheduler/gallery/parts/files.h"
#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "schemas/telemetry/metrics.h"
#include "storage/daemon/outage.h"
#include "storage/ledger/gallery/follow.h"

#define STOP_S 2
#define PAGE_ROWS                                                                                  \
    500 /* of changes; a step has at most eight pages, which the keeper has room for */
#define RATE_PAUSE_MS 20 /* between pages of old pictures for the rule: searches come first */
#define PAUSE_MS 1000    /* between two looks at a ledger without changes, */
#define CHANGES_MS 250   /* with some, so that no look finds many at once, */
#define WANTED_MS 100    /* while the first search by meaning may come */
#define EMBED_MS 250     /* of steps that embed, with their rests, before a look at the ledger */

struct kiln_gallery_follow {
    struct kiln_follower *follower;
    struct kiln_keeper *keeper;
    struct kiln_alike *alike;
    struct kiln_gallery_files *files;
    struct kiln_rater *rater;
    struct kiln_background background;
    bool changed; /* in this step */
    _Atomic uint64_t written, removed;
    _Atomic bool complete, writes;
};

static int report(void *arg, uint64_t job, bool gone, struct kiln_error *err)
{
    struct kiln_gallery_follow *follow = arg;
    follow->changed = true;
    kiln_gallery_files_forget(follow->files, job);
    kiln_alike_note(follow->alike, job, gone);
    return kiln_keeper_note(follow->keeper, job, gone, err);
}

static void note(struct kiln_gallery_follow *follow, const struct kiln_follower_progress *progress)
{
    atomic_fetch_add(&follow->written, progress->written);
    atomic_fetch_add(&follow->removed, progress->removed);
    atomic_store(&follow->writes, progress->writes);
    if (atomic_exchange(&follow->complete, progress->complete) != progress->complete)
        kiln_log(KILN_LOG_INFO, progress->complete ? "index_complete" : "index_rebuilding",
                 kiln_f("written", "%llu", (unsigned long long)atomic_load(&follow->written)));
}

/* Somebody waits for the search by meaning, or nobody has asked for a while: it is opened before
 * the changes are read that came while no gallery ran, and with nothing else at work. */
static int open_meaning(struct kiln_gallery_follow *follow, struct kiln_error *err)
{
    bool more;
    if (!kiln_keeper_is_due(follow->keeper))
        return 0;
    kiln_alike_hold(follow->alike, true);
    int rc = kiln_keeper_step(follow->keeper, false, &more, err);
    kiln_alike_hold(follow->alike, false);
    return rc;
}

/* New prompts come in small batches, and a look at the ledger costs four commits, so there is one
 * after EMBED_MS of batches; after each, where the index of words has more to do.  A fleet may
 * commit more prompts than an encoder can take beside searches. */
static int keep_meaning(struct kiln_gallery_follow *follow,
                        const struct kiln_follower_progress *progress, bool *ret_more,
                        struct kiln_error *err)
{
    const int64_t until_ms = kiln_clock_ms() + EMBED_MS;
    bool replaced = progress->replaced;
    int rc = 0;
    do {
        const int64_t begin_ms = kiln_clock_ms();
        rc = kiln_keeper_step(follow->keeper, replaced, ret_more, err);
        replaced = false;
        if (rc != 0 || !*ret_more)
            return rc;
        const int rest_ms = kiln_keeper_rest_ms(follow->keeper, kiln_clock_ms() - begin_ms);
        if (!kiln_background_pause(&follow->background, rest_ms))
            return 0;
    } while (!progress->more && kiln_clock_ms() < until_ms);
    return rc;
}

/* Both indexes, and the rule; *ret_pause_ms: when there is more to do. */
static int step(struct kiln_gallery_follow *follow, int *ret_pause_ms, struct kiln_error *err)
{
    struct kiln_follower_progress progress = {0};
    bool more = false, unrated = false;
    follow->changed = false;
    int rc = open_meaning(follow, err);
    if (rc == 0)
        rc = kiln_follower_step(follow->follower, &progress, err);
    if (rc == 0) {
        note(follow, &progress);
        kiln_alike_step(follow->alike, progress.writes, progress.replaced);
    }
    if (rc == 0)
        rc = keep_meaning(follow, &progress, &more, err);
    if (rc == 0 && progress.writes)
        rc = kiln_rater_step(follow->rater, progress.replaced, &unrated, err);
    *ret_pause_ms = progress.more || more               ? 0
                    : unrated                           ? RATE_PAUSE_MS
                    : kiln_keeper_waits(follow->keeper) ? WANTED_MS
                    : follow->changed                   ? CHANGES_MS
                                                        : PAUSE_MS;
    return rc;
}

static void *run(void *arg)
{
    struct kiln_gallery_follow *follow = arg;
    struct kiln_outage outage = {KILN_OUTAGE_OF("index"), .effect = "new pictures are not found by "
                                                                    "searches"};
    for (int pause_ms = 0; kiln_background_pause(&follow->background, pause_ms);) {
        struct kiln_error err;
        if (step(follow, &pause_ms, &err))
            pause_ms = kiln_outage_fail(&outage, &err);
        else
            kiln_outage_over(&outage);
    }
    return NULL;
}

int kiln_gallery_follow_start(const struct kiln_gallery_app *app, struct kiln_rater *rater,
                              struct kiln_gallery_follow **ret, struct kiln_error *err)
{
    struct kiln_gallery_follow *follow = calloc(1, sizeof *follow);
    if (!follow)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to follow the ledger");
    const struct kiln_follower_options options = {.each = report,
                                                  .arg = follow,
                                                  .written = kiln_rater_written,
                                                  .written_arg = rater,
                                                  .page_rows = PAGE_ROWS};
    follow->keeper = app->keeper;
    follow->alike = app->alike;
    follow->files = app->files;
    follow->rater = rater;
    int rc = kiln_follower_open(app->cli->config, "kiln-gallery", &options, &follow->follower, err);
    if (rc == 0) {
        rc = kiln_background_start(&follow->background, run, follow, "follow the ledger", err);
        if (rc)
            kiln_follower_close(follow->follower);
    }
    if (rc) {
        free(follow);
        return rc;
    }
    *ret = follow;
    return 0;
}

bool kiln_gallery_follow_stop(struct kiln_gallery_follow *follow)
{
    if (!follow)
        return true;
    if (!kiln_background_stop(&follow->background, STOP_S))
        return false;
    kiln_follower_close(follow->follower);
    free(follow);
    return true;
}

void kiln_gallery_follow_gauges(struct kiln_gallery_follow *follow, struct kiln_text *text)
{
    kiln_metric_single(text, "kiln_gallery_index_written_total", "counter",
                       "Pictures written to the index of words by this process.",
                       (double)atomic_load(&follow->written));
    kiln_metric_single(text, "kiln_gallery_index_complete", "gauge",
                       "1 if the index of words has every picture.",
                       atomic_load(&follow->complete));
}
