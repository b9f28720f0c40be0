/* board.h - what the worker's threads share beside the queues.
 *
 * One mutex over a few small facts: what is resident, the progress of the batch, counts, when the
 * stream was last read, and the settings that SIGHUP may change.  The heartbeat thread reads all of
 * it and sleeps here, so that a change can wake it early.
 */
#ifndef KILN_BOARD_H
#define KILN_BOARD_H

#include <pthread.h>

#include "schemas/config/config.h"
#include "schemas/wire/wire.h"
#include "storage/daemon/health.h"

/* Settings that may change while the worker runs; everything else needs a restart. */
struct kiln_settings {
    double heartbeat_s, lease_s, drain_s, hold_s;
    float webp_quality;
    int webp_method;
    uint32_t batch_max;
};
void kiln_settings_read(const struct kiln_config *config, struct kiln_settings *ret);

struct kiln_board {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool kicked;
    struct kiln_settings settings;
    char lora_set[KILN_LORA_SET_MAX]; /* resident */
    uint32_t width, height;           /* of the last batch */
    uint32_t steps;                   /* of the batch that compute begins now; 0: none */
    uint32_t coarse_steps;            /* those of them at the small size, */
    uint32_t middle_steps;            /* and after them at the middle one */
    char running[KILN_WIRE_ID_MAX + 1];
    const int32_t *step; /* written atomically by the call that began last; or NULL */
    uint64_t done, failed;
    bool files_told; /* the next list has been set: LoRA files on this machine, as in heartbeats */
    uint64_t files[KILN_HEARTBEAT_FILES_MAX];
    uint32_t file_count;
    double heard_ms; /* monotonic: the last good read of the stream */
    uint32_t calls;  /* of the engine, begun and not ended */
    double began_ms; /* the last of them */
    double up_ms, busy_since_ms, busy_ms, switched_ms; /* the device's time; since: 0 = idle */
    uint32_t to_render; /* assignments in flight that are not rendered yet; since: 0 = none */
    double wanted_since_ms, wanted_ms;
    double computed_ms, ready_at_end_ms, wanted_at_end_ms; /* at the end of the last batch */
    double stepped_ms;                                     /* when *step last changed, */
    int32_t step_seen;                                     /* and its value */
    struct kiln_board_trouble {
        double since_ms; /* 0: none */
        bool told;       /* it has lasted long enough for the heartbeat to say so */
        int code;
        char text[KILN_HEARTBEAT_ERROR_MAX];
    } troubles[KILN_PEER_COUNT];
};

void kiln_board_init(struct kiln_board *board, const struct kiln_settings *settings);
void kiln_board_release(struct kiln_board *board);

void kiln_board_set(struct kiln_board *board, const struct kiln_settings *settings);
struct kiln_settings kiln_board_settings(struct kiln_board *board);

/* The compute thread: a batch begins, ends.  lora_set is resident afterwards; NULL: nothing of the
 * batch ran, so the one before still is. */
void kiln_board_begin(struct kiln_board *board, const struct kiln_assignment *assignment);
void kiln_board_end(struct kiln_board *board, const char *lora_set);
/* One more assignment to render (the listener); one less, because it is rendered or returned. */
void kiln_board_want(struct kiln_board *board);
void kiln_board_settle(struct kiln_board *board);
/* The compute thread begins a call of the engine, the collector ends it; calls may overlap.
 * switch_ms of it was loading LoRAs, device_ms is the device's own clock.  step is read until then;
 * it ends at `steps` (0: at those of the assignment), of which coarse_steps are at the small size
 * and middle_steps at the middle one. */
void kiln_board_call_begun(struct kiln_board *board, const int32_t *step, uint32_t steps,
                           uint32_t coarse_steps, uint32_t middle_steps);
void kiln_board_call_ended(struct kiln_board *board, const int32_t *step, double switch_ms,
                           double device_ms);
/* What the device did since kiln_board_up. */
struct kiln_device_time {
    double busy_s, idle_s;
    double switching_s; /* of busy_s, known at the end of a call: loading LoRA sets */
    double batch_s;     /* since the last call began; 0: no call runs */
    double stalled_s;   /* since the last step; 0: no call runs */
    /* Until the end of the last batch: with assignments in flight; computing by the device's clock.
     */
    double wanted_s, computed_s;
};
struct kiln_device_time kiln_board_device(struct kiln_board *board);
void kiln_board_up(struct kiln_board *board);
/* The committer: one job has ended. */
void kiln_board_count(struct kiln_board *board, bool done);
/* An uploader or committer: the store or the ledger takes nothing from us, again; or, with err
 * NULL, it does.  A refusal that lasts KILN_TROUBLE_TOLD_MS is in the heartbeat, and a worker whose
 * store refuses has no room. */
void kiln_board_trouble(struct kiln_board *board, enum kiln_peer peer,
                        const struct kiln_error *err);
/* Whether that is told, and has lasted for so long. */
bool kiln_board_refused(struct kiln_board *board, enum kiln_peer peer, double for_ms);
/* The inventory thread: LoRA files on this machine, at most KILN_HEARTBEAT_FILES_MAX. */
void kiln_board_files(struct kiln_board *board, const uint64_t *files, uint32_t count);
/* The listener: the stream was read. */
void kiln_board_heard(struct kiln_board *board);

/* Wakes the heartbeat thread now. */
void kiln_board_kick(struct kiln_board *board);
/* Sleeps until kicked, at most wait_ms. */
void kiln_board_wait(struct kiln_board *board, int wait_ms);

/* Fills the board's fields of a heartbeat; its list of assignments in flight is filled before. */
void kiln_board_beat(struct kiln_board *board, struct kiln_heartbeat *beat);

#endif
