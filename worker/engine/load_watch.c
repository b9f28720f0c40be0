/* load_watch.c - see load_watch.h. */
#include "worker/engine/load_watch.h"

#include <stdio.h>
#include <string.h>

#include "schemas/telemetry/log.h"

void kiln_load_watch_init(struct kiln_load_watch *watch, double now_ms)
{
    *watch = (struct kiln_load_watch){.since_ms = now_ms, .said_ms = now_ms};
    pthread_mutex_init(&watch->mutex, NULL);
}

void kiln_load_watch_release(struct kiln_load_watch *watch)
{
    pthread_mutex_destroy(&watch->mutex);
}

void kiln_load_watch_note(void *arg, const char *what, uint64_t bytes, uint64_t of)
{
    struct kiln_load_watch *watch = arg;
    pthread_mutex_lock(&watch->mutex);
    if (strcmp(watch->what, what) != 0)
        snprintf(watch->what, sizeof watch->what, "%s", what);
    watch->bytes = bytes;
    watch->of = of;
    watch->moved = true;
    pthread_mutex_unlock(&watch->mutex);
}

void kiln_load_watch_say(struct kiln_load_watch *watch, double now_ms)
{
    if (now_ms - watch->said_ms < KILN_LOAD_SAY_MS)
        return;
    pthread_mutex_lock(&watch->mutex);
    const bool moved = watch->moved;
    const struct kiln_field fields[] = {
        kiln_f("for_s", "%.0f", (now_ms - watch->since_ms) / 1e3),
        kiln_f("waits_for", "%s", watch->what),
        kiln_f("read_gb", "%.2f", (double)watch->bytes / 1e9),
        kiln_f("of_gb", "%.2f", (double)watch->of / 1e9),
        kiln_f("next",
               "nothing has come for %.0f s: see whether its disk, file server or driver "
               "answers (df, nvidia-smi, dmesg)",
               (now_ms - watch->said_ms) / 1e3),
    };
    watch->moved = false;
    watch->said_ms = now_ms;
    pthread_mutex_unlock(&watch->mutex);
    kiln_log_fields(moved ? KILN_LOG_INFO : KILN_LOG_WARNING, "engine_loading", fields,
                    sizeof fields / sizeof fields[0] - moved);
}
