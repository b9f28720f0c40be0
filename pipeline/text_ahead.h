/* text_ahead.h - prompts that batches to come will need: from the thread that learns of them to the
 * engine, which encodes them when the batch it draws has asked for all of its steps.
 *
 * On a GPU that costs nothing: what the encoder takes of the host is done while the device still
 * has steps to do, and it runs beside the last decode.
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

/* Fills texts with the item's prompt and, where there is guidance, its negative one; borrowed from
 * it.  Returns how many. */
size_t kiln_item_texts(const DiffusionZItem *item, float guidance, const char *texts[2]);

/* Asks for the texts of the batch, behind those that wait; what has no room or no memory is not
 * asked for.  Any thread. */
void kiln_text_ahead_ask(struct kiln_text_ahead *a, const DiffusionZBatch *batch);
/* What was asked for, once: the strings are the caller's to free. */
size_t kiln_text_ahead_take(struct kiln_text_ahead *a, char *ret_texts[KILN_BATCH_TEXTS_MAX]);

#endif
