/* board.h - what the worker's threads tell each other beside the queues.
 *
 * One mutex over a few small facts: what is resident, how far the batch is, what was counted, when
 * the stream was last heard, and the settings that SIGHUP may change.  The heartbeat thread reads
 * all of it for the beat and sleeps here, so that a change can wake it ahead of time.
 */
#ifndef KILN_BOARD_H
#define KILN_BOARD_H

#include <pthread.h>

#include "schemas/config.h"
#include "schemas/wire.h"

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
    uint32_t steps;                   /* of the batch that is being begun; 0: none is */
    char running[KILN_WIRE_ID_MAX + 1];
    const int32_t *step; /* of the call that was begun last, which writes it atomically; or NULL */
    uint64_t done, failed;
    double heard_ms;  /* monotonic: the last good read of the stream */
    uint32_t drawing; /* calls that have begun and not been finished */
    double began_ms;  /* the last of them */
    double up_ms, drawing_since_ms, drawn_ms, switched_ms; /* the device's time; since: 0 = idle */
    uint32_t to_draw; /* assignments in hand that are not drawn yet; since: 0 = none */
    double wanted_since_ms, wanted_ms;
    double computed_ms, ready_told_ms, wanted_told_ms; /* at the end of the last batch */
    double stepped_ms;                                 /* when *step was last seen to be another, */
    int32_t step_seen;                                 /* and which it was */
};

void kiln_board_init(struct kiln_board *board, const struct kiln_settings *settings);
void kiln_board_release(struct kiln_board *board);

void kiln_board_set(struct kiln_board *board, const struct kiln_settings *settings);
struct kiln_settings kiln_board_settings(struct kiln_board *board);

/* The compute thread: a batch begins, ends.  lora_set: what is resident afterwards; NULL: nothing
 * of the batch ran, and what was resident before is taken to be so still. */
void kiln_board_begin(struct kiln_board *board, const struct kiln_assignment *assignment);
void kiln_board_end(struct kiln_board *board, const char *lora_set);
/* The listener: there is one more assignment to draw.  Whoever has drawn it or let go of it: one
 * less. */
void kiln_board_want(struct kiln_board *board);
void kiln_board_settle(struct kiln_board *board);
/* The compute thread begins a call of the engine, the collector finishes it; calls may overlap. How
 * much of it was loading, and how long the device computed by its own clock.  step is read until
 * then. */
void kiln_board_draw(struct kiln_board *board, const int32_t *step);
void kiln_board_drawn(struct kiln_board *board, const int32_t *step, double switch_ms,
                      double device_ms);
/* What the device's time went into since the board was made ready for work by kiln_board_up. */
struct kiln_device_time {
    double busy_s, idle_s;
    double switching_s; /* of busy_s, known once a call is over: loading LoRA sets */
    double batch_s;     /* since the engine was last called; 0: it is not at work */
    double stalled_s;   /* since it was last seen to come a step further; 0: the same */
    /* Until the end of the last batch: with work in hand, and computing by the device's clock. */
    double wanted_s, computed_s;
};
struct kiln_device_time kiln_board_device(struct kiln_board *board);
void kiln_board_up(struct kiln_board *board);
/* The committer: one job has ended. */
void kiln_board_count(struct kiln_board *board, bool done);
/* The listener: the stream was read. */
void kiln_board_heard(struct kiln_board *board);

/* Wakes the heartbeat thread now. */
void kiln_board_kick(struct kiln_board *board);
/* Sleeps until kicked, at most wait_ms. */
void kiln_board_wait(struct kiln_board *board, int wait_ms);

/* Fills what the board knows of a beat: residents, progress, counts, deafness, batch_max, and how
 * many of those that it lists already are drawn. */
void kiln_board_beat(struct kiln_board *board, struct kiln_heartbeat *beat);

#endif
