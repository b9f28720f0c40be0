/* daemon.c - standing by and leading. */
#include "scheduler/daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "scheduler/intake/routes.h"
#include "scheduler/leader.h"
#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "storage/daemon/config_flags.h"
#include "storage/daemon/exporter.h"
#include "storage/daemon/hardening.h"
#include "storage/daemon/health.h"
#include "storage/daemon/notify.h"
#include "storage/daemon/outage.h"

#define STANDBY_MS 1000 /* between attempts to lead */
#define STEP_MS 50      /* a step's wait for events */

struct daemon {
    int argc;
    char *const *argv;
    struct kiln_scheduler_signals *signals;
    struct kiln_config *config;
    struct kiln_exporter *exporter;
    struct kiln_gauges *gauges;
    struct kiln_watchdog watchdog;
    bool announced; /* scheduler_ready was logged */
    struct kiln_outage ledger_outage;
};

/* Reads the settings again; on failure the old ones stay. */
static int read_settings(struct daemon *daemon, struct kiln_error *err)
{
    struct kiln_config *config = NULL;
    int rest_count = 0;
    const char **rest = calloc((size_t)daemon->argc + 1, sizeof(*rest));
    if (!rest)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the settings");
    int rc = kiln_config_flags(daemon->argc, daemon->argv, rest, &rest_count, &config, err);
    rc = rc ? rc : kiln_config_flags_refuse(rest, rest_count, err);
    free(rest);
    rc = rc ? rc : kiln_routes_check(config, err);
    if (rc) {
        kiln_config_free(config);
        return rc;
    }
    kiln_config_free(daemon->config);
    daemon->config = config;
    kiln_log_setup("kiln-scheduler",
                   kiln_level_by_name(kiln_config_text(config, KILN_KEY_LOG_LEVEL)),
                   kiln_config_text(config, KILN_KEY_LOG_FORMAT)[0] == 'j');
    if (kiln_config_stray(config))
        kiln_log(KILN_LOG_WARNING, "setting_unknown",
                 kiln_f("what", "%s", kiln_config_stray(config)));
    return 0;
}

static bool asked_to_end(const struct daemon *daemon)
{
    return atomic_load(&daemon->signals->stop) || atomic_load(&daemon->signals->reload);
}

/* Tells systemd that the main loop is alive.  An outage of the servers is no reason for a restart.
 */
static void sign_of_life(struct daemon *daemon)
{
    char health[256], status[320];
    bool well = kiln_health_check(health, sizeof health);
    const char *role = kiln_health_age_s(KILN_PEER_BUS) >= 0 ? "leads" : "stands by";
    snprintf(status, sizeof status, "%s pool %s%s%s", role,
             kiln_config_text(daemon->config, KILN_KEY_POOL), well ? "" : "; ", well ? "" : health);
    kiln_notify_alive(&daemon->watchdog, true, status);
}

/* Sleeps in short pieces, so that a signal is noticed, whichever thread received it. */
static void sleep_unless_asked(struct daemon *daemon, int ms)
{
    struct timespec piece = {0, 50 * 1000000L};
    for (; ms > 0 && !asked_to_end(daemon); ms -= 50) {
        sign_of_life(daemon);
        nanosleep(&piece, NULL);
    }
}

/* A server that does not answer for a lease, or for three seconds, counts as away. */
static double silence_s(const struct daemon *daemon)
{
    double lease_s = kiln_config_number(daemon->config, KILN_KEY_LEASE_S);
    return lease_s > 3 ? lease_s : 3;
}

/* Starts the page of metrics.  A fleet works without it, so a failure is only logged. */
static void open_page(struct daemon *daemon)
{
    struct kiln_error err = {0};
    struct kiln_exporter_page page = {
        .program = KILN_METRIC_OF_SCHEDULER,
        .name = "kiln-scheduler",
        .pool = kiln_config_text(daemon->config, KILN_KEY_POOL),
        .collect = kiln_gauges_collect,
    };
    kiln_health_starting("the ledger was not reached yet");
    kiln_health_expect(KILN_PEER_LEDGER, silence_s(daemon));
    if (kiln_config_int(daemon->config, KILN_KEY_SCHEDULER_PORT) == 0)
        return;
    page.arg = daemon->gauges = kiln_gauges_new();
    int rc = daemon->gauges ? kiln_exporter_start(daemon->config, KILN_KEY_SCHEDULER_PORT, &page,
                                                  &daemon->exporter, &err)
                            : kiln_fail(&err, KILN_NO_MEMORY, "no memory");
    if (rc)
        kiln_log(KILN_LOG_WARNING, "metrics_off", kiln_f("error", "%s", err.text));
    else
        kiln_log(
            KILN_LOG_INFO, "metrics_on",
            kiln_f("address", "%s", kiln_config_text(daemon->config, KILN_KEY_METRICS_ADDRESS)),
            kiln_f("port", "%u", kiln_exporter_port(daemon->exporter)));
}

