/* queue.h - the bounded queue between two stages of the worker.
 *
 * Pointers wait in the order they came, each with a weight (the bytes it keeps alive).  A push
 * waits while the queue holds items_max items or would hold more than weight_max bytes: that wait
 * is how a slow object store slows the compute thread down instead of filling memory.  An item
 * heavier than weight_max is let into an empty queue, or it could never pass.
 *
 * Any number of threads may push and pop.  Closing is how a stage tells the next one that nothing
 * more will come: pushes are refused, pops hand out what is left and then say KILN_CANCELLED.
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

/* Hands item over.  KILN_TIMEOUT when no room came within wait_ms (0 = do not wait),
 * KILN_CANCELLED when the queue is closed; the item is then still the caller's. */
int kiln_queue_push(struct kiln_queue *queue, void *item, size_t weight,
                    int wait_ms) KILN_MUST_CHECK;

/* Takes the oldest items, at least one and at most max.  KILN_TIMEOUT when none came within
 * wait_ms, KILN_CANCELLED when the queue is closed and empty; *ret_count is then 0. */
int kiln_queue_pop(struct kiln_queue *queue, void **items, size_t max, size_t *ret_count,
                   int wait_ms) KILN_MUST_CHECK;

/* Waits until fewer than `items` wait, of less than `weight` together: for a producer that holds
 * back before it begins something whose results may not wait.  KILN_TIMEOUT after wait_ms. */
int kiln_queue_await(struct kiln_queue *queue, size_t items, size_t weight,
                     int wait_ms) KILN_MUST_CHECK;

/* The oldest item, which stays; NULL if there is none.  For the one thread that pops. */
void *kiln_queue_front(struct kiln_queue *queue);

/* May be called more than once. */
void kiln_queue_close(struct kiln_queue *queue);

size_t kiln_queue_length(struct kiln_queue *queue);

#endif
