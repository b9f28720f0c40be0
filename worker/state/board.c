/* board.c - see board.h.
 *
 * One thread writes each fact and the heartbeat reads it.  All are small, so the lock covers a few
 * copies and is never held together with another.  The exception is *step, which the engine writes
 * through a plain pointer in its loop, hence atomically.
 */
#include "worker/state/board.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "schemas/clock.h"
#include "schemas/limits.h"
#include "schemas/text/utf8.h"

void kiln_settings_read(const struct kiln_config *config, struct kiln_settings *ret)
{
    *ret = (struct kiln_settings){
        .heartbeat_s = kiln_config_number(config, KILN_KEY_HEARTBEAT_S),
        .lease_s = kiln_config_number(config, KILN_KEY_LEASE_S),
        .drain_s = kiln_config_number(config, KILN_KEY_DRAIN_S),
        .hold_s = kiln_config_number(config, KILN_KEY_HOLD_S),
        .webp_quality = (float)kiln_config_number(config, KILN_KEY_WEBP_QUALITY),
        .webp_method = (int)kiln_config_int(config, KILN_KEY_WEBP_METHOD),
        .batch_max = (uint32_t)kiln_config_int(config, KILN_KEY_BATCH_MAX),
    };
}

void kiln_board_init(struct kiln_board *board, const struct kiln_settings *settings)
{
    pthread_condattr_t attr;
    memset(board, 0, sizeof *board);
    pthread_mutex_init(&board->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&board->changed, &attr);
    pthread_condattr_destroy(&attr);
    board->settings = *settings;
    board->heard_ms = kiln_monotonic_ms(); /* deafness counts from the start, not from 1970 */
}

void kiln_board_release(struct kiln_board *board)
{
    pthread_cond_destroy(&board->changed);
    pthread_mutex_destroy(&board->mutex);
}

void kiln_board_set(struct kiln_board *board, const struct kiln_settings *settings)
{
    pthread_mutex_lock(&board->mutex);
    board->settings = *settings;
    pthread_mutex_unlock(&board->mutex);
}

struct kiln_settings kiln_board_settings(struct kiln_board *board)
{
    pthread_mutex_lock(&board->mutex);
    struct kiln_settings settings = board->settings;
    pthread_mutex_unlock(&board->mutex);
    return settings;
}

void kiln_board_begin(struct kiln_board *board, const struct kiln_assignment *assignment)
{
    pthread_mutex_lock(&board->mutex);
    board->width = assignment->width;
    board->height = assignment->height;
    board->steps = assignment->steps;
    board->coarse_steps = board->middle_steps = 0;
    snprintf(board->running, sizeof board->running, "%s", assignment->id);
    board->step = NULL;
    pthread_mutex_unlock(&board->mutex);
}

void kiln_board_end(struct kiln_board *board, const char *lora_set)
{
    pthread_mutex_lock(&board->mutex);
    board->running[0] = '\0';
    board->steps = 0; /* idle; width and height stay: their graphs are resident */
    if (lora_set)
        snprintf(board->lora_set, sizeof board->lora_set, "%s", lora_set);
    pthread_mutex_unlock(&board->mutex);
}

void kiln_board_up(struct kiln_board *board)
{
    pthread_mutex_lock(&board->mutex);
    board->up_ms = kiln_monotonic_ms();
    pthread_mutex_unlock(&board->mutex);
}

void kiln_board_want(struct kiln_board *board)
{
    pthread_mutex_lock(&board->mutex);
    if (board->to_render++ == 0)
        board->wanted_since_ms = kiln_monotonic_ms();
    pthread_mutex_unlock(&board->mutex);
}

void kiln_board_settle(struct kiln_board *board)
{
    pthread_mutex_lock(&board->mutex);
    if (board->to_render > 0 && --board->to_render == 0)
        board->wanted_ms += kiln_monotonic_ms() - board->wanted_since_ms;
    pthread_mutex_unlock(&board->mutex);
}

