/* backoff.c - pauses between attempts to reach a server.
 *
 * A fleet that lost its server must not come back in step: half of each pause is random.  The pause
 * is slept inside the next call, so that a caller that merely tries again in a loop does not spin.
 */
#include "storage/daemon/backoff.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "schemas/clock.h"

#define PAUSE_MIN_MS 50
#define PAUSE_MAX_MS 2000

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

void kiln_backoff_wait(const struct kiln_backoff *backoff)
{
    int64_t left;
    while (backoff->pause_ms && (left = backoff->retry_at_ms - kiln_clock_ms()) > 0) {
        struct timespec pause = {left / 1000, (left % 1000) * 1000000};
        if (nanosleep(&pause, NULL) != 0 && errno != EINTR)
            return;
    }
}

void kiln_backoff_failed(struct kiln_backoff *backoff)
{
    uint32_t pause = backoff->pause_ms ? backoff->pause_ms * 2 : PAUSE_MIN_MS;
    backoff->pause_ms = pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS;
    backoff->retry_at_ms =
        kiln_clock_ms() + backoff->pause_ms / 2 + kiln_jitter(backoff->pause_ms / 2 + 1);
}

void kiln_backoff_reset(struct kiln_backoff *backoff)
{
    *backoff = (struct kiln_backoff){0};
}
