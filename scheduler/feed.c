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
#include "schemas/log.h"
#include "storage/daemon/health.h"

#define WAIT_MS 200 /* for entries, between two looks at the standing orders */
#define PAUSE_MS 200

struct feed {
    struct kiln_leader *leader;
    struct kiln_intake *intake;
    struct kiln_standing *standing;
    bool intake_away, standing_away;
    bool more; /* standing orders have room left: the intake does not wait */
};

static void pause_after_error(void)
{
    nanosleep(&(struct timespec){0, PAUSE_MS * 1000000L}, NULL);
}

static void note(bool *away, int rc, const char *goes, const char *comes, const char *effect,
                 const struct kiln_error *err)
{
    if (rc && !*away)
        kiln_log(KILN_LOG_WARNING, goes, kiln_f("error", "%s", err->text),
                 kiln_f("effect", "%s", effect));
    if (!rc && *away)
        kiln_log(KILN_LOG_INFO, comes);
    *away = rc != 0;
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
    note(&feed->intake_away, rc, "intake_waits", "intake_goes_on", "entries stay in the stream",
         &err);
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
    note(&feed->standing_away, rc, "standing_orders_wait", "standing_orders_go_on",
         "they are not topped up", &err);
    return rc;
}

void *kiln_feed_run(void *arg)
{
    struct feed feed = {.leader = arg};
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
