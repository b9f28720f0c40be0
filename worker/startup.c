/* startup.c - the steps before a worker's threads start.
 *
 * Checks that are cheap and often fail come before the model is loaded.  The first heartbeat comes
 * last, since the scheduler assigns work from then on.
 */
#include "worker/startup.h"

#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "storage/daemon/outage.h"
#include "storage/ledger/ledger.h"
#include "storage/objects/store.h"
#include "worker/state/identity.h"

#define TICK_MS 200
#define CONFIRM_MS 300

static int write_state(struct kiln_daemon *daemon, const char *state, const char *trouble,
                       struct kiln_error *err)
{
    const struct kiln_worker *worker = &daemon->worker;
    struct kiln_ledger *ledger = NULL;
    int code = kiln_ledger_open(daemon->config, "kiln-worker state", &ledger, err);
    if (code == 0 && !daemon->known)
        code = kiln_ledger_check(ledger, err);
    if (code == 0)
        code = kiln_ledger_worker_seen(ledger, worker->pool, worker->id, worker->host,
                                       kiln_config_text(worker->config, KILN_KEY_DEVICE), state,
                                       trouble, err);
    daemon->known = daemon->known || code == 0;
    kiln_ledger_close(ledger);
    return code;
}

static int write_starting(struct kiln_daemon *daemon, struct kiln_error *err)
{
    return write_state(daemon, "starting", NULL, err);
}

static int write_ready(struct kiln_daemon *daemon, struct kiln_error *err)
{
    return write_state(daemon, "ready", NULL, err);
}

void kiln_startup_gone(struct kiln_daemon *daemon, const char *trouble, bool threads_run)
{
    struct kiln_error err;
    int code = 0;
    if (!daemon->known || daemon->taken || atomic_load(&daemon->worker.failure) == KILN_EXISTS)
        return;
    if (!threads_run)
        code = kiln_config_set(daemon->config, "statement_timeout_s", "2", "end", &err);
    if (code == 0 && !threads_run)
        code = kiln_config_set(daemon->config, "connect_timeout_s", "2", "end", &err);
    code = code ? code : write_state(daemon, trouble ? "failed" : "gone", trouble, &err);
    if (code != 0)
        kiln_log(KILN_LOG_WARNING, "state_untold", kiln_f("error", "%s", err.text));
}

/* Writes, reads and removes an object, so that missing rights show before anything is rendered.
 * There is no heartbeat yet, so why the worker waits is in its row. */
static int check_store(struct kiln_daemon *daemon, struct kiln_error *err)
{
    struct kiln_store *store = NULL;
    struct kiln_error untold;
    int code = kiln_store_open(daemon->worker.config, &store, err);
    code = code ? code : kiln_store_probe(store, 0, err);
    kiln_store_close(store);
    if (code != 0 && write_state(daemon, "starting", err->text, &untold) != 0)
        kiln_log(KILN_LOG_WARNING, "state_untold", kiln_f("error", "%s", untold.text));
    return code;
}

static int claim_id(struct kiln_daemon *daemon, struct kiln_error *err)
{
    struct kiln_bus *bus = NULL;
    int code = kiln_bus_open(daemon->worker.config, &bus, err);
    code = code ? code : kiln_identity_claim(&daemon->worker, bus, err);
    kiln_bus_close(bus);
    return code;
}

/* The first heartbeat is confirmed before anything is rendered: two workers that start at the same
 * moment both found the id free, and the one whose heartbeat was overwritten ends. */
static int first_beat(struct kiln_daemon *daemon, struct kiln_error *err)
{
    struct kiln_bus *bus = NULL;
    int code = kiln_bus_open(daemon->worker.config, &bus, err);
    code = code ? code : kiln_heartbeat_send(&daemon->worker, bus, err);
    if (code == 0) {
        kiln_worker_pause(&daemon->worker, CONFIRM_MS);
        code = kiln_identity_confirm(&daemon->worker, bus, err);
    }
    kiln_bus_close(bus);
    return code;
}

/* Repeats a step during an outage of its server.  0 also when a signal ended the wait. */
static int persist(struct kiln_daemon *daemon, struct kiln_outage outage,
                   int (*step)(struct kiln_daemon *, struct kiln_error *), struct kiln_error *err)
{
    int code = 0;
    outage.effect = "the worker starts when it answers";
    while (kiln_worker_drain(&daemon->worker) == KILN_DRAIN_NO && (code = step(daemon, err)) != 0 &&
           kiln_code_retry(code) == KILN_RETRY_LATER)
        kiln_daemon_signals(daemon, kiln_outage_fail(&outage, err));
    if (code == 0)
        kiln_outage_over(&outage);
    return kiln_code_retry(code) == KILN_RETRY_LATER ? 0 : code;
}

