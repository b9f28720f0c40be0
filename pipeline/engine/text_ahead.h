/* text_ahead.h - prompts that batches to come will need: from the thread that learns of them to the
 * engine, which encodes them when the batch it draws has asked for all of its steps.
 *
 * On a GPU that hides what the encoder takes of the host, since the device still has steps to do,
 * and its kernels run beside the last decode.  On the CPU the same work is done a moment earlier.
 */
#ifndef KILN_TEXT_AHEAD_H
#define KILN_TEXT_AHEAD_H

#include <pthread.h>
#include <stddef.h>

#include "pipeline/diffusionz_batch.h"
#include "schemas/limits.h"

/* Texts of a batch: one and its negative for each item. */
#define KILN_BATCH_TEXTS_MAX (2 * (size_t)KILN_ASSIGN_MAX)

struct kiln_text_ahead {
    pthread_mutex_t lock;
    char *texts[KILN_BATCH_TEXTS_MAX];
    size_t count;
};

void kiln_text_ahead_init(struct kiln_text_ahead *a);
void kiln_text_ahead_release(struct kiln_text_ahead *a);

/* The negative prompt of an item, "" where it has none. */
const char *kiln_item_negative(const DiffusionZItem *item);
/* Fills texts with the item's prompt and, where there is guidance, its negative one; borrowed from
 * it.  Returns how many. */
size_t kiln_item_texts(const DiffusionZItem *item, float guidance, const char *texts[2]);

/* Asks for the texts of the batch, behind those that wait, each once; where there is no room the
 * oldest are forgotten, for their batch is the one that is being drawn.  Any thread. */
void kiln_text_ahead_ask(struct kiln_text_ahead *a, const DiffusionZBatch *batch);
/* What was asked for, once: the strings are the caller's to free. */
size_t kiln_text_ahead_take(struct kiln_text_ahead *a, char *ret_texts[KILN_BATCH_TEXTS_MAX]);

#endif
