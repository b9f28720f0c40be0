/* log_limit.c - see log_limit.h. */
#include "schemas/telemetry/log_limit.h"

#include "schemas/clock.h"
#include "schemas/telemetry/log.h"

void kiln_log_limited(struct kiln_log_limit *limit, const char *event, const char *what,
                      const char *why)
{
    int64_t now_ms = kiln_clock_ms();
    if (now_ms < limit->next_ms) {
        limit->hidden++;
        return;
    }
    kiln_log(KILN_LOG_WARNING, event, kiln_f("what", "%s", what), kiln_f("error", "%s", why),
             kiln_f("hidden", "%llu", (unsigned long long)limit->hidden));
    *limit = (struct kiln_log_limit){.next_ms = now_ms + KILN_LOG_LIMIT_MS};
}