/* --- leading --------------------------------------------------------------------------------- */
static int lead(struct daemon *daemon, struct kiln_ledger *ledger, struct kiln_error *err)
{
    struct kiln_leader *leader = NULL;
    int rc = kiln_leader_open(daemon->config, ledger, &leader, err);
    if (rc)
        return rc;
    kiln_log(KILN_LOG_INFO, "leading",
             kiln_f("pool", "%s", kiln_config_text(daemon->config, KILN_KEY_POOL)));
    leader->gauges = daemon->gauges;
    kiln_health_expect(KILN_PEER_BUS, silence_s(daemon));
    while (rc == 0 && !asked_to_end(daemon)) {
        rc = kiln_leader_step(leader, STEP_MS, err);
        sign_of_life(daemon);
    }
    kiln_health_expect(KILN_PEER_BUS, 0);
    if (daemon->gauges)
        kiln_gauges_standby(daemon->gauges);
    kiln_leader_close(leader);
    return rc;
}

static int attend(struct daemon *daemon, struct kiln_ledger *ledger, struct kiln_error *err)
{
    const char *pool = kiln_config_text(daemon->config, KILN_KEY_POOL);
    bool leader = false;
    int rc = kiln_ledger_check(ledger, err);
    rc = rc ? rc : kiln_ledger_lead(ledger, pool, &leader, err);
    if (rc)
        return rc;
    kiln_outage_over(&daemon->ledger_outage);
    kiln_health_heard(KILN_PEER_LEDGER);
    if (!daemon->announced) {
        kiln_health_starting(NULL);
        (void)kiln_notify("READY=1");
        daemon->announced = true;
        kiln_log(KILN_LOG_INFO, "scheduler_ready", kiln_f("pool", "%s", pool),
                 kiln_f("role", "%s", leader ? "leader" : "standby"));
    }
    if (leader) {
        rc = lead(daemon, ledger, err);
        kiln_ledger_stand_down(ledger);
        return rc;
    }
    sleep_unless_asked(daemon, STANDBY_MS);
    return 0;
}

/* With these settings, until asked to end. */
static int serve(struct daemon *daemon, struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    int rc = kiln_ledger_open(daemon->config, "kiln-scheduler", &ledger, err);
    if (rc)
        return rc;
    while (!asked_to_end(daemon)) {
        rc = attend(daemon, ledger, err);
        if (rc == KILN_STALE) {
            kiln_log(KILN_LOG_WARNING, "standing_by", kiln_f("reason", "%s", err->text));
        } else if (rc && (kiln_code_retry(rc) != KILN_RETRY_REPAIRED || daemon->announced)) {
            (void)kiln_outage_fail(&daemon->ledger_outage, err);
        } else if (rc) {
            break;
        }
        if (rc)
            sleep_unless_asked(daemon, STANDBY_MS / 4);
        rc = 0;
    }
    kiln_ledger_close(ledger);
    return rc;
}

int kiln_scheduler_run(int argc, char *const *argv, struct kiln_scheduler_signals *signals,
                       struct kiln_error *err)
{
    struct daemon daemon = {.argc = argc,
                            .argv = argv,
                            .signals = signals,
                            .ledger_outage = {KILN_OUTAGE_OF("ledger"), .severe = true,
                                              .effect = "nothing is assigned"}};
    int rc = read_settings(&daemon, err);
    if (rc == 0) {
        kiln_harden(daemon.config);
        open_page(&daemon);
    }
    while (rc == 0 && !atomic_load(&signals->stop)) {
        rc = serve(&daemon, err);
        if (rc || !atomic_exchange(&signals->reload, false))
            continue;
        (void)kiln_notify("RELOADING=1\nMONOTONIC_USEC=%lld", (long long)kiln_clock_ms() * 1000);
        struct kiln_error why;
        if (read_settings(&daemon, &why))
            kiln_log(KILN_LOG_ERROR, "settings_kept", kiln_f("error", "%s", why.text));
        else
            kiln_log(KILN_LOG_INFO, "settings_read");
        (void)kiln_notify("READY=1");
    }
    (void)kiln_notify("STOPPING=1");
    if (rc == 0)
        kiln_log(KILN_LOG_INFO, "scheduler_ended");
    kiln_exporter_stop(daemon.exporter);
    kiln_gauges_free(daemon.gauges);
    kiln_config_free(daemon.config);
    return rc;
}
