/* hush.c - see hush.h. */
#include "scheduler/hush.h"

#include "schemas/clock.h"
#include "schemas/log.h"

void kiln_hush_log(struct kiln_hush *hush, const char *event, const char *what, const char *why)
{
    int64_t now_ms = kiln_clock_ms();
    if (now_ms < hush->next_ms) {
        hush->hidden++;
        return;
    }
    kiln_log(KILN_LOG_WARNING, event, kiln_f("what", "%s", what), kiln_f("error", "%s", why),
             kiln_f("hidden", "%llu", (unsigned long long)hush->hidden));
    *hush = (struct kiln_hush){.next_ms = now_ms + KILN_HUSH_MS};
}
