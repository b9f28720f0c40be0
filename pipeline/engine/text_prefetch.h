/* text_prefetch.h - prompts of later batches, which the engine encodes during the running batch.
 *
 * Any thread adds prompts.  The engine encodes them when all steps of its batch are queued.  On a
 * GPU that hides the encoder's work on the host, and its kernels run beside the last decode.  On
 * the CPU the same work is done a moment earlier.
 */
#ifndef KILN_TEXT_PREFETCH_H
#define KILN_TEXT_PREFETCH_H

#include <pthread.h>
#include <stddef.h>

#include "pipeline/diffusionz_batch.h"
#include "schemas/limits.h"

/* Texts of a batch: of each item a prompt, a negative one, and the prompt of its start. */
#define KILN_ITEM_TEXTS_MAX 3
#define KILN_BATCH_TEXTS_MAX (KILN_ITEM_TEXTS_MAX * (size_t)KILN_ASSIGN_MAX)

struct kiln_text_prefetch {
    pthread_mutex_t lock;
    char *texts[KILN_BATCH_TEXTS_MAX];
    size_t count;
};

void kiln_text_prefetch_init(struct kiln_text_prefetch *a);
void kiln_text_prefetch_release(struct kiln_text_prefetch *a);

/* The negative prompt of an item, "" where it has none. */
const char *kiln_item_negative(const DiffusionZItem *item);
/* Fills texts with the item's prompt, with guidance its negative prompt, and the prompt of its
 * start if it has one; borrowed.  Returns how many. */
size_t kiln_item_texts(const DiffusionZItem *item, float guidance,
                       const char *texts[KILN_ITEM_TEXTS_MAX]);

/* Adds the texts of the batch, each once.  Beyond the limit the oldest are dropped: their batch is
 * the one that runs.  Any thread. */
void kiln_text_prefetch_add(struct kiln_text_prefetch *a, const DiffusionZBatch *batch);
/* Takes all texts; the caller frees the strings. */
size_t kiln_text_prefetch_take(struct kiln_text_prefetch *a, char *ret_texts[KILN_BATCH_TEXTS_MAX]);

#endif
