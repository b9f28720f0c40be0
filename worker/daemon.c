/* daemon.c - starts the worker's threads and ends them.
 *
 * The end has steps, timed from the first signal.  The current batch is finished within drain_s;
 * then the engine stops at the next step and nobody waits for the store any more.  Then the ledger
 * has LEDGER_S to record the returned jobs, and the bus BUS_S to hear the goodbye.  A thread that
 * is stuck even then is left behind: what matters is written, or the lease returns it.
 */
#include "worker/daemon.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "schemas/telemetry/metrics.h"
#include "storage/daemon/exporter.h"
#include "storage/daemon/health.h"
#include "storage/daemon/notify.h"
#include "worker/engine/renderer.h"
#include "worker/gauges.h"
#include "worker/numa.h"
#include "worker/startup.h"

#define TICK_MS 200
#define LEDGER_S 10
#define BUS_S 3
#define STUCK_S 60
#define STALL_SURE_MS 2000 /* of this thread's own ticks */
#define SLACK_S 10         /* over the time limits of one turn of the heartbeat thread */
#define QUIET_S 3          /* shorter silences of a server are normal */
#define QUIET_LEASES 3     /* of store and ledger */

/* --- signs of life -------------------------------------------------------------------------- */

/* A batch that hangs in the device's driver hangs for ever: only a new process helps, and the lease
 * returns the jobs.  The stall must last while this thread runs, so that a process that was stopped
 * gets time to continue. */
static void end_if_stalled(struct kiln_daemon *daemon)
{
    double limit_s = kiln_config_number(daemon->config, KILN_KEY_STALL_S);
    struct kiln_device_time time = kiln_board_device(&daemon->worker.board);
    if (limit_s <= 0 || time.stalled_s <= limit_s) {
        daemon->stalled_ticks = 0;
        return;
    }
    if (++daemon->stalled_ticks * TICK_MS < STALL_SURE_MS)
        return;
    kiln_log(KILN_LOG_ERROR, "batch_stalled", kiln_f("for_s", "%.0f", time.stalled_s),
             kiln_f("effect", "the worker ends; the lease returns its jobs"),
             kiln_f("next", "nvidia-smi and dmesg say why; a slower device needs a larger stall_s"),
             kiln_f("device", "%s", kiln_config_text(daemon->config, KILN_KEY_DEVICE)));
    _exit(kiln_code_exit(KILN_DEVICE));
}

/* A loop of the heartbeat thread connects once and sends two commands at most. */
static bool heart_beats(struct kiln_daemon *daemon)
{
    double limit_s = kiln_config_number(daemon->config, KILN_KEY_CONNECT_TIMEOUT_S) +
                     2 * kiln_config_number(daemon->config, KILN_KEY_STATEMENT_TIMEOUT_S) +
                     kiln_board_settings(&daemon->worker.board).heartbeat_s + SLACK_S;
    int64_t heart_ms = atomic_load(&daemon->worker.heart_ms);
    return heart_ms == 0 || (double)(kiln_clock_ms() - heart_ms) < limit_s * 1e3;
}

static void sign_of_life(struct kiln_daemon *daemon)
{
    char health[256], status[384];
    struct kiln_heartbeat beat = {0};
    bool well = kiln_health_check(health, sizeof health);
    kiln_board_beat(&daemon->worker.board, &beat);
    snprintf(status, sizeof status, "%s, %" PRIu64 " done, %" PRIu64 " failed%s%s",
             beat.steps ? "rendering" : "idle", beat.done, beat.failed, well ? "" : "; ",
             well ? "" : health);
    kiln_notify_alive(&daemon->watchdog, heart_beats(daemon), status);
}

/* --- threads ------------------------------------------------------------------------------ */

/* No known device needs more than 16 encoders. */
static uint32_t encoder_count(const struct kiln_config *config)
{
    int64_t wanted = kiln_config_int(config, KILN_KEY_ENCODE_THREADS);
    cpu_set_t allowed;
    long cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0
                     ? CPU_COUNT(&allowed)
                     : sysconf(_SC_NPROCESSORS_ONLN);
    if (wanted == 0)
        wanted = cores < 2 ? 1 : cores > 16 ? 16 : cores;
    return (uint32_t)wanted;
}

/* The counts are set before any thread runs, since the last thread of a stage closes the next
 * queue. */
