/* uploader.c - a thread that makes files durable in the object store.
 *
 * It keeps a small group of pictures and puts all their missing objects in one call, many in
 * flight.  What the store refuses stays in the group and is tried again with growing pauses while
 * new pictures join; a picture that has waited hold_s goes back to the queue, so that a worker with
 * a broken disk does not sit on jobs that others could finish.  A failing store is never the job's
 * fault: no such return is final.
 */
#include <string.h>

#include "schemas/clock.h"
#include "schemas/log.h"
#include "storage/daemon/outage.h"
#include "storage/objects/store.h"
#include "worker/state/worker.h"

#define GROUP_MAX 16
#define PUTS_MAX (GROUP_MAX * KILN_PICTURE_OBJECTS_MAX)

struct uploader {
    struct kiln_worker *worker;
    struct kiln_store *store; /* NULL until the first try to open it worked */
    struct kiln_outage outage;
    struct kiln_picture *group[GROUP_MAX];
    size_t count;
};

static bool is_stored(const struct kiln_picture *picture)
{
    for (uint32_t i = 0; i < picture->object_count; i++)
        if (!picture->objects[i].stored)
            return false;
    return true;
}

/* Lists the missing objects, pictures first and latents behind them: objects of one directory
 * stand together, and a file store then syncs their directories once. */
static size_t list_missing(struct uploader *uploader, struct kiln_put *puts,
                           struct kiln_picture_object **objects)
{
    size_t count = 0;
    for (int latents = 0; latents <= 1; latents++)
        for (size_t i = 0; i < uploader->count; i++)
            for (uint32_t j = 0; j < uploader->group[i]->object_count; j++) {
                struct kiln_picture_object *object = &uploader->group[i]->objects[j];
                if (object->stored || (strcmp(object->role, KILN_ROLE_LATENT) == 0) != latents)
                    continue;
                objects[count] = object;
                puts[count++] = (struct kiln_put){.key = object->key,
                                                  .data = object->data,
                                                  .size = object->size,
                                                  .content_type = object->content_type};
            }
    return count;
}

/* Puts every missing object of the group.  0 when all are durable now. */
static int put_group(struct uploader *uploader, struct kiln_error *err)
{
    struct kiln_put puts[PUTS_MAX];
    struct kiln_picture_object *objects[PUTS_MAX];
    size_t count = list_missing(uploader, puts, objects);
    int code = 0;
    if (!uploader->store)
        code = kiln_store_open(uploader->worker->config, &uploader->store, err);
    if (code != 0)
        return code;
    code = count > 0 ? kiln_store_put(uploader->store, puts, count, err) : 0;
    for (size_t i = 0; i < count; i++) {
        objects[i]->stored = puts[i].code == 0;
        /* The name holds our hash of the bytes; a store that saw others has damaged them. */
        if (puts[i].code == 0 && strcmp(puts[i].sha256, objects[i]->sha256) != 0) {
            objects[i]->stored = false;
            code = kiln_fail(err, KILN_CORRUPT, "%s was stored with sha256 %s", objects[i]->key,
                             puts[i].sha256);
        }
    }
    return code;
}

static void send_on(struct uploader *uploader, size_t i)
{
    struct kiln_picture *picture = uploader->group[i];
    uploader->group[i] = uploader->group[--uploader->count];
    picture->upload_ms = kiln_monotonic_ms() - picture->first_try_ms;
    kiln_worker_pass(uploader->worker->outcomes, picture);
}

/* Decides for each picture that still lacks objects whether it is kept. */
static void give_up_some(struct uploader *uploader, const struct kiln_error *err)
{
    struct kiln_settings settings = kiln_board_settings(&uploader->worker->board);
    bool ending = kiln_worker_drain(uploader->worker) >= KILN_DRAIN_NOW;
    double oldest = kiln_monotonic_ms() - settings.hold_s * 1e3;
    for (size_t i = uploader->count; i-- > 0;) {
        struct kiln_picture *picture = uploader->group[i];
        enum kiln_stop why = kiln_holding_stop(picture->holding, picture->index);
        if (why == KILN_STOP_CANCELLED || why == KILN_STOP_DROPPED) {
            kiln_picture_stop(picture, why);
        } else if (ending) {
            kiln_picture_stop(picture, KILN_STOP_DRAINED);
        } else if (picture->first_try_ms <= oldest) {
            kiln_picture_fail(picture, err->code, err->text);
            picture->final = false;
        } else {
            continue;
        }
        send_on(uploader, i);
    }
}

/* One round: put what is there, pass on what is durable, wait if something is not. */
static void work_group(struct uploader *uploader)
{
    struct kiln_error err = {0};
    double now = kiln_monotonic_ms();
    for (size_t i = 0; i < uploader->count; i++)
        if (uploader->group[i]->first_try_ms == 0)
            uploader->group[i]->first_try_ms = now;
    int code = put_group(uploader, &err);
    for (size_t i = uploader->count; i-- > 0;)
        if (is_stored(uploader->group[i]))
            send_on(uploader, i);
    if (code == 0) {
        kiln_health_heard(KILN_PEER_STORE);
        kiln_outage_over(&uploader->outage);
        return;
    }
    int wait_ms = kiln_outage_fail(&uploader->outage, &err);
    give_up_some(uploader, &err);
    if (uploader->count > 0)
        kiln_worker_pause(uploader->worker, wait_ms);
}

/* With nothing to put, whether the store is there: unless a put of the other thread has just
 * failed, which says more. */
static void look(struct uploader *uploader)
{
    struct kiln_error err;
    if (!kiln_worker_asks(uploader->worker, KILN_PEER_STORE, kiln_outage_is(&uploader->outage)))
        return;
    int code = 0;
    if (!uploader->store)
        code = kiln_store_open(uploader->worker->config, &uploader->store, &err);
    if (code == 0)
        code = kiln_store_reach(uploader->store, &err);
    if (code == 0)
        kiln_health_heard(KILN_PEER_STORE);
}

void *kiln_uploader(void *arg)
{
    struct kiln_worker *worker = arg;
    struct uploader uploader = {
        .worker = worker,
        .outage = {KILN_OUTAGE_OF("store"), .effect = "pictures wait, then drawing waits for them",
                   .sharing = &worker->stores_away},
    };
    for (;;) {
        size_t came;
        int code = kiln_queue_pop(worker->files, (void **)&uploader.group[uploader.count],
                                  GROUP_MAX - uploader.count, &came, uploader.count ? 0 : 1000);
        uploader.count += came;
        if (uploader.count > 0)
            work_group(&uploader);
        else if (code == KILN_CANCELLED)
            break;
        else
            look(&uploader);
    }
    kiln_store_close(uploader.store);
    if (atomic_fetch_sub(&worker->uploaders, 1) == 1)
        kiln_queue_close(worker->outcomes);
    atomic_fetch_sub(&worker->threads, 1);
    return NULL;
}
