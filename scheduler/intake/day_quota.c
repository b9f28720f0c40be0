/* day_quota.c - see day_quota.h. */
#include "scheduler/intake/day_quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "storage/ledger/queue/quota.h"

#define LOOK_MS 2000  /* at least this long between looks, */
#define LOOK_SHARE 20 /* and this many times what the last one took */
#define CHANGES_MAX 64

/* Tenants whose pause must change; the rest waits for the next look. */
struct changes {
    struct kiln_pause at[CHANGES_MAX];
    size_t count;
};

static int note_change(void *arg, const struct kiln_day_row *row, struct kiln_error *err)
{
    struct changes *changes = arg;
    bool over = row->limit_s >= 0 && row->used_s >= row->limit_s;
    (void)err;
    if (over == row->held || changes->count == CHANGES_MAX)
        return 0;
    struct kiln_pause *pause = &changes->at[changes->count++];
    *pause = (struct kiln_pause){
        .scope = KILN_SCOPE_QUOTA, .held = over, .until_ms = over ? row->ends_ms : 0};
    snprintf(pause->name, sizeof(pause->name), "%s", row->tenant);
    snprintf(pause->who, sizeof(pause->who), "scheduler");
    if (over)
        snprintf(pause->reason, sizeof(pause->reason), "%.1f of %g GPU-seconds of today, UTC",
                 row->used_s, row->limit_s);
    return 0;
}

int kiln_day_quota_check(struct kiln_day_quota *day, struct kiln_ledger *ledger, const char *pool,
                         struct kiln_error *err)
{
    struct changes changes = {.count = 0};
    struct kiln_pause before;
    int64_t began_ms = kiln_clock_ms();
    if (began_ms < day->due_ms)
        return 0;
    int rc = kiln_ledger_day(ledger, pool, note_change, &changes, err);
    for (size_t i = 0; i < changes.count && rc == 0; i++) {
        const struct kiln_pause *pause = &changes.at[i];
        kiln_log(KILN_LOG_INFO, "day_quota", kiln_f("tenant", "%s", pause->name),
                 kiln_f("held", "%d", (int)pause->held), kiln_f("used", "%s", pause->reason));
        rc = kiln_ledger_pause(ledger, pool, pause, &before, err);
    }
    int64_t took = kiln_clock_ms() - began_ms;
    day->due_ms = began_ms + (took * LOOK_SHARE > LOOK_MS ? took * LOOK_SHARE : LOOK_MS);
    return rc;
}
