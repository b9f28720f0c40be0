/* work.h - a bounded queue of requests and the few threads that answer them from the ledger.
 *
 * The threads of the HTTP server never wait for Postgres; they suspend a request and put it here.
 * Each worker has a session of its own for reading, and one for writing once a POST needs it. Where
 * Postgres is on the same machine, more workers than processors only make all requests of a burst
 * end late.  A server has two queues: whoever enqueues jobs waits for the scheduler, and would hold
 * up pages.
 */
#ifndef KILN_GALLERY_WORK_H
#define KILN_GALLERY_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/config/config.h"
#include "schemas/error.h"

#define KILN_WEB_WORKERS 4
#define KILN_WEB_QUEUE_MAX 64     /* requests that wait */
#define KILN_WEB_PATIENCE_MS 5000 /* one that waited longer is refused */
#define KILN_WEB_SENDERS 2        /* the same for those that enqueue jobs */
#define KILN_WEB_SENDING_MAX 16
#define KILN_WEB_SENDING_MS 30000
#define KILN_WEB_STATEMENT_MS 2000

struct kiln_ledger;
struct kiln_web_work;

struct kiln_web_work_limits {
    int workers; /* KILN_WEB_WORKERS at most; one a processor, and at least two */
    uint32_t places;
    int64_t patience_ms;
};

/* The sessions of a worker. */
struct kiln_web_sessions {
    struct kiln_ledger *reader, *writer; /* writer: NULL unless asked for */
};

/* Part of whatever waits; zero-initialised. */
struct kiln_web_item {
    struct kiln_web_item *next;
    int64_t since_ms;
    bool writes; /* needs sessions->writer */
};

/* Called in a worker for each item.  refused NULL: answer it; else the reason why not (too long in
 * the queue, no session). */
typedef void kiln_web_answer(void *arg, struct kiln_web_item *item,
                             const struct kiln_web_sessions *sessions,
                             const struct kiln_error *refused);

int kiln_web_work_new(const struct kiln_config *config, const struct kiln_web_work_limits *limits,
                      kiln_web_answer *answer, void *arg, struct kiln_web_work **ret,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* The settings with the limits of a page: a person waits. */
struct kiln_config *kiln_web_work_config(struct kiln_web_work *work);
/* Takes a place in the queue for one item; false: it is full, or ending. */
bool kiln_web_work_reserve(struct kiln_web_work *work);
/* Puts an item into its place. */
void kiln_web_work_push(struct kiln_web_work *work, struct kiln_web_item *item);
uint32_t kiln_web_work_waiting(struct kiln_web_work *work);
/* Takes no more items, refuses those that wait, and returns when the workers have ended. */
void kiln_web_work_stop(struct kiln_web_work *work);
void kiln_web_work_free(struct kiln_web_work *work); /* stopped; accepts NULL */

#endif
