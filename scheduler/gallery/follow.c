/* follow.c - see follow.h. */
#include "scheduler/gallery/follow.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "schemas/telemetry/metrics.h"
#include "storage/daemon/outage.h"
#include "storage/ledger/gallery/follow.h"

#define STOP_S 2
#define PAGE_ROWS                                                                                  \
    500 /* of changes; a step has at most eight pages, which the keeper has room for */
#define PAUSE_MS 1000 /* between two looks at a ledger without changes */

struct kiln_gallery_follow {
    struct kiln_follower *follower;
    struct kiln_keeper *keeper;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ending_changed;
    bool ending;
    _Atomic uint64_t written, removed;
    _Atomic bool complete, writes;
};

/* Whether to go on after so long. */
static bool pause_for(struct kiln_gallery_follow *follow, int ms)
{
    struct timespec until = kiln_deadline_in(ms);
    pthread_mutex_lock(&follow->lock);
    while (!follow->ending &&
           pthread_cond_timedwait(&follow->ending_changed, &follow->lock, &until) == 0)
        continue;
    bool more = !follow->ending;
    pthread_mutex_unlock(&follow->lock);
    return more;
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

/* Both indexes; *ret_more: there is more to do. */
static int step(struct kiln_gallery_follow *follow, bool *ret_more, struct kiln_error *err)
{
    struct kiln_follower_progress progress = {0};
    bool more = false;
    int rc = kiln_follower_step(follow->follower, &progress, err);
    if (rc == 0)
        note(follow, &progress);
    if (rc == 0)
        rc = kiln_keeper_step(follow->keeper, progress.replaced, &more, err);
    *ret_more = progress.more || more;
    return rc;
}

static void *run(void *arg)
{
    struct kiln_gallery_follow *follow = arg;
    struct kiln_outage outage = {KILN_OUTAGE_OF("index"), .effect = "new pictures are not found by "
                                                                    "searches"};
    for (int pause_ms = 0; pause_for(follow, pause_ms);) {
        struct kiln_error err;
        bool more;
        if (step(follow, &more, &err)) {
            pause_ms = kiln_outage_fail(&outage, &err);
            continue;
        }
        kiln_outage_over(&outage);
        pause_ms = more ? 0 : PAUSE_MS;
    }
    return NULL;
}

int kiln_gallery_follow_start(const struct kiln_config *config, struct kiln_keeper *keeper,
                              struct kiln_gallery_follow **ret, struct kiln_error *err)
{
    const struct kiln_follower_options options = {
        .each = kiln_keeper_note, .arg = keeper, .page_rows = PAGE_ROWS};
    struct kiln_gallery_follow *follow = calloc(1, sizeof *follow);
    if (!follow)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to follow the ledger");
    follow->keeper = keeper;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&follow->ending_changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&follow->lock, NULL);
    int rc = kiln_follower_open(config, "kiln-gallery", &options, &follow->follower, err);
    if (rc == 0 && pthread_create(&follow->thread, NULL, run, follow) != 0) {
        kiln_follower_close(follow->follower);
        rc = kiln_fail(err, KILN_NO_MEMORY, "no thread to follow the ledger");
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
    struct timespec until;
    if (!follow)
        return true;
    pthread_mutex_lock(&follow->lock);
    follow->ending = true;
    pthread_cond_signal(&follow->ending_changed);
    pthread_mutex_unlock(&follow->lock);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += STOP_S;
    if (pthread_timedjoin_np(follow->thread, NULL, &until) != 0)
        return false;
    kiln_follower_close(follow->follower);
    pthread_cond_destroy(&follow->ending_changed);
    pthread_mutex_destroy(&follow->lock);
    free(follow);
    return true;
}

void kiln_gallery_follow_gauges(struct kiln_gallery_follow *follow, struct kiln_text *text)
{
    kiln_metric_family(text, "kiln_gallery_index_written_total", "counter",
                       "Pictures written to the index of words by this process.");
    kiln_metric_sample(text, "kiln_gallery_index_written_total", NULL,
                       (double)atomic_load(&follow->written));
    kiln_metric_family(text, "kiln_gallery_index_complete", "gauge",
                       "1 if the index of words has every picture.");
    kiln_metric_sample(text, "kiln_gallery_index_complete", NULL, atomic_load(&follow->complete));
}
