/* queue.c - a ring of slots under one mutex, with one condition for "room" and one for "work".
 *
 * All memory is allocated at the start.  A lock and a signal cost about a microsecond and a picture
 * costs milliseconds, so nothing faster is needed.
 */
#include "worker/state/queue.h"

#include <pthread.h>
#include <stdlib.h>

#include "schemas/clock.h"

struct slot {
    void *item;
    size_t weight;
};

struct kiln_queue {
    pthread_mutex_t mutex;
    pthread_cond_t room, work;
    bool closed;
    size_t items_max, weight_max;
    size_t first, count, weight; /* of what is waiting */
    struct slot slots[];
};

/* Deadlines are on the monotonic clock: setting the wall clock must not stretch a wait. */
static void cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

struct kiln_queue *kiln_queue_new(size_t items_max, size_t weight_max)
{
    struct kiln_queue *queue = calloc(1, sizeof *queue + items_max * sizeof queue->slots[0]);
    if (!queue)
        return NULL;
    pthread_mutex_init(&queue->mutex, NULL);
    cond_init(&queue->room);
    cond_init(&queue->work);
    queue->items_max = items_max;
    queue->weight_max = weight_max;
    return queue;
}

void kiln_queue_free(struct kiln_queue *queue)
{
    if (!queue)
        return;
    pthread_cond_destroy(&queue->work);
    pthread_cond_destroy(&queue->room);
    pthread_mutex_destroy(&queue->mutex);
    free(queue);
}

/* Written as a subtraction: weight + queue->weight may not overflow into a yes. */
static bool has_room(const struct kiln_queue *queue, size_t weight)
{
    if (queue->count == 0)
        return true;
    return queue->count < queue->items_max && weight <= queue->weight_max &&
           queue->weight <= queue->weight_max - weight;
}

int kiln_queue_push(struct kiln_queue *queue, void *item, size_t weight, int wait_ms)
{
    struct timespec deadline = kiln_deadline_in(wait_ms);
    int code = 0;
    pthread_mutex_lock(&queue->mutex);
    while (!queue->closed && !has_room(queue, weight) && code == 0)
        if (wait_ms <= 0 || pthread_cond_timedwait(&queue->room, &queue->mutex, &deadline) != 0)
            code = KILN_TIMEOUT;
    if (queue->closed) {
        code = KILN_CANCELLED;
    } else if (has_room(queue, weight)) { /* also when room came together with the deadline */
        size_t at = (queue->first + queue->count) % queue->items_max;
        queue->slots[at] = (struct slot){item, weight};
        queue->count++;
        queue->weight += weight;
        pthread_cond_signal(&queue->work);
        code = 0;
    }
    pthread_mutex_unlock(&queue->mutex);
    return code;
}

int kiln_queue_pop(struct kiln_queue *queue, void **items, size_t max, size_t *ret_count,
                   int wait_ms)
{
    struct timespec deadline = kiln_deadline_in(wait_ms);
    size_t taken = 0;
    bool late = false;
    pthread_mutex_lock(&queue->mutex);
    while (queue->count == 0 && !queue->closed && !late)
        late = wait_ms <= 0 || pthread_cond_timedwait(&queue->work, &queue->mutex, &deadline) != 0;
    for (; taken < max && queue->count > 0; taken++) {
        items[taken] = queue->slots[queue->first].item;
        queue->weight -= queue->slots[queue->first].weight;
        queue->first = (queue->first + 1) % queue->items_max;
        queue->count--;
    }
    bool closed = queue->closed;
    /* Weights differ, so any waiting push may fit now, not just the first. */
    if (taken > 0)
        pthread_cond_broadcast(&queue->room);
    pthread_mutex_unlock(&queue->mutex);
    *ret_count = taken;
    if (taken > 0)
        return 0;
    return closed ? KILN_CANCELLED : KILN_TIMEOUT;
}

int kiln_queue_await(struct kiln_queue *queue, size_t items, size_t weight, int wait_ms)
{
    struct timespec deadline = kiln_deadline_in(wait_ms);
    bool late = false;
    pthread_mutex_lock(&queue->mutex);
    while ((queue->count >= items || queue->weight >= weight) && !late)
        late = pthread_cond_timedwait(&queue->room, &queue->mutex, &deadline) != 0;
    bool few = queue->count < items && queue->weight < weight;
    pthread_mutex_unlock(&queue->mutex);
    return few ? 0 : KILN_TIMEOUT;
}

void *kiln_queue_front(struct kiln_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    void *item = queue->count > 0 ? queue->slots[queue->first].item : NULL;
    pthread_mutex_unlock(&queue->mutex);
    return item;
}

void kiln_queue_close(struct kiln_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    queue->closed = true;
    pthread_cond_broadcast(&queue->room);
    pthread_cond_broadcast(&queue->work);
    pthread_mutex_unlock(&queue->mutex);
}

size_t kiln_queue_length(struct kiln_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    size_t count = queue->count;
    pthread_mutex_unlock(&queue->mutex);
    return count;
}