/* Under the mutex. */
static int32_t step_now(const struct kiln_board *board)
{
    return board->step ? __atomic_load_n(board->step, __ATOMIC_ACQUIRE) : 0;
}

void kiln_board_call_begun(struct kiln_board *board, const int32_t *step, uint32_t steps,
                           uint32_t coarse_steps, uint32_t middle_steps)
{
    pthread_mutex_lock(&board->mutex);
    if (steps > 0 && board->steps > 0)
        board->steps = steps;
    board->coarse_steps = coarse_steps;
    board->middle_steps = middle_steps;
    board->began_ms = board->stepped_ms = kiln_monotonic_ms();
    if (board->calls++ == 0)
        board->busy_since_ms = board->began_ms;
    board->step = step;
    board->step_seen = step_now(board);
    pthread_mutex_unlock(&board->mutex);
}

void kiln_board_call_ended(struct kiln_board *board, const int32_t *step, double switch_ms,
                           double device_ms)
{
    pthread_mutex_lock(&board->mutex);
    double now = kiln_monotonic_ms();
    board->busy_ms += now - board->busy_since_ms;
    board->switched_ms += switch_ms;
    board->busy_since_ms = --board->calls > 0 ? now : 0;
    if (board->step == step)
        board->step = NULL;
    /* Together, so that the three belong to one moment: the device reports at the end of a call. */
    board->computed_ms += device_ms;
    board->ready_at_end_ms = now - board->up_ms;
    board->wanted_at_end_ms =
        board->wanted_ms + (board->to_render > 0 ? now - board->wanted_since_ms : 0);
    pthread_mutex_unlock(&board->mutex);
}

struct kiln_device_time kiln_board_device(struct kiln_board *board)
{
    pthread_mutex_lock(&board->mutex);
    double now = kiln_monotonic_ms();
    double since = board->busy_since_ms > 0 ? now - board->busy_since_ms : 0;
    int32_t step = step_now(board);
    if (step != board->step_seen)
        board->stepped_ms = now;
    board->step_seen = step;
    struct kiln_device_time time = {
        .busy_s = (board->busy_ms + since) / 1e3,
        .switching_s = board->switched_ms / 1e3,
        .idle_s = (now - board->up_ms - board->busy_ms - since) / 1e3,
        .batch_s = since > 0 ? (now - board->began_ms) / 1e3 : 0,
        .stalled_s = since > 0 ? (now - board->stepped_ms) / 1e3 : 0,
        .wanted_s = board->wanted_at_end_ms / 1e3,
        .computed_s = board->computed_ms / 1e3,
    };
    pthread_mutex_unlock(&board->mutex);
    return time;
}

void kiln_board_count(struct kiln_board *board, bool done)
{
    pthread_mutex_lock(&board->mutex);
    if (done)
        board->done++;
    else
        board->failed++;
    pthread_mutex_unlock(&board->mutex);
}

void kiln_board_heard(struct kiln_board *board)
{
    pthread_mutex_lock(&board->mutex);
    board->heard_ms = kiln_monotonic_ms();
    pthread_mutex_unlock(&board->mutex);
}

void kiln_board_kick(struct kiln_board *board)
{
    pthread_mutex_lock(&board->mutex);
    board->kicked = true;
    pthread_cond_signal(&board->changed);
    pthread_mutex_unlock(&board->mutex);
}

void kiln_board_wait(struct kiln_board *board, int wait_ms)
{
    const struct timespec until = kiln_deadline_in(wait_ms);
    pthread_mutex_lock(&board->mutex);
    /* A kick before the wait counts: every change must be sent. */
    while (!board->kicked)
        if (pthread_cond_timedwait(&board->changed, &board->mutex, &until) != 0)
            break;
    board->kicked = false;
    pthread_mutex_unlock(&board->mutex);
}

