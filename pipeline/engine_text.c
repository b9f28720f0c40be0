/* engine_text.c - the text of a batch: prompts to features to refined captions.
 *
 * Features of a prompt are kept from batch to batch.  Those that are new go through the encoder in
 * one pass, whose time is that of reading its weights; it gives each the bits it would get alone.
 */
#include <stdlib.h>
#include <string.h>

#include "pipeline/engine_parts.h"

#define PROMPTS_MAX (2 * KILN_ASSIGN_MAX) /* one and its negative for each item */

static const char *negative_of(const struct kiln_item *item)
{
    return item->in->negative_prompt ? item->in->negative_prompt : "";
}

/* Prompts that the encoder has to see, each once. */
struct fresh {
    const char *texts[PROMPTS_MAX];
    struct kiln_prompt_ids prompts[PROMPTS_MAX];
    int32_t *ids[PROMPTS_MAX];
    kt features[PROMPTS_MAX];
    size_t count;
};

/* Takes the prompt in, unless it is known, here already, or no text at all: that is said where its
 * own item comes to it. */
static void add_fresh(struct kiln_engine *e, struct kt_scope *s, struct fresh *f,
                      const char *prompt)
{
    size_t i = f->count, len = strlen(prompt), count;
    for (size_t other = 0; other < i; other++)
        if (strcmp(f->texts[other], prompt) == 0)
            return;
    if (kiln_feature_cache_get(e->features, s, prompt, len) ||
        kiln_tokenizer_encode(e->tokenizer, prompt, len, false, &f->ids[i], &count, NULL))
        return;
    f->texts[i] = prompt;
    f->prompts[i] = (struct kiln_prompt_ids){f->ids[i], count};
    f->count++;
}

/* Fills the cache with the features of the batch's prompts.  What fails here is tried again prompt
 * by prompt, which takes less memory. */
static void encode_fresh(struct kiln_run *r)
{
    struct kiln_engine *e = r->e;
    struct fresh *f = calloc(1, sizeof *f);
    struct kt_scope *s = kt_scope_new(e->device);
    for (int i = 0; f && i < r->batch->item_count; i++) {
        const struct kiln_item *item = &r->items[i];
        if (item->ended)
            continue;
        add_fresh(e, s, f, item->in->prompt);
        if (r->batch->guidance_scale > 0)
            add_fresh(e, s, f, negative_of(item));
    }
    if (f && f->count > 1)
        kiln_text_encoder_run_many(e->text_encoder, s, f->prompts, f->count, f->features);
    for (size_t i = 0; f && i < f->count; i++) {
        if (f->features[i])
            kiln_feature_cache_put(e->features, f->texts[i], strlen(f->texts[i]), e->device,
                                   f->features[i]);
        free(f->ids[i]);
    }
    kt_scope_free(s);
    free(f);
}

static kt features_of(struct kiln_engine *e, struct kt_scope *s, const char *prompt)
{
    size_t len = strlen(prompt), count;
    kt features = kiln_feature_cache_get(e->features, s, prompt, len);
    if (features)
        return features;
    int32_t *ids;
    struct kiln_error err;
    if (kiln_tokenizer_encode(e->tokenizer, prompt, len, false, &ids, &count, &err)) {
        kt_scope_fail(s, &err);
        return NULL;
    }
    features = kiln_text_encoder_run(e->text_encoder, s, ids, count);
    free(ids);
    kiln_feature_cache_put(e->features, prompt, len, e->device, features);
    return features;
}

/* The refined caption of a prompt. */
static kt caption_of(const struct kiln_run *r, struct kt_scope *s, const char *prompt)
{
    struct kt_scope *inner = kt_scope_child(s);
    kt caption =
        kt_keep(s, kiln_caption(r->e->transformer, inner, features_of(r->e, inner, prompt)));
    kt_scope_free(inner);
    return caption;
}

/* Finds an earlier item with the same text, whose captions are then shared. */
static const struct kiln_item *same_text(const struct kiln_run *r, int index)
{
    const struct kiln_item *item = &r->items[index];
    for (int i = 0; i < index; i++) {
        const struct kiln_item *other = &r->items[i];
        if (!other->ended && strcmp(other->in->prompt, item->in->prompt) == 0 &&
            strcmp(negative_of(other), negative_of(item)) == 0)
            return other;
    }
    return NULL;
}

static void prepare_item(struct kiln_run *r, int index)
{
    struct kiln_item *item = &r->items[index];
    const struct kiln_item *other = same_text(r, index);
    if (other) {
        item->caption = kt_keep(item->scope, other->caption);
        item->negative = kt_keep(item->scope, other->negative);
        return;
    }
    item->caption = caption_of(r, item->scope, item->in->prompt);
    if (r->batch->guidance_scale > 0)
        item->negative = caption_of(r, item->scope, negative_of(item));
}

void kiln_text_wait(struct kiln_run *r)
{
    struct kiln_error err; /* what died before the mark shows at the next operation, too */
    if (!r->text_mark)
        return;
    int code = kt_fetch_wait(r->text_mark, &err);
    (void)code;
    kt_fetch_free(r->text_mark);
    r->text_mark = NULL;
    kiln_run_lap(r, &r->times.text_ms);
}

void kiln_text_prepare(struct kiln_run *r)
{
    int piece = kt_clock_begin(r->e->clock, false);
    encode_fresh(r);
    for (int i = 0; i < r->batch->item_count; i++)
        if (kiln_item_alive(&r->items[i])) {
            prepare_item(r, i);
            (void)kiln_item_alive(&r->items[i]);
        }
    kt_clock_end(r->e->clock, piece);
    struct kt_scope *s = kt_scope_new(r->e->device);
    r->text_mark = kt_fetch_start(s, kt_zeros(s, KT_F32, 1, (int64_t[]){1}));
    kt_scope_free(s);
}
