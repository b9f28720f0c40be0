/* feed.c - the leader's second thread: what brings jobs into the ledger.
 *
 * Two things do: the intake of what clients send, and the standing orders that are topped up.  They
 * take turns, the intake first; both have connections of their own and neither can hold up the
 * thread that hands work out.
 */
#include <stdlib.h>
#include <time.h>

#include "scheduler/intake/standing.h"
#include "scheduler/leader.h"
#include "storage/daemon/health.h"
#include "storage/daemon/outage.h"

#define WAIT_MS 200 /* for entries, between two looks at the standing orders */
#define PAUSE_MS 200

struct feed {
    struct kiln_leader *leader;
    struct kiln_intake *intake;
    struct kiln_standing *standing;
    struct kiln_outage intake_outage, backfill_outage;
    bool more; /* standing orders have room left: the intake does not wait */
};

static void pause_after_error(void)
{
    nanosleep(&(struct timespec){0, PAUSE_MS * 1000000L}, NULL);
}

static void note(struct kiln_outage *outage, int rc, const struct kiln_error *err)
{
    if (rc)
        (void)kiln_outage_fail(outage, err);
    else
        kiln_outage_over(outage);
}

static int take_in(struct feed *feed)
{
    struct kiln_error err;
    uint64_t inserted = 0;
    int rc = feed->intake ? 0 : kiln_intake_open(feed->leader->config, &feed->intake, &err);
    if (rc == 0)
        rc = kiln_intake_step(feed->intake, feed->more ? 0 : WAIT_MS, &inserted, &err);
    if (inserted > 0)
        atomic_store(&feed->leader->inserted, true);
    kiln_health_stuck("intake", rc ? &err : NULL);
    note(&feed->intake_outage, rc, &err);
    return rc;
}

static int top_up(struct feed *feed)
{
    struct kiln_error err;
    struct kiln_standing_made made = {0};
    int rc = feed->standing ? 0 : kiln_standing_open(feed->leader->config, &feed->standing, &err);
    if (rc == 0)
        rc = kiln_standing_step(feed->standing, &made, &err);
    feed->more = made.more;
    if (made.fresh > 0)
        atomic_store(&feed->leader->inserted, true);
    if (made.again > 0)
        atomic_store(&feed->leader->revived, true);
    note(&feed->backfill_outage, rc, &err);
    return rc;
}

void *kiln_feed_run(void *arg)
{
    struct feed feed = {.leader = arg,
                        .intake_outage = {.away = "intake_waits",
                                          .back = "intake_goes_on",
                                          .effect = "entries stay in the stream"},
                        .backfill_outage = {.away = "standing_orders_wait",
                                            .back = "standing_orders_go_on",
                                            .effect = "backfills are not topped up"}};
    while (!atomic_load(&feed.leader->stop)) {
        int rc = take_in(&feed);
        if (atomic_load(&feed.leader->stop))
            break;
        int also = top_up(&feed);
        if (rc || also)
            pause_after_error();
    }
    kiln_health_stuck("intake", NULL); /* who leads next sees for itself */
    kiln_intake_close(feed.intake);
    kiln_standing_close(feed.standing);
    return NULL;
}
