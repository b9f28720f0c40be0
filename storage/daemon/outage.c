/* outage.c - backoff, and a log line only when something changes.
 *
 * An outage of an hour at one try every five seconds would be 720 lines that say the same; two
 * lines with the time between them say more.
 */
#include "storage/daemon/outage.h"

#include <stdio.h>

#include "schemas/clock.h"
#include "schemas/log.h"
#include "storage/daemon/backoff.h"

#define WAIT_FIRST_MS 100
#define WAIT_MAX_MS 5000

int kiln_outage_fail(struct kiln_outage *outage, const struct kiln_error *err)
{
    if (outage->since_ms == 0) {
        char event[32];
        snprintf(event, sizeof event, "%s_away", outage->what);
        outage->since_ms = kiln_monotonic_ms();
        outage->tries = 0;
        if (!outage->sharing || atomic_fetch_add(outage->sharing, 1) == 0)
            kiln_log(KILN_LOG_WARNING, event, kiln_f("code", "%s", kiln_code_name(err->code)),
                     kiln_f("error", "%s", err->text), kiln_f("meanwhile", "%s", outage->effect));
    }
    uint32_t doublings = outage->tries < 10 ? outage->tries : 10;
    uint32_t wait = WAIT_FIRST_MS << doublings;
    wait = wait < WAIT_MAX_MS ? wait : WAIT_MAX_MS;
    outage->tries++;
    /* Half of it is jitter: a fleet that lost its store at one moment must not come back at one. */
    return (int)(wait / 2 + kiln_jitter(wait / 2 + 1));
}

void kiln_outage_over(struct kiln_outage *outage)
{
    if (outage->since_ms == 0)
        return;
    char event[32];
    snprintf(event, sizeof event, "%s_back", outage->what);
    if (!outage->sharing || atomic_fetch_sub(outage->sharing, 1) == 1)
        kiln_log(KILN_LOG_INFO, event,
                 kiln_f("away_s", "%.1f", (kiln_monotonic_ms() - outage->since_ms) / 1e3),
                 kiln_f("tries", "%u", outage->tries));
    outage->since_ms = 0;
}

bool kiln_outage_is(const struct kiln_outage *outage)
{
    return outage->since_ms != 0;
}
