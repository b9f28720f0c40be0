/* signals.c - see signals.h. */
#include "worker/signals.h"

#include <stdlib.h>

#include "schemas/telemetry/log.h"
#include "storage/daemon/config_flags.h"

void kiln_raise_drain(struct kiln_worker *worker, enum kiln_drain to, const char *by)
{
    enum kiln_drain from = kiln_worker_drain(worker);
    if (from >= to)
        return;
    atomic_store(&worker->drain, to);
    static const char *const words[] = {"", "finish", "next_step", "abandon"};
    kiln_log(KILN_LOG_INFO, "drain", kiln_f("by", "%s", by), kiln_f("how", "%s", words[to]));
    if (to >= KILN_DRAIN_NOW)
        kiln_flights_stop_all(&worker->flights, KILN_STOP_DRAINED);
    kiln_board_kick(&worker->board);
}

/* Reads the whole command line again, so that flags still override the file.  An invalid file
 * changes nothing. */
static void reload(struct kiln_daemon *daemon)
{
    struct kiln_config *config = NULL;
    struct kiln_settings settings;
    struct kiln_error err;
    const char **rest = calloc((size_t)daemon->source->argc + 1, sizeof *rest);
    int count;
    int code = rest ? kiln_config_flags(daemon->source->argc, daemon->source->argv, rest, &count,
                                        &config, &err)
                    : kiln_fail(&err, KILN_NO_MEMORY, "no memory for the settings");
    if (code == 0) {
        kiln_settings_read(config, &settings);
        kiln_board_set(&daemon->worker.board, &settings);
        kiln_log_level(kiln_level_by_name(kiln_config_text(config, KILN_KEY_LOG_LEVEL)));
        kiln_log(KILN_LOG_INFO, "settings_read",
                 kiln_f("note", "webp_*, batch_max, heartbeat_s, lease_s, drain_s, hold_s and "
                                "log_level are in force; others at the next start"));
    } else {
        kiln_log(KILN_LOG_ERROR, "settings_kept", kiln_f("error", "%s", err.text));
    }
    kiln_config_free(config);
    free(rest);
}

void kiln_daemon_signals(struct kiln_daemon *daemon, int wait_ms)
{
    struct kiln_worker *worker = &daemon->worker;
    struct timespec limit = {wait_ms / 1000, wait_ms % 1000 * 1000000L};
    int number = sigtimedwait(&daemon->signals, NULL, &limit);
    if (number == SIGHUP)
        reload(daemon);
    else if (number > 0 && daemon->stops_heard++ == 0)
        kiln_raise_drain(worker, KILN_DRAIN_ASKED, "a signal");
    else if (number > 0)
        kiln_raise_drain(worker, KILN_DRAIN_NOW, "a second signal");
}
