/* searcher.h - a thread that searches by meaning, for whoever searches by words meanwhile; inside
 * of this room.
 *
 * It stays, since LibTorch compiles its products for each thread once more.
 */
#ifndef KILN_GALLERY_SEARCHER_H
#define KILN_GALLERY_SEARCHER_H

#include <pthread.h>

#include "scheduler/gallery/meaning/meaning.h"
#include "scheduler/gallery/meaning/mixed.h"

struct kiln_searcher_task {
    const struct kiln_gallery_query *query;
    struct kiln_meaning_hit hits[KILN_MIXED_MEANING];
    struct kiln_meaning_found found;
    struct kiln_error err;
    int code;
};

/* Between tasks, its holder may search with its memory and its session for what encodes nothing. */
struct kiln_searcher {
    struct kiln_meaning *meaning;
    struct kiln_meaning_scratch *scratch;
    struct kiln_ledger *session; /* connects when tokens are in the ledger alone */
    pthread_t thread;
    bool has_thread;      /* false: there was none; kiln_searcher_finish does the work */
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    struct kiln_searcher_task *task; /* NULL: it waits for one */
    bool ending;
};

/* config and meaning must outlive it. */
int kiln_searcher_new(const struct kiln_config *config, struct kiln_meaning *meaning,
                      struct kiln_searcher **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_searcher_free(struct kiln_searcher *searcher); /* it has no task */

/* The task and its query belong to the searcher until kiln_searcher_finish returns, which must
 * follow. */
void kiln_searcher_begin(struct kiln_searcher *searcher, struct kiln_searcher_task *task);
void kiln_searcher_finish(struct kiln_searcher *searcher);

#endif
