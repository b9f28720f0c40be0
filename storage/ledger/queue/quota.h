/* quota.h - limits of a tenant: its queued jobs, its GPU-seconds a day, and whether its runs may
 * begin from stored latents.
 *
 * A quota is a row a tenant; tenant "*" stands for all tenants without a row.  The limits of "*" also
 * hold for a tenant whose row says only the third (kiln_quota_limits).  Intake refuses jobs beyond
 * the first limit.  Beyond the second the scheduler pauses the tenant until midnight (UTC).
 * The scheduler's cache obeys the third (scheduler/cache/cache.h).
 * The cost of reading grows with the queued jobs, or with the pictures of the day.
 */
#ifndef KILN_LEDGER_QUOTA_H
#define KILN_LEDGER_QUOTA_H

#include "storage/ledger/ledger.h"
#include "storage/ledger/queue/pause.h"

#define KILN_TENANT_ANY "*"

struct kiln_quota {
    char tenant[KILN_NAME_MAX + 1];
    char who[KILN_PAUSE_WHO_MAX + 1];
    int64_t queued;   /* jobs that may be queued; -1: any number */
    double gpu_s_day; /* GPU-seconds of a day; -1: any number */
    enum kiln_teleport teleport; /* OFF: its runs never begin from a latent that the cache chose;
                                  * AUTO: they may; OLD: as the row of "*" says, else AUTO */
    int64_t at_ms;
};
/* Whether its limits replace those of "*".  A row without any is an exemption, unless it was made to
 * say something about teleport. */
static inline bool kiln_quota_limits(const struct kiln_quota *quota)
{
    return quota->queued >= 0 || quota->gpu_s_day >= 0 || quota->teleport == KILN_TELEPORT_OLD;
}
typedef int kiln_each_quota(void *arg, const struct kiln_quota *quota, struct kiln_error *err);
int kiln_ledger_quotas(struct kiln_ledger *ledger, const char *pool, kiln_each_quota *each,
                       void *arg, struct kiln_error *err) KILN_MUST_CHECK;
/* Makes or replaces it. */
int kiln_ledger_quota_set(struct kiln_ledger *ledger, const char *pool,
                          const struct kiln_quota *quota, struct kiln_error *err) KILN_MUST_CHECK;
/* KILN_NOT_FOUND: the tenant has none. */
int kiln_ledger_quota_remove(struct kiln_ledger *ledger, const char *pool, const char *tenant,
                             struct kiln_error *err) KILN_MUST_CHECK;

/* The tenant's queued jobs. */
int kiln_ledger_waiting_of(struct kiln_ledger *ledger, const char *pool, const char *tenant,
                           uint64_t *ret, struct kiln_error *err) KILN_MUST_CHECK;

/* The same and the limit, -1 for none: of its own quota or else of "*". */
int kiln_ledger_quota_of(struct kiln_ledger *ledger, const char *pool, const char *tenant,
                         int64_t *ret_limit, uint64_t *ret_waiting,
                         struct kiln_error *err) KILN_MUST_CHECK;

struct kiln_day_row {
    char tenant[KILN_NAME_MAX + 1];
    double used_s, limit_s; /* limit -1: none */
    bool held;              /* it is paused for its quota */
    int64_t ends_ms;        /* the next midnight, UTC */
};
typedef int kiln_each_day(void *arg, const struct kiln_day_row *day, struct kiln_error *err);
/* Tenants that used GPUs today, if there is any daily quota, and tenants paused for theirs.
 */
int kiln_ledger_day(struct kiln_ledger *ledger, const char *pool, kiln_each_day *each, void *arg,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* --- refusing jobs beyond a quota (intake.c) ---------------------------------------------------
 */
/* ret_known[i]: the batch of jobs[i] has a job of its key already.  All of one batch. */
int kiln_ledger_known(struct kiln_ledger *ledger, const char *pool, const struct kiln_new_job *jobs,
                      size_t count, bool *ret_known, struct kiln_error *err) KILN_MUST_CHECK;
/* Records all of them as refused for the same reason and in this order, as kiln_ledger_refuse
 * does. */
int kiln_ledger_refuse_jobs(struct kiln_ledger *ledger, const char *pool,
                            const struct kiln_new_job *jobs, size_t count, const char *reason,
                            struct kiln_error *err) KILN_MUST_CHECK;

#endif