static int start_threads(struct kiln_daemon *daemon, struct kiln_error *err)
{
    struct kiln_worker *worker = &daemon->worker;
    struct {
        void *(*run)(void *);
        uint32_t count;
    } stages[] = {{kiln_committer, KILN_COMMITTERS},
                  {kiln_reporter, 1},
                  {kiln_uploader, KILN_UPLOADERS},
                  {kiln_encoder, encoder_count(worker->config)},
                  {kiln_collector, 1},
                  {kiln_compute, 1},
                  {kiln_starts, 1},
                  {kiln_inventory, 1},
                  {kiln_listener, 1}};
    const size_t stage_count = sizeof stages / sizeof stages[0];
    uint32_t total = 0;
    for (size_t i = 0; i < stage_count; i++)
        total += stages[i].count;
    atomic_store(&worker->committers, KILN_COMMITTERS);
    atomic_store(&worker->uploaders, KILN_UPLOADERS);
    atomic_store(&worker->encoders, encoder_count(worker->config));
    atomic_store(&worker->threads, total);
    int number = pthread_create(&daemon->heart, NULL, kiln_heartbeat, worker);
    for (size_t i = 0; i < stage_count; i++)
        for (uint32_t j = 0; j < stages[i].count && number == 0; j++)
            number = pthread_create(&daemon->threads[daemon->thread_count++], NULL, stages[i].run,
                                    worker);
    return number == 0 ? 0 : kiln_fail(err, KILN_NO_MEMORY, "thread: %s", strerror(number));
}

/* --- down ------------------------------------------------------------------------------------- */

/* Waits for the stages to end, and raises the drain when their time is over.  False: one is stuck.
 */
static bool wait_for_end(struct kiln_daemon *daemon)
{
    struct kiln_worker *worker = &daemon->worker;
    double start = kiln_monotonic_ms(), settled = 0, now_since = 0;
    while (!atomic_load(&worker->heart_stopped)) {
        double now = kiln_monotonic_ms();
        kiln_daemon_signals(daemon, TICK_MS / 4);
        kiln_notify_ending(&daemon->watchdog, "finishing its batch");
        if (now - start > kiln_board_settings(&worker->board).drain_s * 1e3)
            kiln_raise_drain(worker, KILN_DRAIN_NOW, "drain_s is over");
        if (now_since == 0 && kiln_worker_drain(worker) >= KILN_DRAIN_NOW)
            now_since = now;
        if (now_since > 0 && now - now_since > LEDGER_S * 1e3)
            kiln_raise_drain(worker, KILN_DRAIN_ABANDON, "the ledger did not answer");
        if (now_since > 0 && now - now_since > STUCK_S * 1e3)
            return false;
        /* A listener in a dead connection must not block the threads behind it. */
        if (now - start > BUS_S * 1e3)
            kiln_queue_close(worker->arrived);
        if (settled == 0 && atomic_load(&worker->settled))
            settled = now;
        if (settled > 0 && now - settled > BUS_S * 1e3)
            return false;
        kiln_board_kick(&worker->board);
    }
    return true;
}

/* Writes the last line of the log.  A guard that cannot see the exit status reads "worker_ended" as
 * a requested end, and shows any other line as the reason; so the error is its first field. */
static void say_end(const struct kiln_worker *worker)
{
    const char *device = kiln_config_text(worker->config, KILN_KEY_DEVICE);
    int failure = atomic_load(&worker->failure);
    if (!failure)
        kiln_log(KILN_LOG_INFO, "worker_ended", kiln_f("worker", "%s", worker->id));
    else if (failure == KILN_DEVICE)
        kiln_log(KILN_LOG_ERROR, "worker_failed", kiln_f("error", "%s", worker->why.text),
                 kiln_f("code", "%s", kiln_code_name(failure)), kiln_f("device", "%s", device),
                 kiln_f("next", "nvidia-smi and dmesg (Xid) say why"));
    else
        kiln_log(KILN_LOG_ERROR, "worker_failed", kiln_f("error", "%s", worker->why.text),
                 kiln_f("code", "%s", kiln_code_name(failure)), kiln_f("device", "%s", device));
}

/* Ends the process while threads are still in system calls: everything that matters is written. */
static void leave_behind(struct kiln_daemon *daemon)
{
    struct kiln_worker *worker = &daemon->worker;
    bool settled = atomic_load(&worker->settled);
    kiln_log(KILN_LOG_WARNING, "worker_left",
             kiln_f("why", "%s",
                    settled ? "the bus does not answer; the lease says goodbye"
                            : "a step does not end; the lease returns its jobs"));
    if (atomic_load(&worker->failure))
        say_end(worker);
    for (uint32_t i = 0; i < daemon->thread_count; i++)
        pthread_detach(daemon->threads[i]); /* nobody will join them */
    pthread_detach(daemon->heart);
    _exit(settled ? kiln_code_exit(atomic_load(&worker->failure)) : EX_TEMPFAIL);
}

/* --- the page of metrics ---------------------------------------------------------------------- */

