/* queue.h - the bounded queue between two stages of the worker.
 *
 * A FIFO of pointers, each with a weight: the bytes that it keeps allocated.  A push waits while
 * the queue has items_max items or would exceed weight_max bytes.  So a slow object store slows the
 * compute thread down instead of filling memory.  An empty queue accepts an item of any weight.
 *
 * Any number of threads may push and pop.  A stage closes the queue of the next stage when nothing
 * more will come: pushes then fail, and pops return what is left and then KILN_CANCELLED.
 */
#ifndef KILN_QUEUE_H
#define KILN_QUEUE_H

#include <stddef.h>

#include "schemas/error.h"

struct kiln_queue;

/* NULL when memory is short; no later call allocates. */
struct kiln_queue *kiln_queue_new(size_t items_max, size_t weight_max);
/* The queue must be empty and no thread may be in it.  Accepts NULL. */
void kiln_queue_free(struct kiln_queue *queue);

/* KILN_TIMEOUT when no room came within wait_ms (0 = do not wait),
 * KILN_CANCELLED when the queue is closed; the caller then still owns the item. */
int kiln_queue_push(struct kiln_queue *queue, void *item, size_t weight,
                    int wait_ms) KILN_MUST_CHECK;

/* Takes the oldest items, at least one and at most max.  KILN_TIMEOUT when none came within
 * wait_ms, KILN_CANCELLED when the queue is closed and empty; *ret_count is then 0. */
int kiln_queue_pop(struct kiln_queue *queue, void **items, size_t max, size_t *ret_count,
                   int wait_ms) KILN_MUST_CHECK;

/* Waits until fewer than `items` items of less than `weight` in total are queued, for a producer
 * whose later pushes must not wait.  KILN_TIMEOUT after wait_ms. */
int kiln_queue_await(struct kiln_queue *queue, size_t items, size_t weight,
                     int wait_ms) KILN_MUST_CHECK;

/* The oldest item, which stays; NULL if there is none.  For the one thread that pops. */
void *kiln_queue_front(struct kiln_queue *queue);

/* May be called more than once. */
void kiln_queue_close(struct kiln_queue *queue);

size_t kiln_queue_length(struct kiln_queue *queue);

#endif