void kiln_board_files(struct kiln_board *board, const uint64_t *files, uint32_t count)
{
    pthread_mutex_lock(&board->mutex);
    const bool same = board->files_told && board->file_count == count &&
                      memcmp(board->files, files, count * sizeof *files) == 0;
    memcpy(board->files, files, count * sizeof *files);
    board->file_count = count;
    board->files_told = true;
    if (!same) {
        board->kicked = true;
        pthread_cond_signal(&board->changed);
    }
    pthread_mutex_unlock(&board->mutex);
}

void kiln_board_trouble(struct kiln_board *board, enum kiln_peer peer, const struct kiln_error *err)
{
    struct kiln_board_trouble *trouble = &board->troubles[peer];
    pthread_mutex_lock(&board->mutex);
    double now = kiln_monotonic_ms();
    bool told = trouble->told;
    if (!err) {
        trouble->since_ms = 0;
        trouble->told = false;
    } else {
        trouble->since_ms = trouble->since_ms > 0 ? trouble->since_ms : now;
        trouble->told = told || now - trouble->since_ms >= KILN_TROUBLE_TOLD_MS;
        trouble->code = err->code;
        kiln_utf8_copy(trouble->text, sizeof trouble->text, err->text);
    }
    if (trouble->told != told) {
        if (peer == KILN_PEER_STORE)
            kiln_health_refusing(told ? NULL : "the store refuses this worker's pictures");
        board->kicked = true;
        pthread_cond_signal(&board->changed);
    }
    pthread_mutex_unlock(&board->mutex);
}

bool kiln_board_refused(struct kiln_board *board, enum kiln_peer peer, double for_ms)
{
    const struct kiln_board_trouble *trouble = &board->troubles[peer];
    pthread_mutex_lock(&board->mutex);
    bool refused = trouble->told && kiln_monotonic_ms() - trouble->since_ms >= for_ms;
    pthread_mutex_unlock(&board->mutex);
    return refused;
}

/* Under the mutex.  The store comes first: its trouble is more often this worker's alone. */
static void fill_trouble(const struct kiln_board *board, struct kiln_heartbeat *beat)
{
    static const enum kiln_peer order[] = {KILN_PEER_STORE, KILN_PEER_LEDGER};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        const struct kiln_board_trouble *trouble = &board->troubles[order[i]];
        if (!trouble->told)
            continue;
        snprintf(beat->trouble, sizeof beat->trouble, "%s", kiln_peer_name(order[i]));
        snprintf(beat->trouble_code, sizeof beat->trouble_code, "%s",
                 kiln_code_name(trouble->code));
        memcpy(beat->trouble_error, trouble->text, sizeof beat->trouble_error);
        beat->trouble_ms = (uint32_t)(kiln_monotonic_ms() - trouble->since_ms);
        return;
    }
}

void kiln_board_beat(struct kiln_board *board, struct kiln_heartbeat *beat)
{
    pthread_mutex_lock(&board->mutex);
    double deaf = kiln_monotonic_ms() - board->heard_ms;
    snprintf(beat->lora_set, sizeof beat->lora_set, "%s", board->lora_set);
    beat->width = board->width;
    beat->height = board->height;
    beat->steps = board->steps;
    beat->coarse_steps = board->steps ? board->coarse_steps : 0;
    beat->middle_steps = board->steps ? board->middle_steps : 0;
    snprintf(beat->running, sizeof beat->running, "%s", board->running);
    beat->step = board->steps ? (uint32_t)step_now(board) : 0;
    beat->done = board->done;
    beat->failed = board->failed;
    beat->ready_ms = (uint64_t)board->ready_at_end_ms;
    beat->wanted_ms = (uint64_t)board->wanted_at_end_ms;
    beat->computed_ms = (uint64_t)board->computed_ms;
    beat->deaf_ms = deaf > 0 ? (uint32_t)deaf : 0;
    beat->batch_max = board->settings.batch_max;
    beat->files_told = board->files_told;
    beat->file_count = board->file_count;
    memcpy(beat->files, board->files, board->file_count * sizeof *board->files);
    fill_trouble(board, beat);
    beat->drawn = beat->held_count > board->to_render ? beat->held_count - board->to_render : 0;
    pthread_mutex_unlock(&board->mutex);
}
