/* queue_quota.c - see queue_quota.h.
 *
 * A tenant's queued jobs are counted when its quota seems to be reached; in between, accepted jobs
 * are added to the last count.  While a flood of jobs is refused, they are counted twice a second.
 * Until the next count the check may be stricter than the quota, since some were rendered, and
 * never laxer.
 */
#include "scheduler/intake/queue_quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/room.h"
#include "storage/ledger/queue/quota.h"

#define READ_MS 500  /* between readings of the quotas, */
#define COUNT_MS 500 /* and of what a tenant has waiting that is full */
#define TENANTS_MAX 256

struct tenant {
    char name[KILN_NAME_MAX + 1];
    int64_t limit;    /* -1: none */
    uint64_t waiting; /* at least */
    int64_t counted_ms;
    bool counted, full; /* full: it was, when it was counted or when the last came in */
};

struct kiln_queue_quota {
    struct kiln_ledger *ledger;
    const char *pool;
    struct kiln_quota *quotas;
    size_t quota_count, quota_room;
    struct tenant tenants[TENANTS_MAX]; /* those met since the quotas were read */
    size_t tenant_count;
    int64_t read_ms;
    bool any; /* some quota limits what waits */
};

int kiln_queue_quota_new(struct kiln_ledger *ledger, const char *pool,
                         struct kiln_queue_quota **ret, struct kiln_error *err)
{
    struct kiln_queue_quota *q = calloc(1, sizeof(*q));
    if (!q)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the quotas");
    q->ledger = ledger;
    q->pool = pool;
    q->read_ms = INT64_MIN / 2;
    *ret = q;
    return 0;
}

void kiln_queue_quota_free(struct kiln_queue_quota *q)
{
    if (q)
        free(q->quotas);
    free(q);
}

/* --- quotas ---------------------------------------------------------------------------------- */
static int keep_quota(void *arg, const struct kiln_quota *quota, struct kiln_error *err)
{
    struct kiln_queue_quota *q = arg;
    struct kiln_quota *at = kiln_room(q->quotas, q->quota_count, &q->quota_room, sizeof(*at));
    if (!at)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the quotas");
    q->quotas = at;
    q->quotas[q->quota_count++] = *quota;
    q->any = q->any || quota->queued >= 0;
    return 0;
}

static int read_quotas(struct kiln_queue_quota *q, int64_t now_ms, struct kiln_error *err)
{
    if (now_ms - q->read_ms < READ_MS)
        return 0;
    q->quota_count = q->tenant_count = 0;
    q->any = false;
    int rc = kiln_ledger_quotas(q->ledger, q->pool, keep_quota, q, err);
    q->read_ms = rc ? q->read_ms : now_ms;
    return rc;
}

/* The tenant with its own limit, else with the one for all tenants; NULL: it has none.  Tenants
 * beyond TENANTS_MAX share the last place. */
static struct tenant *find_tenant(struct kiln_queue_quota *q, const char *name)
{
    int64_t any = -1, own = -1;
    bool has_own = false;
    for (size_t i = 0; i < q->tenant_count; i++)
        if (strcmp(q->tenants[i].name, name) == 0)
            return q->tenants[i].limit < 0 ? NULL : &q->tenants[i];
    for (size_t i = 0; i < q->quota_count && !has_own; i++) {
        if (strcmp(q->quotas[i].tenant, KILN_TENANT_ANY) == 0)
            any = q->quotas[i].queued;
        has_own = strcmp(q->quotas[i].tenant, name) == 0 && kiln_quota_limits(&q->quotas[i]);
        own = has_own ? q->quotas[i].queued : own;
    }
    q->tenant_count += q->tenant_count < TENANTS_MAX;
    struct tenant *tenant = &q->tenants[q->tenant_count - 1];
    *tenant = (struct tenant){.limit = has_own ? own : any};
    snprintf(tenant->name, sizeof(tenant->name), "%s", name);
    return tenant->limit < 0 ? NULL : tenant;
}

/* How many more are accepted, if `wanted` ask for it. */
static int room_of(struct kiln_queue_quota *q, struct tenant *tenant, size_t wanted, int64_t now_ms,
                   size_t *ret, struct kiln_error *err)
{
    bool fresh = tenant->full && now_ms - tenant->counted_ms < COUNT_MS;
    bool close = tenant->waiting + wanted > (uint64_t)tenant->limit;
    if (!tenant->counted || (close && !fresh)) {
        int rc = kiln_ledger_waiting_of(q->ledger, q->pool, tenant->name, &tenant->waiting, err);
        if (rc)
            return rc;
        tenant->counted = true;
        tenant->counted_ms = now_ms;
        tenant->full = tenant->waiting >= (uint64_t)tenant->limit;
    }
    uint64_t limit = (uint64_t)tenant->limit;
    *ret = tenant->waiting < limit ? (size_t)(limit - tenant->waiting) : 0;
    return 0;
}

/* --- checking -------------------------------------------------------------------------------- */
/* Accepts the first `room` new jobs, and refuses the others, run by run. */
static int refuse_beyond(struct kiln_queue_quota *q, struct tenant *tenant,
                         const struct kiln_new_job *jobs, size_t count, size_t room,
                         bool *ret_refused, size_t *ret_count, struct kiln_error *err)
{
    char reason[256];
    bool *known = calloc(count, sizeof(*known));
    if (!known)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the quotas");
    snprintf(
        reason, sizeof(reason),
        "tenant '%s' has reached its limit of %lld waiting jobs; retry when some have finished "
        "(see `kiln quota ls`)",
        tenant->name, (long long)tenant->limit);
    int rc = kiln_ledger_known(q->ledger, q->pool, jobs, count, known, err);
    for (size_t i = 0; i < count && rc == 0; i++) {
        ret_refused[i] = !known[i] && room == 0;
        *ret_count += ret_refused[i];
        tenant->waiting += !known[i] && room > 0;
        room -= !known[i] && room > 0;
    }
    tenant->full = tenant->waiting >= (uint64_t)tenant->limit;
    for (size_t i = 0; i < count && rc == 0; i++) {
        size_t n = 0;
        while (i + n < count && ret_refused[i + n])
            n++;
        if (n > 0)
            rc = kiln_ledger_refuse_jobs(q->ledger, q->pool, jobs + i, n, reason, err);
        i += n;
    }
    free(known);
    return rc;
}

int kiln_queue_quota_check(struct kiln_queue_quota *q, const struct kiln_new_job *jobs,
                           size_t count, int64_t now_ms, bool *ret_refused, size_t *ret_count,
                           struct kiln_error *err)
{
    memset(ret_refused, 0, count * sizeof(*ret_refused));
    *ret_count = 0;
    int rc = read_quotas(q, now_ms, err);
    for (size_t at = 0; at < count && rc == 0 && q->any;) {
        size_t n = 1; /* a run of jobs of one batch and one tenant */
        while (at + n < count && strcmp(jobs[at + n].job.batch, jobs[at].job.batch) == 0 &&
               strcmp(jobs[at + n].job.tenant, jobs[at].job.tenant) == 0)
            n++;
        size_t room = n;
        struct tenant *tenant = find_tenant(q, jobs[at].job.tenant);
        if (tenant)
            rc = room_of(q, tenant, n, now_ms, &room, err);
        if (rc == 0 && tenant && room < n)
            rc = refuse_beyond(q, tenant, jobs + at, n, room, ret_refused + at, ret_count, err);
        else if (tenant)
            tenant->waiting += n;
        at += n;
    }
    return rc;
}
