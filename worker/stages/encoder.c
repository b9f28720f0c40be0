/* encoder.c - a thread of the encode pool: turns raw pixels and latents into files.
 *
 * libwebp's own threads gain nothing in lossy mode, so the pool encodes several pictures in
 * parallel. On a CPU device it competes with the compute thread; the setting encode_threads limits
 * that.
 */
#include "schemas/clock.h"
#include "worker/stages/encode.h"
#include "worker/state/worker.h"

static void encode_one(struct kiln_worker *worker, struct kiln_picture *picture)
{
    struct kiln_settings settings = kiln_board_settings(&worker->board);
    struct kiln_encode_options options = {
        .model_name = worker->engine->model_name,
        .model_hash = worker->engine->model_hash,
        .webp_quality = settings.webp_quality,
        .webp_method = settings.webp_method,
        .now_ms = kiln_wall_ms(),
    };
    struct kiln_error err;
    double start = kiln_monotonic_ms();
    enum kiln_stop why = kiln_flight_stop(picture->flight, picture->index);
    int code = 0;
    /* A drained picture is rendered already and worth finishing; the other flags make it useless.
     */
    bool wanted = why == KILN_STOP_NONE || why == KILN_STOP_DRAINED;
    if (wanted)
        code = kiln_encode_picture(picture, &options, &err);
    worker->engine->release(&picture->output);
    picture->encode_ms = kiln_monotonic_ms() - start;
    if (wanted && code == 0) {
        kiln_worker_pass(worker->files, picture);
        return;
    }
    if (wanted)
        kiln_picture_fail(picture, code, err.text);
    else
        kiln_picture_stop(picture, why);
    kiln_worker_pass(worker->outcomes, picture);
}

void *kiln_encoder(void *arg)
{
    struct kiln_worker *worker = arg;
    for (;;) {
        void *item;
        size_t count;
        int code = kiln_queue_pop(worker->rendered, &item, 1, &count, 1000);
        if (code == KILN_CANCELLED)
            break;
        if (code == 0)
            encode_one(worker, item);
    }
    if (atomic_fetch_sub(&worker->encoders, 1) == 1)
        kiln_queue_close(worker->files);
    atomic_fetch_sub(&worker->threads, 1);
    return NULL;
}
