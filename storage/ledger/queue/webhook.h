/* webhook.h - the messages to URLs that wait until a batch has ended.
 *
 * The intake keeps them, the leading scheduler takes those that are due and notes what came of the
 * attempt.  A message is due when its batch is whole (read/read.h) and none of its jobs waits or
 * runs.  If jobs join the batch between two attempts, the next one waits for their end.
 */
#ifndef KILN_LEDGER_WEBHOOK_H
#define KILN_LEDGER_WEBHOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/error.h"
#include "schemas/job.h"
#include "schemas/wire/wire.h"

struct kiln_ledger;

#define KILN_WEBHOOKS_OF_BATCH 8 /* that wait, of different URLs */

/* Keeps a message of the batch, which is made if it is not there.  entry: of the stream; seen
 * again, it changes nothing.  A URL that the batch has already waits once.  *ret_full: the batch
 * has too many others, nothing was kept. */
int kiln_ledger_webhook_keep(struct kiln_ledger *ledger, const char *pool, const char *batch,
                             const char *entry, const char *url, bool *ret_full,
                             struct kiln_error *err) KILN_MUST_CHECK;

#define KILN_WEBHOOK_TENANTS_MAX 1000 /* characters */
struct kiln_webhook_row {
    uint64_t id;
    char batch[KILN_BATCH_NAME_MAX + 1];
    char url[KILN_INTAKE_URL_MAX + 1];
    char delivery[64];
    char tenants[4 * KILN_WEBHOOK_TENANTS_MAX + 1]; /* with commas; "" for none */
    uint32_t tries;                                 /* with this one */
    int64_t age_s;                                  /* of the first try */
    int64_t began_ms, ended_ms;                     /* of the batch's jobs; 0: none ran */
    uint64_t done, failed, cancelled;
};
/* Takes one that is due for an attempt that has ended within lease_s; after that it is due again.
 * *ret_found: there was one. */
int kiln_ledger_webhook_take(struct kiln_ledger *ledger, const char *pool, double lease_s,
                             struct kiln_webhook_row *ret, bool *ret_found,
                             struct kiln_error *err) KILN_MUST_CHECK;

/* What came of the attempt. error: NULL for a success; retry_s: until the next one, 0 for none. */
int kiln_ledger_webhook_tried(struct kiln_ledger *ledger, uint64_t id, const char *error,
                              double retry_s, struct kiln_error *err) KILN_MUST_CHECK;

/* The messages that failed within a day, and those that go on failing: at their third attempt or a
 * later one. */
struct kiln_webhook_trouble {
    uint64_t failed, retried;
    char batch[KILN_BATCH_NAME_MAX + 1]; /* of the latest */
    char error[KILN_ERROR_TEXT_MAX];
};
int kiln_ledger_webhook_trouble(struct kiln_ledger *ledger, const char *pool,
                                struct kiln_webhook_trouble *ret,
                                struct kiln_error *err) KILN_MUST_CHECK;

#endif
