/* gate.c - see gate.h.
 *
 * What a tenant has waiting is counted when the quota seems to be reached; in between, what was let
 * in is added.  While a flood of jobs is refused, it is counted twice a second: for so long the
 * gate may be stricter than the quota, since some were drawn, and never laxer.
 */
#include "scheduler/intake/gate.h"

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

struct kiln_gate {
    struct kiln_ledger *ledger;
    const char *pool;
    struct kiln_quota *quotas;
    size_t quota_count, quota_room;
    struct tenant tenants[TENANTS_MAX]; /* those met since the quotas were read */
    size_t tenant_count;
    int64_t read_ms;
    bool any; /* some quota limits what waits */
};

int kiln_gate_new(struct kiln_ledger *ledger, const char *pool, struct kiln_gate **ret,
                  struct kiln_error *err)
{
    struct kiln_gate *gate = calloc(1, sizeof(*gate));
    if (!gate)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the quotas");
    gate->ledger = ledger;
    gate->pool = pool;
    gate->read_ms = INT64_MIN / 2;
    *ret = gate;
    return 0;
}

void kiln_gate_free(struct kiln_gate *gate)
{
    if (gate)
        free(gate->quotas);
    free(gate);
}

/* --- quotas ---------------------------------------------------------------------------------- */
static int keep_quota(void *arg, const struct kiln_quota *quota, struct kiln_error *err)
{
    struct kiln_gate *gate = arg;
    struct kiln_quota *at =
        kiln_room(gate->quotas, gate->quota_count, &gate->quota_room, sizeof(*at));
    if (!at)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the quotas");
    gate->quotas = at;
    gate->quotas[gate->quota_count++] = *quota;
    gate->any = gate->any || quota->queued >= 0;
    return 0;
}

static int read_quotas(struct kiln_gate *gate, int64_t now_ms, struct kiln_error *err)
{
    if (now_ms - gate->read_ms < READ_MS)
        return 0;
    gate->quota_count = gate->tenant_count = 0;
    gate->any = false;
    int rc = kiln_ledger_quotas(gate->ledger, gate->pool, keep_quota, gate, err);
    gate->read_ms = rc ? gate->read_ms : now_ms;
    return rc;
}

/* The tenant's own quota, else everybody's. */
static int64_t limit_of(const struct kiln_gate *gate, const char *tenant)
{
    int64_t any = -1;
    for (size_t i = 0; i < gate->quota_count; i++) {
        if (strcmp(gate->quotas[i].tenant, tenant) == 0)
            return gate->quotas[i].queued;
        if (strcmp(gate->quotas[i].tenant, KILN_TENANT_ANY) == 0)
            any = gate->quotas[i].queued;
    }
    return any;
}

/* NULL: nothing limits it.  Beyond TENANTS_MAX the last place is used in turn. */
static struct tenant *find_tenant(struct kiln_gate *gate, const char *name)
{
    for (size_t i = 0; i < gate->tenant_count; i++)
        if (strcmp(gate->tenants[i].name, name) == 0)
            return gate->tenants[i].limit < 0 ? NULL : &gate->tenants[i];
    if (gate->tenant_count < TENANTS_MAX)
        gate->tenant_count++;
    struct tenant *tenant = &gate->tenants[gate->tenant_count - 1];
    *tenant = (struct tenant){.limit = limit_of(gate, name)};
    snprintf(tenant->name, sizeof(tenant->name), "%s", name);
    return tenant->limit < 0 ? NULL : tenant;
}

/* How many more may come in, `wanted` of them asked for. */
static int room_of(struct kiln_gate *gate, struct tenant *tenant, size_t wanted, int64_t now_ms,
                   size_t *ret, struct kiln_error *err)
{
    bool fresh = tenant->full && now_ms - tenant->counted_ms < COUNT_MS;
    bool close = tenant->waiting + wanted > (uint64_t)tenant->limit;
    if (!tenant->counted || (close && !fresh)) {
        int rc =
            kiln_ledger_waiting_of(gate->ledger, gate->pool, tenant->name, &tenant->waiting, err);
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

/* --- judging --------------------------------------------------------------------------------- */
/* Jobs of one batch and one tenant, which stand together. */
static size_t run_of(const struct kiln_new_job *jobs, size_t count)
{
    size_t n = 1;
    while (n < count && strcmp(jobs[n].job.batch, jobs[0].job.batch) == 0 &&
           strcmp(jobs[n].job.tenant, jobs[0].job.tenant) == 0)
        n++;
    return n;
}

/* The first `room` of the new ones come in; those that follow are refused in stretches. */
static int refuse_beyond(struct kiln_gate *gate, struct tenant *tenant,
                         const struct kiln_new_job *jobs, size_t count, size_t room,
                         bool *ret_refused, size_t *ret_count, struct kiln_error *err)
{
    char reason[256];
    bool *known = calloc(count, sizeof(*known));
    if (!known)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the quotas");
    snprintf(reason, sizeof(reason),
             "tenant '%s' may have %lld jobs waiting, and has: send it again when some are drawn "
             "(`kiln quota ls`)",
             tenant->name, (long long)tenant->limit);
    int rc = kiln_ledger_known(gate->ledger, gate->pool, jobs, count, known, err);
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
            rc = kiln_ledger_refuse_jobs(gate->ledger, gate->pool, jobs + i, n, reason, err);
        i += n;
    }
    free(known);
    return rc;
}

int kiln_gate_judge(struct kiln_gate *gate, const struct kiln_new_job *jobs, size_t count,
                    int64_t now_ms, bool *ret_refused, size_t *ret_count, struct kiln_error *err)
{
    memset(ret_refused, 0, count * sizeof(*ret_refused));
    *ret_count = 0;
    int rc = read_quotas(gate, now_ms, err);
    for (size_t at = 0; at < count && rc == 0 && gate->any;) {
        size_t n = run_of(jobs + at, count - at), room = n;
        struct tenant *tenant = find_tenant(gate, jobs[at].job.tenant);
        if (tenant)
            rc = room_of(gate, tenant, n, now_ms, &room, err);
        if (rc == 0 && tenant && room < n)
            rc = refuse_beyond(gate, tenant, jobs + at, n, room, ret_refused + at, ret_count, err);
        else if (tenant)
            tenant->waiting += n;
        at += n;
    }
    return rc;
}
