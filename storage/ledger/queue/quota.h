/* quota.h - how much a tenant may have waiting, and use of the GPUs in a day.
 *
 * A quota is a row a tenant; tenant "*" is everybody who has none.  Jobs beyond the first are
 * refused by the intake, jobs of a tenant beyond the second are held by the scheduler until
 * midnight (UTC).  Reading here costs by what waits, or by the pictures of the day.
 */
#ifndef KILN_LEDGER_QUOTA_H
#define KILN_LEDGER_QUOTA_H

#include "storage/ledger/ledger.h"
#include "storage/ledger/queue/hold.h"

#define KILN_TENANT_ANY "*"

struct kiln_quota {
    char tenant[KILN_NAME_MAX + 1];
    char who[KILN_HOLD_WHO_MAX + 1];
    int64_t queued;   /* jobs that may wait; -1: any number */
    double gpu_s_day; /* GPU-seconds of a day; -1: any number */
    int64_t at_ms;
};
typedef int kiln_each_quota(void *arg, const struct kiln_quota *quota, struct kiln_error *err);
int kiln_ledger_quotas(struct kiln_ledger *ledger, const char *pool, kiln_each_quota *each,
                       void *arg, struct kiln_error *err) KILN_MUST_CHECK;
/* Makes or replaces it. */
int kiln_ledger_quota_set(struct kiln_ledger *ledger, const char *pool,
                          const struct kiln_quota *quota, struct kiln_error *err) KILN_MUST_CHECK;
/* KILN_NOT_FOUND: the tenant has none. */
int kiln_ledger_quota_remove(struct kiln_ledger *ledger, const char *pool, const char *tenant,
                             struct kiln_error *err) KILN_MUST_CHECK;

/* What the tenant has waiting now. */
int kiln_ledger_waiting_of(struct kiln_ledger *ledger, const char *pool, const char *tenant,
                           uint64_t *ret, struct kiln_error *err) KILN_MUST_CHECK;

/* The same with what it may have, -1: any number, by its own quota or else by everybody's. */
int kiln_ledger_quota_of(struct kiln_ledger *ledger, const char *pool, const char *tenant,
                         int64_t *ret_limit, uint64_t *ret_waiting,
                         struct kiln_error *err) KILN_MUST_CHECK;

struct kiln_day_row {
    char tenant[KILN_NAME_MAX + 1];
    double used_s, limit_s; /* limit -1: none */
    bool held;              /* a hold of scope quota is in force */
    int64_t ends_ms;        /* the next midnight, UTC */
};
typedef int kiln_each_day(void *arg, const struct kiln_day_row *day, struct kiln_error *err);
/* Every tenant that has used GPUs today, if anybody has a quota of them, and those that are held.
 */
int kiln_ledger_day(struct kiln_ledger *ledger, const char *pool, kiln_each_day *each, void *arg,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* --- refusing what is too much (refuse.c) ----------------------------------------------------- */
/* ret_known[i]: the batch of jobs[i] has a job of its key already.  All of one batch. */
int kiln_ledger_known(struct kiln_ledger *ledger, const char *pool, const struct kiln_new_job *jobs,
                      size_t count, bool *ret_known, struct kiln_error *err) KILN_MUST_CHECK;
/* Records all of them as refused for the same reason and in this order, as kiln_ledger_refuse
 * does. */
int kiln_ledger_refuse_jobs(struct kiln_ledger *ledger, const char *pool,
                            const struct kiln_new_job *jobs, size_t count, const char *reason,
                            struct kiln_error *err) KILN_MUST_CHECK;

#endif
