/* pause.h - pauses: which jobs the scheduler must not assign, by a person's command or its own.
 *
 * A pause (table hold) names jobs by scope: all of the pool, all backfills, one backfill, a tenant,
 * a group (scheduler/pauses.h says how a group is named).  The last write wins.  The row before it
 * is returned, so that both people can be told of a contradiction.
 */
#ifndef KILN_LEDGER_PAUSE_H
#define KILN_LEDGER_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/error.h"
#include "schemas/job.h"

struct kiln_ledger;

enum kiln_pause_scope {
    KILN_SCOPE_ALL,
    KILN_SCOPE_BACKFILL,     /* priority -10 */
    KILN_SCOPE_ONE_BACKFILL, /* the backfill of that name */
    KILN_SCOPE_TENANT,
    KILN_SCOPE_GROUP,
    KILN_SCOPE_WINDOW, /* a backfill outside its hours: written by the scheduler */
    KILN_SCOPE_QUOTA,  /* a tenant that has used its daily quota: written by the scheduler */
    KILN_SCOPE_COUNT
};
const char *kiln_scope_name(enum kiln_pause_scope scope); /* as in the ledger */

#define KILN_PAUSE_NAME_MAX (KILN_LORA_SET_MAX + KILN_NAME_MAX + 48)
#define KILN_PAUSE_WHO_MAX 128
#define KILN_PAUSE_REASON_MAX 200

struct kiln_pause {
    enum kiln_pause_scope scope;
    char name[KILN_PAUSE_NAME_MAX + 1];
    char who[KILN_PAUSE_WHO_MAX + 1];
    char reason[KILN_PAUSE_REASON_MAX + 1];
    uint64_t batch_id; /* of the backfill, 0 for other scopes */
    bool held;         /* false: lifted at `at_ms` */
    int64_t at_ms, until_ms;
};
typedef int kiln_each_pause(void *arg, const struct kiln_pause *pause, struct kiln_error *err);

/* Pauses in force, with `lifted` also those that were lifted, by scope and name.  Pauses of a
 * removed backfill are left out. */
int kiln_ledger_pauses(struct kiln_ledger *ledger, const char *pool, bool lifted,
                       kiln_each_pause *each, void *arg, struct kiln_error *err) KILN_MUST_CHECK;

/* Records the pause, or its end (pause->held false).  *ret_before is the row before; its who is ""
 * if there was none.  until_ms 0: it stays until somebody lifts it. */
int kiln_ledger_pause(struct kiln_ledger *ledger, const char *pool, const struct kiln_pause *pause,
                      struct kiln_pause *ret_before, struct kiln_error *err) KILN_MUST_CHECK;

/* Calls each with the name of every tenant that has jobs in the pool. */
typedef int kiln_each_name(void *arg, const char *name, struct kiln_error *err);
int kiln_ledger_tenants(struct kiln_ledger *ledger, const char *pool, kiln_each_name *each,
                        void *arg, struct kiln_error *err) KILN_MUST_CHECK;

#endif
