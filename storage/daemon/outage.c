/* outage.c - see outage.h. */
#include "storage/daemon/outage.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "schemas/clock.h"
#include "schemas/telemetry/log.h"

/* --- pauses ----------------------------------------------------------------------------------- */

uint32_t kiln_backoff(uint32_t failures, uint32_t first, uint32_t max)
{
    uint64_t pause = failures > 0 ? first : 0;
    for (uint32_t i = 1; i < failures && pause < max; i++)
        pause *= 2;
    return pause < max ? (uint32_t)pause : max;
}

uint32_t kiln_jitter(uint32_t below)
{
    uint32_t value;
    if (getentropy(&value, sizeof value) != 0) {
        struct timespec now; /* no entropy: the clock's lowest digits differ between machines too */
        clock_gettime(CLOCK_MONOTONIC, &now);
        value = (uint32_t)now.tv_nsec * 2654435761u;
    }
    return below ? value % below : 0;
}

static uint32_t half_jitter(uint32_t pause_ms)
{
    return pause_ms / 2 + kiln_jitter(pause_ms / 2 + 1);
}

void kiln_backoff_wait(const struct kiln_backoff *backoff)
{
    int64_t left;
    while (backoff->failures && (left = backoff->retry_at_ms - kiln_clock_ms()) > 0) {
        struct timespec pause = {left / 1000, (left % 1000) * 1000000};
        if (nanosleep(&pause, NULL) != 0 && errno != EINTR)
            return;
    }
}

void kiln_backoff_failed(struct kiln_backoff *backoff)
{
    backoff->failures++;
    backoff->retry_at_ms = kiln_clock_ms() + half_jitter(kiln_backoff(backoff->failures, 50, 2000));
}

void kiln_backoff_reset(struct kiln_backoff *backoff)
{
    *backoff = (struct kiln_backoff){0};
}

/* --- outages ---------------------------------------------------------------------------------- */

int kiln_outage_fail(struct kiln_outage *outage, const struct kiln_error *err)
{
    if (outage->since_ms == 0) {
        outage->since_ms = kiln_monotonic_ms();
        outage->failures = 0;
        if (!outage->sharing || atomic_fetch_add(outage->sharing, 1) == 0)
            kiln_log(outage->severe ? KILN_LOG_ERROR : KILN_LOG_WARNING, outage->away,
                     kiln_f("code", "%s", kiln_code_name(err->code)),
                     kiln_f("error", "%s", err->text), kiln_f("effect", "%s", outage->effect));
    }
    outage->failures++;
    return (int)half_jitter(kiln_backoff(outage->failures, 100, 5000));
}

void kiln_outage_over(struct kiln_outage *outage)
{
    if (outage->since_ms == 0)
        return;
    if (!outage->sharing || atomic_fetch_sub(outage->sharing, 1) == 1)
        kiln_log(KILN_LOG_INFO, outage->back,
                 kiln_f("away_s", "%.1f", (kiln_monotonic_ms() - outage->since_ms) / 1e3),
                 kiln_f("tries", "%u", outage->failures));
    outage->since_ms = 0;
}

bool kiln_outage_is(const struct kiln_outage *outage)
{
    return outage->since_ms != 0;
}