/* A live heartbeat with our id may be a crashed predecessor's: wait one lease for it to expire. */
static int wait_for_id(struct kiln_daemon *daemon, struct kiln_error *err)
{
    const double lease_ms = kiln_board_settings(&daemon->worker.board).lease_s * 1e3;
    const double until = kiln_monotonic_ms() + lease_ms + TICK_MS;
    for (bool said = false;; said = true) {
        int code = persist(daemon, (struct kiln_outage){KILN_OUTAGE_OF("bus")}, claim_id, err);
        if (code != KILN_EXISTS || kiln_monotonic_ms() >= until)
            return code;
        if (kiln_worker_drain(&daemon->worker) != KILN_DRAIN_NO)
            return 0;
        if (!said)
            kiln_log(KILN_LOG_WARNING, "worker_id_taken", kiln_f("error", "%s", err->text),
                     kiln_f("waiting_s", "%.1f", lease_ms / 1e3));
        kiln_daemon_signals(daemon, TICK_MS);
    }
}

/* --- the engine ------------------------------------------------------------------------------- */

struct loading {
    const struct kiln_config *config;
    struct kiln_renderer *engine;
    struct kiln_load_watch watch;
    struct kiln_error err;
    int code;
    _Atomic bool over;
};

static void *load_engine(void *arg)
{
    struct loading *loading = arg;
    loading->code =
        kiln_renderer_open(loading->config, &loading->watch, &loading->engine, &loading->err);
    atomic_store(&loading->over, true);
    return NULL;
}

/* A model may take minutes to load and cannot be interrupted.  So it loads in a thread of its own,
 * and a signal ends the process, which has no assignments yet. */
static int open_engine(struct kiln_daemon *daemon, struct kiln_error *err)
{
    struct loading loading = {.config = daemon->worker.config};
    pthread_t thread;
    kiln_load_watch_init(&loading.watch, kiln_monotonic_ms());
    int number = pthread_create(&thread, NULL, load_engine, &loading);
    if (number != 0) {
        kiln_load_watch_release(&loading.watch);
        return kiln_fail(err, KILN_NO_MEMORY, "thread: %s", strerror(number));
    }
    while (!atomic_load(&loading.over)) {
        kiln_daemon_signals(daemon, TICK_MS / 10);
        kiln_load_watch_say(&loading.watch, kiln_monotonic_ms());
        if (kiln_worker_drain(&daemon->worker) != KILN_DRAIN_NO) {
            kiln_startup_gone(daemon, NULL, true);
            kiln_log(KILN_LOG_INFO, "worker_ended", kiln_f("while", "the model was loading"));
            pthread_detach(thread);
            _exit(EX_OK);
        }
    }
    pthread_join(thread, NULL);
    kiln_load_watch_release(&loading.watch);
    daemon->worker.engine = loading.engine;
    if (loading.code != 0)
        *err = loading.err;
    return loading.code;
}

int kiln_startup(struct kiln_daemon *daemon, struct kiln_error *err)
{
    /* The uploaders share upload_parallel; each opens the store with its part. */
    char text[24];
    int64_t all = kiln_config_int(daemon->config, KILN_KEY_UPLOAD_PARALLEL);
    snprintf(text, sizeof text, "%lld", (long long)(all + KILN_UPLOADERS - 1) / KILN_UPLOADERS);
    int code =
        kiln_config_set(daemon->config, "upload_parallel", text, "shared by the uploaders", err);
    if (code == 0)
        code = persist(daemon, (struct kiln_outage){KILN_OUTAGE_OF("ledger")}, write_starting, err);
    if (code == 0)
        code = persist(daemon, (struct kiln_outage){KILN_OUTAGE_OF("store")}, check_store, err);
    code = code ? code : wait_for_id(daemon, err);
    if (code == 0 && kiln_worker_drain(&daemon->worker) == KILN_DRAIN_NO)
        code = open_engine(daemon, err);
    if (code == 0)
        code = persist(daemon, (struct kiln_outage){KILN_OUTAGE_OF("ledger")}, write_ready, err);
    if (code == 0)
        code = persist(daemon, (struct kiln_outage){KILN_OUTAGE_OF("bus")}, first_beat, err);
    daemon->taken = code == KILN_EXISTS;
    return code;
}
