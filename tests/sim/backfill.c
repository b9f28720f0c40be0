/* backfill.c - no backfills, pauses or quotas in the simulation: the daemon's questions about them
 * are answered with none. */
#include "storage/ledger/queue/backfill.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/queue/quota.h"
#include "storage/ledger/queue/webhook.h"

int kiln_ledger_pauses(struct kiln_ledger *ledger, const char *pool, bool lifted,
                       kiln_each_pause *each, void *arg, struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)lifted, (void)each, (void)arg, (void)err;
    return 0;
}

int kiln_ledger_pause(struct kiln_ledger *ledger, const char *pool, const struct kiln_pause *pause,
                      struct kiln_pause *ret_before, struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)pause, (void)err;
    *ret_before = (struct kiln_pause){0};
    return 0;
}

int kiln_ledger_backfills_due(struct kiln_ledger *ledger, const char *pool, kiln_each_due *each,
                              void *arg, struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)each, (void)arg, (void)err;
    return 0;
}

int kiln_ledger_backfill_walk(struct kiln_ledger *ledger, uint64_t id, uint64_t place, uint32_t max,
                              kiln_each_line *each, void *arg, struct kiln_error *err)
{
    (void)ledger, (void)id, (void)place, (void)max, (void)each, (void)arg, (void)err;
    return 0;
}

int kiln_ledger_top_up(struct kiln_ledger *ledger, const char *pool,
                       const struct kiln_backfill_due *due, const struct kiln_new_job *jobs,
                       size_t count, uint64_t walked, uint64_t *ret_made, uint64_t *ret_again,
                       struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)due, (void)jobs, (void)count, (void)walked, (void)err;
    *ret_made = *ret_again = 0;
    return 0;
}

int kiln_ledger_backfill_fail(struct kiln_ledger *ledger, uint64_t id, const char *reason,
                              struct kiln_error *err)
{
    (void)ledger, (void)id, (void)reason, (void)err;
    return 0;
}

int kiln_ledger_quotas(struct kiln_ledger *ledger, const char *pool, kiln_each_quota *each,
                       void *arg, struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)each, (void)arg, (void)err;
    return 0;
}

int kiln_ledger_waiting_of(struct kiln_ledger *ledger, const char *pool, const char *tenant,
                           uint64_t *ret, struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)tenant, (void)err;
    *ret = 0;
    return 0;
}

int kiln_ledger_day(struct kiln_ledger *ledger, const char *pool, kiln_each_day *each, void *arg,
                    struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)each, (void)arg, (void)err;
    return 0;
}

int kiln_ledger_known(struct kiln_ledger *ledger, const char *pool, const struct kiln_new_job *jobs,
                      size_t count, bool *ret_known, struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)jobs, (void)count, (void)ret_known, (void)err;
    return 0;
}

int kiln_ledger_refuse_jobs(struct kiln_ledger *ledger, const char *pool,
                            const struct kiln_new_job *jobs, size_t count, const char *reason,
                            struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)jobs, (void)count, (void)reason, (void)err;
    return 0;
}

/* --- URLs to tell: webhook_hosts is empty, so the intake keeps none ------------------------------
 */

int kiln_ledger_webhook_keep(struct kiln_ledger *ledger, const char *pool, const char *batch,
                             const char *entry, const char *url, bool *ret_full,
                             struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)batch, (void)entry, (void)ret_full;
    return kiln_fail(err, KILN_INTERNAL, "the tables do not record that %s is told", url);
}

int kiln_ledger_webhook_take(struct kiln_ledger *ledger, const char *pool, double lease_s,
                             struct kiln_webhook_row *ret, bool *ret_found, struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)lease_s, (void)ret, (void)err;
    *ret_found = false;
    return 0;
}

int kiln_ledger_webhook_tried(struct kiln_ledger *ledger, uint64_t id, const char *error,
                              double retry_s, struct kiln_error *err)
{
    (void)ledger, (void)error, (void)retry_s;
    return kiln_fail(err, KILN_INTERNAL, "the tables have no message %llu", (unsigned long long)id);
}
