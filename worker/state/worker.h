/* worker.h - the worker's state and the threads that share it.
 *
 *     listener --ready--> compute --asked--> collector --drawn--> encoders --files--> uploaders
 *     (bus)               (engine)           (engine)             (CPU)               (store)
 *                                                                                        |
 *     heartbeat (bus) <-- board, holdings <-- all                                     outcomes
 *                                                                                        v
 *                                       reporter (bus) <-------reports------- committers (ledger)
 *
 * One owner per mutable thing: the engine is the compute thread's (a batch that has begun the
 * collector's), every connection that of the thread which opened it, a picture that of the stage
 * which has it.  What is shared has its own lock: the queues, the holdings, the board.  Each queue
 * is bounded in items, those of pictures in bytes, so a slow store holds up uploaders, then
 * encoders; then the compute thread begins nothing more, and room in the beat is 0.  Only `drawn`
 * takes in, whatever they weigh, the pictures of the calls that were under way by then.
 *
 * Ending runs down the same line: the listener closes `ready`, the compute thread then closes
 * `asked`, and so on; the last thread out is the heartbeat, which deletes the beat.
 */
#ifndef KILN_WORKER_H
#define KILN_WORKER_H

#include <stdatomic.h>

#include "schemas/config.h"
#include "storage/daemon/health.h"
#include "worker/engine/renderer.h"
#include "worker/state/board.h"
#include "worker/state/holdings.h"
#include "worker/state/picture.h"
#include "worker/state/queue.h"

/* How urgent the end is; only ever rises. */
enum kiln_drain {
    KILN_DRAIN_NO,
    KILN_DRAIN_ASKED,  /* finish the batch in hand, hand back the rest */
    KILN_DRAIN_NOW,    /* stop at the next step; no more waiting for the store */
    KILN_DRAIN_ABANDON /* no more waiting for the ledger: the lease gives the jobs back */
};

#define KILN_WORKER_KEY_MAX 192

struct kiln_worker {
    const struct kiln_config *config; /* as at start; only read */
    char pool[KILN_NAME_MAX + 1], id[KILN_NAME_MAX + 1], host[KILN_NAME_MAX + 1];
    char incarnation[KILN_WIRE_ID_MAX + 1], device_class[KILN_NAME_MAX + 1];
    char stream[KILN_WORKER_KEY_MAX], beat[KILN_WORKER_KEY_MAX], events[KILN_WORKER_KEY_MAX];
    int64_t started_ms;
    struct kiln_renderer *engine;

    struct kiln_holdings holdings;
    struct kiln_board board;
    struct kiln_queue *ready;                    /* struct kiln_holding * */
    struct kiln_queue *asked;                    /* struct kiln_call * */
    struct kiln_queue *drawn, *files, *outcomes; /* struct kiln_picture * */
    struct kiln_queue *reports;                  /* struct kiln_event *, malloc'd */

    _Atomic int drain;        /* enum kiln_drain */
    _Atomic int64_t heart_ms; /* when the heartbeat thread last came round */
    _Atomic bool up;          /* all threads run, and the engine may be looked at */
    _Atomic bool giving_up;   /* somebody writes, or has written, the next two */
    struct kiln_error why;    /* of failure; to be read once that is set */
    _Atomic int failure;      /* the code that makes the worker end by itself; 0 = none */
    _Atomic uint32_t encoders, uploaders, committers; /* threads that still run */
    _Atomic uint32_t threads; /* that still run, the heartbeat not counted */
    _Atomic bool settled;     /* the committers have ended: the ledger knows all it will be told */
    _Atomic bool heart_stopped;
    _Atomic uint64_t reports_lost;
    _Atomic uint32_t stores_away, ledgers_away; /* uploaders, committers that miss theirs */
};

/* Prepares everything but the engine and the threads.  id NULL: made of host and device.  config
 * must outlive the worker. */
int kiln_worker_init(struct kiln_worker *worker, const struct kiln_config *config, const char *id,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* After all threads have ended; closes the engine. */
void kiln_worker_release(struct kiln_worker *worker);

/* --- the threads; each takes the worker, runs until its input is closed, returns NULL --------- */
void *kiln_listener(void *worker);
void *kiln_compute(void *worker);
void *kiln_collector(void *worker);
void *kiln_encoder(void *worker);
void *kiln_uploader(void *worker);
void *kiln_committer(void *worker);
void *kiln_reporter(void *worker);
void *kiln_heartbeat(void *worker);

struct kiln_bus;
/* Sends one beat; the first one is sent before the threads start. */
int kiln_heartbeat_send(struct kiln_worker *worker, struct kiln_bus *bus,
                        struct kiln_error *err) KILN_MUST_CHECK;

/* --- what several of them do ------------------------------------------------------------------ */
enum kiln_drain kiln_worker_drain(const struct kiln_worker *worker);
/* Sleeps wait_ms, less when the drain grows more urgent. */
void kiln_worker_pause(struct kiln_worker *worker, int wait_ms);
/* Any thread: the worker cannot go on, for this reason, and drains from now on.  The first one
 * counts. */
void kiln_worker_give_up(struct kiln_worker *worker, const struct kiln_error *why);
/* Whether an idle thread shall ask store or ledger for a sign of life now: not while another thread
 * misses it (away: this one does too), nor when the worker ends. */
bool kiln_worker_asks(const struct kiln_worker *worker, enum kiln_peer peer, bool away);
/* Whether a batch may begin: its pictures will find room behind the device.  Waits for that, up to
 * twice wait_ms.  So a slow store is felt before a batch and never within one, whose times are the
 * device's. */
bool kiln_worker_may_begin(struct kiln_worker *worker, int wait_ms);
/* Puts a picture into a stage's queue, waiting as long as it takes. */
void kiln_worker_pass(struct kiln_queue *queue, struct kiln_picture *picture);
/* Gives every unstarted job of a holding back, its attempt not counted. */
void kiln_worker_hand_back(struct kiln_worker *worker, struct kiln_holding *holding);
/* Ends one job without a picture: sends it to the committer. */
void kiln_worker_end(struct kiln_worker *worker, struct kiln_holding *holding, uint32_t index,
                     enum kiln_stop why);
/* Tells the events stream; dropped and counted when the bus has been away for long. */
void kiln_worker_report(struct kiln_worker *worker, const struct kiln_event *event);

#endif
