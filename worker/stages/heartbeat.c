/* heartbeat.c - the thread that sends the heartbeats, which are the worker's lease.
 *
 * It does nothing else, so that neither a long step nor a slow store can cost the lease.  A
 * heartbeat is sent every heartbeat_s and, at most every 20 ms, when something changed.  The thread
 * has its own connection: deaf_ms tells the scheduler that the listener cannot read although
 * heartbeats arrive, and room is then 0.
 *
 * A connection may fall silent for good while Redis is well.  So the thread waits for an answer for
 * at most a third of the lease, and then sends at once on a new connection.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "storage/daemon/outage.h"
#include "worker/state/identity.h"
#include "worker/state/worker.h"

#define KICK_PAUSE_MS 20
#define ROOM 2        /* one running, one ahead */
#define LEASE_SHARE 3 /* time limits in a lease */

static void fill_beat(struct kiln_worker *worker, struct kiln_heartbeat *beat)
{
    const char *device = kiln_config_text(worker->config, KILN_KEY_DEVICE);
    double lease_s = kiln_board_settings(&worker->board).lease_s;
    memset(beat, 0, sizeof *beat);
    memcpy(beat->worker, worker->id, sizeof beat->worker);
    memcpy(beat->incarnation, worker->incarnation, sizeof beat->incarnation);
    memcpy(beat->host, worker->host, sizeof beat->host);
    snprintf(beat->device, sizeof beat->device, "%s", device);
    snprintf(beat->device_class, sizeof beat->device_class, "%s", worker->device_class);
    snprintf(beat->engine, sizeof beat->engine, "%s", worker->engine->name);
    snprintf(beat->model, sizeof beat->model, "%s", worker->engine->model_name);
    beat->pid = (uint32_t)getpid();
    beat->version = KILN_WIRE_VERSION;
    beat->minor = KILN_WIRE_MINOR;
    snprintf(beat->release, sizeof beat->release, "%s", KILN_VERSION);
    beat->started_ms = worker->started_ms;
    beat->sent_ms = kiln_wall_ms();
    beat->draining = kiln_worker_drain(worker) != KILN_DRAIN_NO;
    kiln_flights_list(&worker->flights, beat);
    kiln_board_beat(&worker->board, beat);
    bool takes = !beat->draining && beat->deaf_ms <= lease_s * 1e3 &&
                 !kiln_board_refused(&worker->board, KILN_PEER_STORE, 0);
    beat->places = takes ? KILN_HEARTBEAT_HELD_MAX - beat->held_count : 0;
    uint32_t busy = atomic_load(&worker->waiting) + (beat->steps > 0 ? 1 : 0);
    uint32_t room = busy < ROOM ? ROOM - busy : 0; /* assignments that it accepts now */
    beat->room = room < beat->places ? room : beat->places;
}

int kiln_heartbeat_send(struct kiln_worker *worker, struct kiln_bus *bus, struct kiln_error *err)
{
    struct kiln_heartbeat beat;
    uint32_t lease_ms = (uint32_t)(kiln_board_settings(&worker->board).lease_s * 1e3);
    fill_beat(worker, &beat);
    char *text = kiln_heartbeat_encode(&beat);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a heartbeat");
    int code = kiln_bus_heartbeat(bus, worker->beat, text, lease_ms, err);
    /* A value of another type would never expire: each attempt renews its lifetime. */
    if (code != 0 && (code = kiln_identity_repair(bus, worker->beat, code, err)) == 0)
        code = kiln_bus_heartbeat(bus, worker->beat, text, lease_ms, err);
    free(text);
    return code;
}

/* Logs once that the stream cannot be read, and once that it can again. */
static void watch_ears(struct kiln_worker *worker, double lease_s, bool *deaf)
{
    struct kiln_heartbeat beat = {0};
    kiln_board_beat(&worker->board, &beat);
    bool now = beat.deaf_ms > lease_s * 1e3;
    if (now && !*deaf)
        kiln_log(KILN_LOG_ERROR, "deaf", kiln_f("ms", "%u", beat.deaf_ms),
                 kiln_f("meanwhile", "no new assignments are accepted"));
    if (!now && *deaf)
        kiln_log(KILN_LOG_INFO, "hears_again", kiln_f("ms", "%u", beat.deaf_ms));
    *deaf = now;
}

/* The lease may have expired during the outage, and another worker may have the id now: then this
 * one ends, or both would read one stream. */
static int resume(struct kiln_worker *worker, struct kiln_bus *bus,
                  const struct kiln_outage *outage, double lease_s, struct kiln_error *err)
{
    if (!kiln_outage_is(outage) || kiln_monotonic_ms() - outage->since_ms < lease_s * 1e3)
        return 0;
    int code = kiln_identity_confirm(worker, bus, err);
    if (code == KILN_EXISTS) {
        kiln_log(KILN_LOG_ERROR, "worker_id_lost", kiln_f("error", "%s", err->text));
        kiln_worker_fail(worker, err);
    }
    return code;
}

void *kiln_heartbeat(void *arg)
{
    struct kiln_worker *worker = arg;
    struct kiln_bus *bus = NULL;
    struct kiln_outage outage = {KILN_OUTAGE_OF("bus"),
                                 .effect = "no heartbeats; assignments in flight continue"};
    struct kiln_error err;
    bool deaf = false;
    /* It outlives all others: the lease must last until the last job is settled. */
    while (atomic_load(&worker->threads) > 0) {
        struct kiln_settings settings = kiln_board_settings(&worker->board);
        atomic_store(&worker->heart_ms, kiln_clock_ms());
        int wait_ms = (int)(settings.heartbeat_s * 1e3);
        int code = bus ? 0 : kiln_bus_open(worker->config, &bus, &err);
        if (code == 0) /* leaves time for a second connection within the lease */
            kiln_bus_limit(bus, (uint32_t)(settings.lease_s * 1e3 / LEASE_SHARE));
        code = code ? code : resume(worker, bus, &outage, settings.lease_s, &err);
        code = code ? code : kiln_heartbeat_send(worker, bus, &err);
        if (code == 0) {
            kiln_outage_over(&outage);
        } else {
            bool at_once = code == KILN_TIMEOUT && !kiln_outage_is(&outage);
            int retry_ms = kiln_outage_fail(&outage, &err);
            wait_ms = at_once ? 0 : retry_ms < wait_ms ? retry_ms : wait_ms;
        }
        if (kiln_worker_drain(worker) == KILN_DRAIN_NO)
            watch_ears(worker, settings.lease_s, &deaf);
        kiln_worker_pause(worker, KICK_PAUSE_MS);
        kiln_board_wait(&worker->board, wait_ms > KICK_PAUSE_MS ? wait_ms - KICK_PAUSE_MS : 0);
    }
    if (bus && atomic_load(&worker->failure) != KILN_EXISTS &&
        kiln_bus_delete(bus, worker->beat, &err) != 0)
        kiln_log(KILN_LOG_WARNING, "beat_left", kiln_f("error", "%s", err.text));
    kiln_bus_close(bus);
    atomic_store(&worker->heart_stopped, true);
    return NULL;
}
