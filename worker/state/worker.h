/* worker.h - the worker's state and the threads that share it.
 *
 *     listener --arrived--> starts --ready--> compute --asked--> collector --rendered--> encoders
 *     (bus)           (ledger, store)         (engine)           (engine)                  (CPU)
 *                                                                                            |
 *     heartbeat (bus) <-- board, flights <-- all                                           files
 *                                                                                            v
 *     reporter (bus) <--reports-- committers (ledger) <-------outcomes------- uploaders (store)
 *
 * Everything mutable has one owner: the compute thread owns the engine (the collector a batch that
 * has begun), a thread the connections that it opened, a stage the picture that it works on. Shared
 * state has a lock of its own: queues, flights, board.  Each queue is limited in items, those of
 * pictures also in bytes.  So a slow store stops the uploaders, then the encoders; then the compute
 * thread begins nothing more, and the heartbeat says room 0.  Only `rendered` accepts the pictures
 * of calls that have begun, whatever their size.
 *
 * The end takes the same path: the listener closes `arrived`, then the starts thread closes
 * `ready`, and so on.  The heartbeat ends last and deletes its key.
 */
#ifndef KILN_WORKER_H
#define KILN_WORKER_H

#include <stdatomic.h>

#include "schemas/config/config.h"
#include "storage/daemon/health.h"
#include "worker/engine/call_times.h"
#include "worker/engine/renderer.h"
#include "worker/state/board.h"
#include "worker/state/flights.h"
#include "worker/state/lora_disk.h"
#include "worker/state/picture.h"
#include "worker/state/portion.h"
#include "worker/state/queue.h"

/* How urgent the end is; only ever rises. */
enum kiln_drain {
    KILN_DRAIN_NO,
    KILN_DRAIN_ASKED,  /* finish the current batch, return the rest */
    KILN_DRAIN_NOW,    /* stop at the next step; do not wait for the store */
    KILN_DRAIN_ABANDON /* do not wait for the ledger: the lease returns the jobs */
};

#define KILN_WORKER_KEY_MAX 192

struct kiln_worker {
    const struct kiln_config *config; /* as at start; only read */
    char pool[KILN_NAME_MAX + 1], id[KILN_NAME_MAX + 1], host[KILN_NAME_MAX + 1];
    char incarnation[KILN_WIRE_ID_MAX + 1], device_class[KILN_NAME_MAX + 1];
    char stream[KILN_WORKER_KEY_MAX], beat[KILN_WORKER_KEY_MAX], events[KILN_WORKER_KEY_MAX];
    int64_t started_ms;
    struct kiln_renderer *engine;

    struct kiln_lora_disk *lora_disk;
    struct kiln_call_times *call_times; /* has a lock of its own */

    struct kiln_flights flights;
    struct kiln_board board;
    struct kiln_queue *arrived;                     /* struct kiln_flight * */
    struct kiln_queue *ready;                       /* struct kiln_portion * */
    struct kiln_queue *asked;                       /* struct kiln_call * */
    struct kiln_queue *again;                       /* struct kiln_portion *, before ready */
    struct kiln_queue *rendered, *files, *outcomes; /* struct kiln_picture * */
    struct kiln_queue *reports;                     /* struct kiln_event *, malloc'd */

    _Atomic uint32_t checked; /* calls under way of which a portion may come again */
    _Atomic uint32_t waiting; /* flights that have arrived and not begun */
    _Atomic int drain;        /* enum kiln_drain */
    _Atomic int64_t heart_ms; /* when the heartbeat thread last ran its loop */
    _Atomic bool up;          /* all threads run, and the engine may be read */
    _Atomic bool failing;     /* one thread writes, or has written, the next two */
    struct kiln_error why;    /* of failure; valid once that is set */
    _Atomic int failure;      /* the code that makes the worker end by itself; 0 = none */
    _Atomic uint32_t encoders, uploaders, committers; /* threads that still run */
    _Atomic uint32_t threads; /* that still run, the heartbeat not counted */
    _Atomic bool settled;     /* the committers have ended: nothing more is written to the ledger */
    _Atomic bool heart_stopped;
    _Atomic uint64_t reports_lost;
    _Atomic uint32_t stores_away, ledgers_away; /* uploaders and committers in an outage */
};

/* Prepares everything but the engine and the threads.  id NULL: made of host and device.  config
 * must outlive the worker. */
int kiln_worker_init(struct kiln_worker *worker, const struct kiln_config *config, const char *id,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* After all threads have ended; closes the engine. */
void kiln_worker_release(struct kiln_worker *worker);

/* --- the threads; each takes the worker, runs until its input is closed, returns NULL --------- */
void *kiln_listener(void *worker);
void *kiln_starts(void *worker);
void *kiln_compute(void *worker);
void *kiln_collector(void *worker);
void *kiln_encoder(void *worker);
void *kiln_uploader(void *worker);
void *kiln_committer(void *worker);
void *kiln_reporter(void *worker);
void *kiln_inventory(void *worker);
void *kiln_heartbeat(void *worker);

struct kiln_bus;
/* Sends one heartbeat; the first one before the threads start. */
int kiln_heartbeat_send(struct kiln_worker *worker, struct kiln_bus *bus,
                        struct kiln_error *err) KILN_MUST_CHECK;

/* --- what several of them do ------------------------------------------------------------------ */
enum kiln_drain kiln_worker_drain(const struct kiln_worker *worker);
/* Sleeps wait_ms, less when the drain grows more urgent. */
void kiln_worker_pause(struct kiln_worker *worker, int wait_ms);
/* Any thread: the worker cannot continue, for this reason, and drains from now on.  The first
 * reason counts. */
void kiln_worker_fail(struct kiln_worker *worker, const struct kiln_error *why);
/* Whether an idle thread should probe the store or ledger now.  Not while another thread is in an
 * outage of it (away: this one is, too), nor while the worker ends. */
bool kiln_worker_may_probe(const struct kiln_worker *worker, enum kiln_peer peer, bool away);
/* Whether a batch may begin, because the queues have room for its pictures; waits up to twice
 * wait_ms. So a slow store delays the begin of a batch and never a batch whose time is measured. */
bool kiln_worker_may_begin(struct kiln_worker *worker, int wait_ms);
/* Pushes a picture into the queue of a stage; waits as long as needed. */
void kiln_worker_pass(struct kiln_queue *queue, struct kiln_picture *picture);
/* Returns jobs that have not begun, which may free their flight; the attempts do not count.  why:
 * DRAINED or REFUSED. */
void kiln_worker_return(struct kiln_worker *worker, const struct kiln_portion *portion,
                        enum kiln_stop why);
void kiln_worker_return_flight(struct kiln_worker *worker, struct kiln_flight *flight);
/* Ends one job without a picture: sends it to the committer. */
void kiln_worker_end_job(struct kiln_worker *worker, struct kiln_flight *flight, uint32_t index,
                         enum kiln_stop why);
/* Sends an event; dropped and counted in a long outage of the bus. */
void kiln_worker_report(struct kiln_worker *worker, const struct kiln_event *event);

#endif
