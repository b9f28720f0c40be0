/* text_prefetch.c - a bounded list of texts under a lock; see text_prefetch.h. */
#include "pipeline/engine/text_prefetch.h"

#include <stdlib.h>
#include <string.h>

void kiln_text_prefetch_init(struct kiln_text_prefetch *a)
{
    *a = (struct kiln_text_prefetch){.count = 0};
    pthread_mutex_init(&a->lock, NULL);
}

void kiln_text_prefetch_release(struct kiln_text_prefetch *a)
{
    for (size_t i = 0; i < a->count; i++)
        free(a->texts[i]);
    pthread_mutex_destroy(&a->lock);
}

const char *kiln_item_negative(const DiffusionZItem *item)
{
    return item->negative_prompt ? item->negative_prompt : "";
}

size_t kiln_item_texts(const DiffusionZItem *item, float guidance,
                       const char *texts[KILN_ITEM_TEXTS_MAX])
{
    size_t count = 0;
    texts[count++] = item->prompt;
    if (guidance > 0)
        texts[count++] = kiln_item_negative(item);
    if (item->start_prompt)
        texts[count++] = item->start_prompt;
    return count;
}

static void add(struct kiln_text_prefetch *a, const char *text)
{
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->texts[i], text) == 0)
            return;
    char *copy = strdup(text);
    if (!copy)
        return; /* its batch encodes it */
    if (a->count == KILN_BATCH_TEXTS_MAX) {
        free(a->texts[0]);
        memmove(a->texts, a->texts + 1, --a->count * sizeof *a->texts);
    }
    a->texts[a->count++] = copy;
}

void kiln_text_prefetch_add(struct kiln_text_prefetch *a, const DiffusionZBatch *batch)
{
    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < batch->item_count; i++) {
        const char *texts[KILN_ITEM_TEXTS_MAX];
        size_t count = kiln_item_texts(&batch->items[i], batch->guidance_scale, texts);
        for (size_t k = 0; k < count; k++)
            add(a, texts[k]);
    }
    pthread_mutex_unlock(&a->lock);
}

size_t kiln_text_prefetch_take(struct kiln_text_prefetch *a, char *ret_texts[KILN_BATCH_TEXTS_MAX])
{
    pthread_mutex_lock(&a->lock);
    size_t count = a->count;
    memcpy(ret_texts, a->texts, count * sizeof *ret_texts);
    a->count = 0;
    pthread_mutex_unlock(&a->lock);
    return count;
}