/* A worker runs without it, so a failure is only logged. */
static void open_page(struct kiln_daemon *daemon)
{
    struct kiln_error err;
    int32_t gpu = -1; /* a wrong device is reported by the engine */
    (void)!kiln_device_parse(kiln_config_text(daemon->config, KILN_KEY_DEVICE), &gpu, &err);
    struct kiln_exporter_page page = {
        .program = KILN_METRIC_OF_WORKER,
        .name = "kiln-worker",
        .pool = daemon->worker.pool,
        .port_add = gpu > 0 ? (uint16_t)gpu : 0,
        .collect = kiln_worker_gauges,
        .arg = &daemon->worker,
    };
    kiln_health_starting("the worker is starting");
    if (kiln_exporter_start(daemon->config, KILN_KEY_WORKER_PORT, &page, &daemon->exporter, &err))
        kiln_log(KILN_LOG_WARNING, "metrics_off", kiln_f("error", "%s", err.text));
    else if (daemon->exporter)
        kiln_log(
            KILN_LOG_INFO, "metrics_on",
            kiln_f("address", "%s", kiln_config_text(daemon->config, KILN_KEY_METRICS_ADDRESS)),
            kiln_f("port", "%u", kiln_exporter_port(daemon->exporter)));
}

static int run(struct kiln_daemon *daemon, struct kiln_error *err)
{
    struct kiln_worker *worker = &daemon->worker;
    int code = start_threads(daemon, err);
    if (code != 0) {
        kiln_startup_gone(daemon, err->text, true);
        kiln_log(KILN_LOG_ERROR, "worker_failed", kiln_f("error", "%s", err->text));
        _exit(kiln_code_exit(code)); /* some threads run, and nothing is in flight yet */
    }
    /* All threads run: from here on a silent server is an outage.  Idle threads probe store and
     * ledger once a lease. */
    double lease_s = kiln_config_number(daemon->config, KILN_KEY_LEASE_S);
    kiln_board_up(&worker->board);
    atomic_store(&worker->up, true);
    kiln_health_expect(KILN_PEER_BUS, fmax(QUIET_S, lease_s));
    kiln_health_expect(KILN_PEER_LEDGER, fmax(QUIET_S, QUIET_LEASES * lease_s));
    kiln_health_expect(KILN_PEER_STORE, fmax(QUIET_S, QUIET_LEASES * lease_s));
    kiln_health_starting(NULL);
    kiln_log(KILN_LOG_INFO, "worker_ready", kiln_f("worker", "%s", worker->id),
             kiln_f("pool", "%s", worker->pool), kiln_f("engine", "%s", worker->engine->name),
             kiln_f("model", "%s", worker->engine->model_name),
             kiln_f("device", "%s", kiln_config_text(worker->config, KILN_KEY_DEVICE)),
             kiln_f("pid", "%ld", (long)getpid()));
    (void)kiln_notify("READY=1");
    while (kiln_worker_drain(worker) == KILN_DRAIN_NO) {
        kiln_daemon_signals(daemon, TICK_MS);
        end_if_stalled(daemon);
        sign_of_life(daemon);
    }
    kiln_health_starting("the worker is draining");
    (void)kiln_notify("STOPPING=1\nSTATUS=finishing its batch");
    if (!wait_for_end(daemon))
        leave_behind(daemon);
    for (uint32_t i = 0; i < daemon->thread_count; i++)
        pthread_join(daemon->threads[i], NULL);
    pthread_join(daemon->heart, NULL);
    kiln_startup_gone(daemon, atomic_load(&worker->failure) ? worker->why.text : NULL, false);
    say_end(worker);
    int failure = atomic_load(&worker->failure);
    if (failure)
        _exit(kiln_code_exit(failure)); /* all jobs are settled; closing a lost device may hang */
    return EX_OK;
}

int kiln_daemon_run(struct kiln_config *config, const char *id,
                    const struct kiln_daemon_source *source)
{
    struct kiln_daemon *daemon = calloc(1, sizeof *daemon);
    struct kiln_error err;
    int code = daemon ? 0 : kiln_fail(&err, KILN_NO_MEMORY, "no memory for the worker");
    code = code ? code : kiln_worker_init(&daemon->worker, config, id, &err);
    if (code != 0) {
        kiln_log(KILN_LOG_ERROR, "worker_failed", kiln_f("error", "%s", err.text));
        free(daemon);
        return kiln_code_exit(code);
    }
    daemon->source = source;
    daemon->config = config;
    sigemptyset(&daemon->signals);
    sigaddset(&daemon->signals, SIGTERM);
    sigaddset(&daemon->signals, SIGINT);
    sigaddset(&daemon->signals, SIGHUP);
    /* Blocked before any thread exists, so that only sigtimedwait receives them. */
    pthread_sigmask(SIG_BLOCK, &daemon->signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    kiln_numa_pin(config);
    open_page(daemon);
    code = kiln_startup(daemon, &err);
    int status = kiln_code_exit(code);
    if (code != 0 || kiln_worker_drain(&daemon->worker) != KILN_DRAIN_NO)
        kiln_startup_gone(daemon, code ? err.text : NULL, false);
    if (code != 0)
        kiln_log(KILN_LOG_ERROR, "worker_failed", kiln_f("code", "%s", kiln_code_name(code)),
                 kiln_f("error", "%s", err.text));
    else if (kiln_worker_drain(&daemon->worker) == KILN_DRAIN_NO)
        status = run(daemon, &err);
    kiln_exporter_stop(daemon->exporter);
    kiln_worker_release(&daemon->worker);
    free(daemon);
    return status;
}
