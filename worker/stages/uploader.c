/* uploader.c - a thread that makes files durable in the object store.
 *
 * It puts all missing objects of a small group of pictures in one call, many in parallel.  A
 * picture whose put failed stays in the group and is retried with backoff while new pictures join.
 * After hold_s its job returns to the queue, so that a worker with a broken disk does not keep jobs
 * that others could finish.  That return is never final: a failing store is not the job's fault.
 *
 * While the store takes nothing, the board knows why: the heartbeat tells it, with room 0.
 */
#include <string.h>

#include "schemas/clock.h"
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
    size_t refused;     /* bytes that the largest picture still needs in the store */
    double next_try_ms; /* of an idle thread in an outage */
};

/* Lists the missing objects, pictures before latents: objects of one directory are then neighbours,
 * and a file store syncs that directory once. */
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

/* Puts every missing object of the group.  0 when all are durable now; *ret_stored: how many this
 * call has written.  Those that were there say nothing about the store: another worker that has a
 * dropped job by now may have stored them. */
static int put_group(struct uploader *uploader, size_t *ret_stored, struct kiln_error *err)
{
    struct kiln_put puts[PUTS_MAX];
    struct kiln_picture_object *objects[PUTS_MAX];
    size_t count = list_missing(uploader, puts, objects);
    int code = 0;
    *ret_stored = 0;
    if (!uploader->store)
        code = kiln_store_open(uploader->worker->config, &uploader->store, err);
    if (code != 0)
        return code;
    code = count > 0 ? kiln_store_put(uploader->store, puts, count, err) : 0;
    for (size_t i = 0; i < count; i++) {
        objects[i]->stored = puts[i].code == 0;
        /* A store that computes another hash than the one in the key has damaged the bytes. */
        if (puts[i].code == 0 && strcmp(puts[i].sha256, objects[i]->sha256) != 0) {
            objects[i]->stored = false;
            code = kiln_fail(err, KILN_CORRUPT, "%s was stored with sha256 %s", objects[i]->key,
                             puts[i].sha256);
        }
        *ret_stored += objects[i]->stored && !puts[i].was_there;
    }
    uploader->refused = 0;
    for (size_t i = 0; i < uploader->count; i++) {
        size_t missing = 0;
        for (uint32_t j = 0; j < uploader->group[i]->object_count; j++)
            missing +=
                uploader->group[i]->objects[j].stored ? 0 : uploader->group[i]->objects[j].size;
        uploader->refused = missing > uploader->refused ? missing : uploader->refused;
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

/* Ends the pictures that nobody waits for. */
static void end_stopped(struct uploader *uploader)
{
    for (size_t i = uploader->count; i-- > 0;) {
        struct kiln_picture *picture = uploader->group[i];
        enum kiln_stop why = kiln_flight_stop(picture->flight, picture->index);
        if (why != KILN_STOP_CANCELLED && why != KILN_STOP_DROPPED)
            continue;
        kiln_picture_stop(picture, why);
        send_on(uploader, i);
    }
}

/* Ends the pictures that wait no longer for the store. */
static void end_some(struct uploader *uploader, const struct kiln_error *err)
{
    struct kiln_settings settings = kiln_board_settings(&uploader->worker->board);
    bool ending = kiln_worker_drain(uploader->worker) >= KILN_DRAIN_NOW;
    double oldest = kiln_monotonic_ms() - settings.hold_s * 1e3;
    for (size_t i = uploader->count; i-- > 0;) {
        struct kiln_picture *picture = uploader->group[i];
        if (ending) {
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

static void store_answers(struct uploader *uploader)
{
    kiln_health_heard(KILN_PEER_STORE);
    kiln_board_trouble(&uploader->worker->board, KILN_PEER_STORE, NULL);
    kiln_outage_over(&uploader->outage);
}

/* A round in which some objects were stored says nothing about the store as a whole, nor does an
 * error that is of one object (damaged on its way).  A store that refuses us is opened anew, so
 * that it finds the keys that somebody has renewed. */
static int store_fails(struct uploader *uploader, size_t stored, const struct kiln_error *err)
{
    if (kiln_code_retry(err->code) == KILN_RETRY_REPAIRED) {
        kiln_store_close(uploader->store);
        uploader->store = NULL;
    }
    if (stored == 0 && kiln_code_retry(err->code) != KILN_RETRY_NEVER)
        kiln_board_trouble(&uploader->worker->board, KILN_PEER_STORE, err);
    return kiln_outage_fail(&uploader->outage, err);
}

/* One round: puts the group, passes on what is durable, waits if something failed. */
static void work_group(struct uploader *uploader)
{
    struct kiln_error err = {0};
    double now = kiln_monotonic_ms();
    for (size_t i = 0; i < uploader->count; i++)
        if (uploader->group[i]->first_try_ms == 0)
            uploader->group[i]->first_try_ms = now;
    end_stopped(uploader);
    if (uploader->count == 0)
        return;
    size_t stored;
    int code = put_group(uploader, &stored, &err);
    for (size_t i = uploader->count; i-- > 0;) {
        const struct kiln_picture *picture = uploader->group[i];
        uint32_t durable = 0;
        for (uint32_t k = 0; k < picture->object_count; k++)
            durable += picture->objects[k].stored;
        if (durable == picture->object_count)
            send_on(uploader, i);
    }
    if (code == 0) {
        if (stored > 0)
            store_answers(uploader);
        return;
    }
    int wait_ms = store_fails(uploader, stored, &err);
    end_some(uploader, &err);
    if (uploader->count > 0)
        kiln_worker_pause(uploader->worker, wait_ms);
}

/* While nothing is to be put, because what the store refused has returned to the queue: does it
 * take as much as a picture of those?  This worker gets no job until it does. */
static void try_again(struct uploader *uploader)
{
    struct kiln_error err;
    int code = 0;
    if (kiln_monotonic_ms() < uploader->next_try_ms)
        return;
    if (!uploader->store)
        code = kiln_store_open(uploader->worker->config, &uploader->store, &err);
    code = code ? code : kiln_store_probe(uploader->store, uploader->refused, &err);
    if (code == 0)
        store_answers(uploader);
    else
        uploader->next_try_ms = kiln_monotonic_ms() + store_fails(uploader, 0, &err);
}

/* While nothing is to be put: does the store answer?  Not asked when a put of the other uploader
 * has just failed. */
static void probe(struct uploader *uploader)
{
    struct kiln_error err;
    bool refused = kiln_outage_is(&uploader->outage);
    if (refused && kiln_worker_drain(uploader->worker) == KILN_DRAIN_NO)
        try_again(uploader);
    if (refused || !kiln_worker_may_probe(uploader->worker, KILN_PEER_STORE, false))
        return;
    int code = 0;
    if (!uploader->store)
        code = kiln_store_open(uploader->worker->config, &uploader->store, &err);
    code = code ? code : kiln_store_reach(uploader->store, &err);
    if (code == 0)
        kiln_health_heard(KILN_PEER_STORE);
}

void *kiln_uploader(void *arg)
{
    struct kiln_worker *worker = arg;
    struct uploader uploader = {
        .worker = worker,
        .outage = {KILN_OUTAGE_OF("store"),
                   .effect = "pictures wait, then rendering waits for them",
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
            probe(&uploader);
    }
    kiln_store_close(uploader.store);
    if (atomic_fetch_sub(&worker->uploaders, 1) == 1)
        kiln_queue_close(worker->outcomes);
    atomic_fetch_sub(&worker->threads, 1);
    return NULL;
}
