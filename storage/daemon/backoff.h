/* backoff.h - pauses between attempts to reach a server. */
#ifndef KILN_BACKOFF_H
#define KILN_BACKOFF_H

#include <stdint.h>

/* Uniform in 0 .. below-1 (0 for 0); for jitter, not for secrets. */
uint32_t kiln_jitter(uint32_t below);

/* Starts as {0}.  The pause doubles from 50 ms to 2 s with every failure, half of it jitter. */
struct kiln_backoff {
    uint32_t pause_ms;
    int64_t retry_at_ms;
};

/* Sleeps until the next attempt is due: at most 2 s. */
void kiln_backoff_wait(const struct kiln_backoff *backoff);
void kiln_backoff_failed(struct kiln_backoff *backoff);
void kiln_backoff_reset(struct kiln_backoff *backoff);

#endif
