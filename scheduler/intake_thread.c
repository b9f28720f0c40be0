/* intake_thread.c - the leader's second thread: what brings jobs into the ledger.
 *
 * It runs the intake of what clients send, and tops up backfills, in turn.  Both have connections
 * of their own, and neither can delay the thread that assigns work.
 */
#include "scheduler/intake/routes.h"
#include "scheduler/intake/top_up.h"
#include "scheduler/leader.h"
#include "storage/daemon/health.h"
#include "storage/daemon/outage.h"

#define WAIT_MS 200 /* for entries, between two looks at the backfills */
#define PAUSE_MS 200

struct thread {
    struct kiln_leader *leader;
    struct kiln_routes *routes;
    struct kiln_intake *intake;
    struct kiln_top_up *top_up;
    struct kiln_outage intake_outage, backfill_outage;
    bool more; /* backfills are below their marks: the intake does not wait */
};

static void note(struct kiln_outage *outage, int rc, const struct kiln_error *err)
{
    if (rc)
        (void)kiln_outage_fail(outage, err);
    else
        kiln_outage_over(outage);
}

static int open_routes(struct thread *thread, struct kiln_error *err)
{
    return thread->routes ? 0 : kiln_routes_open(thread->leader->config, &thread->routes, err);
}

static int take_in(struct thread *thread)
{
    struct kiln_error err;
    uint64_t inserted = 0;
    int rc = open_routes(thread, &err);
    if (rc == 0 && !thread->intake)
        rc = kiln_intake_open(thread->leader->config, thread->routes, &thread->intake, &err);
    if (rc == 0)
        rc = kiln_intake_step(thread->intake, thread->more ? 0 : WAIT_MS, &inserted, &err);
    if (inserted > 0)
        atomic_store(&thread->leader->inserted, true);
    kiln_health_stuck("intake", rc ? &err : NULL);
    note(&thread->intake_outage, rc, &err);
    return rc;
}

static int top_up(struct thread *thread)
{
    struct kiln_error err;
    struct kiln_top_up_made made = {0};
    int rc = open_routes(thread, &err);
    if (rc == 0 && !thread->top_up)
        rc = kiln_top_up_open(thread->leader->config, thread->routes, &thread->top_up, &err);
    rc = rc ? rc : kiln_top_up_step(thread->top_up, &made, &err);
    thread->more = made.more;
    if (made.fresh > 0)
        atomic_store(&thread->leader->inserted, true);
    if (made.again > 0)
        atomic_store(&thread->leader->revived, true);
    note(&thread->backfill_outage, rc, &err);
    return rc;
}

void *kiln_intake_thread(void *arg)
{
    struct thread thread = {.leader = arg,
                            .intake_outage = {.away = "intake_waits",
                                              .back = "intake_goes_on",
                                              .effect = "entries stay in the stream"},
                            .backfill_outage = {.away = "standing_orders_wait",
                                                .back = "standing_orders_go_on",
                                                .effect = "backfills are not topped up"}};
    while (!atomic_load(&thread.leader->stop)) {
        int rc = take_in(&thread);
        if (atomic_load(&thread.leader->stop))
            break;
        int also = top_up(&thread);
        if (rc || also)
            kiln_sleep_ms(PAUSE_MS);
    }
    kiln_health_stuck("intake", NULL); /* the next leader reports its own */
    kiln_intake_close(thread.intake);
    kiln_top_up_close(thread.top_up);
    kiln_routes_close(thread.routes);
    return NULL;
}
