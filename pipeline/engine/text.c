/* text.c - the texts of a batch: prompts to features to refined captions; and prefetched texts.
 *
 * A cache keeps features from batch to batch.  New prompts go through the encoder in one pass,
 * whose time is that of reading the weights; each gets the bits that it would get alone.  Features
 * do not depend on LoRAs, so they can be prefetched; captions do.
 */
#include <stdlib.h>
#include <string.h>

#include "pipeline/engine/parts.h"

/* Different texts, and those among them that have to be encoded. */
struct lookup {
    const char *seen[KILN_BATCH_TEXTS_MAX], *fresh[KILN_BATCH_TEXTS_MAX];
    struct kiln_prompt_ids prompts[KILN_BATCH_TEXTS_MAX];
    int32_t *ids[KILN_BATCH_TEXTS_MAX];
    kt features[KILN_BATCH_TEXTS_MAX];
    size_t seen_count, fresh_count, known_count;
};

/* Leaves out texts that cannot be encoded; their own items report the error. */
static void look_up(struct kiln_engine *e, struct kt_scope *s, struct lookup *l, const char *text)
{
    size_t i = l->fresh_count, len = strlen(text), count;
    for (size_t other = 0; other < l->seen_count; other++)
        if (strcmp(l->seen[other], text) == 0)
            return;
    l->seen[l->seen_count++] = text;
    if (kiln_feature_cache_get(e->features, s, text, len)) {
        l->known_count++;
        return;
    }
    if (kiln_tokenizer_encode(e->tokenizer, text, len, false, &l->ids[i], &count, NULL))
        return;
    l->fresh[i] = text;
    l->prompts[i] = (struct kiln_prompt_ids){l->ids[i], count};
    l->fresh_count++;
}

/* Fills the cache with the features of these texts; counts them in times unless that is NULL. After
 * a failure each item encodes its prompt alone, which needs less memory.  If memory is tight, no
 * graphs are recorded. */
static void encode(const struct kiln_run *r, const char *const *texts, size_t count,
                   DiffusionZTimes *times)
{
    struct kiln_engine *e = r->e;
    struct kiln_graph_cache *graphs = kiln_memory_is_tight(r) ? NULL : e->graphs;
    struct lookup *l = calloc(1, sizeof *l);
    if (!l)
        return;
    struct kt_scope *s = kt_scope_new(e->device);
    for (size_t i = 0; i < count; i++)
        look_up(e, s, l, texts[i]);
    struct kiln_error unrecorded = {.code = 0};
    if (l->fresh_count > 0)
        kiln_text_encoder_run_many(e->text_encoder, s, l->prompts, l->fresh_count, graphs,
                                   l->features, &unrecorded);
    if (unrecorded.code)
        memcpy(e->note, unrecorded.text, sizeof e->note);
    for (size_t i = 0; i < l->fresh_count; i++) {
        if (l->features[i])
            kiln_feature_cache_put(e->features, l->fresh[i], strlen(l->fresh[i]), e->device,
                                   l->features[i]);
        free(l->ids[i]);
    }
    if (times) {
        times->texts_ready = (int32_t)l->known_count;
        times->texts_encoded = (int32_t)l->fresh_count;
    }
    kt_scope_free(s);
    free(l);
}

/* The features of a prompt, from the cache if it has them; NULL with *ret_code set for a prompt
 * that cannot be encoded. */
static kt features_of(const struct kiln_run *r, struct kt_scope *s, const char *prompt,
                      int *ret_code, struct kiln_error *err)
{
    struct kiln_engine *e = r->e;
    size_t len = strlen(prompt), count;
    int32_t *ids;
    kt features = kiln_feature_cache_get(e->features, s, prompt, len);
    if (!features &&
        !(*ret_code = kiln_tokenizer_encode(e->tokenizer, prompt, len, false, &ids, &count, err))) {
        features = kiln_text_encoder_run(e->text_encoder, s, ids, count);
        free(ids);
        kiln_feature_cache_put(e->features, prompt, len, e->device, features);
    }
    return features;
}

/* The features of a prompt, refined to a caption. */
static int caption_once(const struct kiln_run *r, struct kt_scope *s, const char *prompt, kt *ret,
                        struct kiln_error *err)
{
    struct kiln_engine *e = r->e;
    int code = 0;
    struct kt_scope *inner = kt_scope_new(e->device);
    kt features = features_of(r, inner, prompt, &code, err);
    kt caption = code ? NULL : kiln_caption(r->set->transformer, inner, features);
    code = code ? code : kt_scope_check(inner, err);
    *ret = code ? NULL : kt_keep(s, caption);
    kt_scope_free(inner);
    return code;
}

/* The refined caption of a prompt.  Without memory, frees graphs and tries again. */
static kt caption_of(struct kiln_run *r, struct kt_scope *s, const char *prompt)
{
    struct kiln_error err;
    kt caption = NULL;
    int code = caption_once(r, s, prompt, &caption, &err);
    if (code == KILN_NO_MEMORY) {
        kiln_memory_release(r, true);
        code = caption_once(r, s, prompt, &caption, &err);
    }
    if (code)
        kt_scope_fail(s, &err);
    return caption;
}

/* Earlier items with the same texts share their captions. */
static void prepare_captions(struct kiln_run *r, struct kiln_item *item)
{
    for (struct kiln_item *other = r->items; other < item; other++)
        if (!other->ended && strcmp(other->in->prompt, item->in->prompt) == 0 &&
            strcmp(kiln_item_negative(other->in), kiln_item_negative(item->in)) == 0) {
            item->caption = kt_keep(item->scope, other->caption);
            item->negative = kt_keep(item->scope, other->negative);
            return;
        }
    item->caption = caption_of(r, item->scope, item->in->prompt);
    if (r->batch->guidance_scale > 0)
        item->negative = caption_of(r, item->scope, kiln_item_negative(item->in));
}

/* The same for the prompt of the item's start. */
static void prepare_start(struct kiln_run *r, struct kiln_item *item)
{
    if (!r->batch->by_difference)
        return;
    for (struct kiln_item *other = r->items; other < item; other++)
        if (!other->ended && strcmp(other->in->start_prompt, item->in->start_prompt) == 0) {
            item->start_caption = kt_keep(item->scope, other->start_caption);
            return;
        }
    item->start_caption = caption_of(r, item->scope, item->in->start_prompt);
}

static void prepare_item(struct kiln_run *r, struct kiln_item *item)
{
    struct kiln_error err;
    int code = 0;
    prepare_captions(r, item);
    if (item->in->variety > 0 && item->caption) {
        kt features = features_of(r, item->scope, item->in->prompt, &code, &err);
        if (code) /* not after it has a caption */
            kt_scope_fail(item->scope, &err);
        else
            kiln_variety_prepare(r, item, features);
    }
}

/* A fetch that arrives when the main stream reaches this point. */
static struct kt_fetch *mark(const struct kiln_engine *e)
{
    struct kt_scope *s = kt_scope_new(e->device);
    struct kt_fetch *fetch = kt_fetch_start(s, kt_zeros(s, KT_F32, 1, (int64_t[]){1}));
    kt_scope_free(s);
    return fetch;
}

/* Waits for a mark, if there is one.  Errors are ignored: the next operation reports them again. */
static void wait_for(struct kt_fetch **fetch)
{
    struct kiln_error err;
    if (*fetch)
        (void)!kt_fetch_wait(*fetch, &err);
    kt_fetch_free(*fetch);
    *fetch = NULL;
}

void kiln_text_wait(struct kiln_run *r)
{
    double elsewhere = 0;
    if (r->begin_mark && !kt_fetch_arrived(r->begin_mark)) {
        wait_for(&r->begin_mark);
        kiln_run_lap(r, &elsewhere);
    }
    wait_for(&r->begin_mark);
    if (!r->text_mark)
        return;
    wait_for(&r->text_mark);
    kiln_run_lap(r, &r->times.text_ms);
}

void kiln_text_prepare(struct kiln_run *r)
{
    const char *texts[KILN_BATCH_TEXTS_MAX];
    size_t count = 0;
    for (int i = 0; i < r->batch->item_count; i++)
        if (!r->items[i].ended)
            count += kiln_item_texts(r->items[i].in, r->batch->guidance_scale, texts + count);
    r->begin_mark = mark(r->e);
    int piece = kt_clock_begin(r->e->clock, false);
    encode(r, texts, count, &r->times);
    for (int i = 0; i < r->batch->item_count; i++)
        if (kiln_item_alive(&r->items[i])) {
            prepare_item(r, &r->items[i]);
            prepare_start(r, &r->items[i]);
            (void)kiln_item_alive(&r->items[i]);
        }
    kt_clock_end(r->e->clock, piece);
    r->text_mark = mark(r->e);
}

void kiln_text_renew(struct kiln_run *r)
{
    int piece = kt_clock_begin(r->e->clock, false);
    for (int i = 0; i < r->batch->item_count; i++) {
        struct kiln_item *item = &r->items[i];
        if (!kiln_item_alive(item))
            continue;
        kt_drop(item->scope, item->caption);
        kt_drop(item->scope, item->negative);
        item->caption = item->negative = NULL;
        prepare_captions(r, item);
        (void)kiln_item_alive(item);
    }
    kt_clock_end(r->e->clock, piece);
}

void kiln_text_encode_prefetched(struct kiln_run *r)
{
    char *texts[KILN_BATCH_TEXTS_MAX];
    size_t count = kiln_text_prefetch_take(&r->e->prefetch, texts);
    if (count > 0 && !kiln_memory_is_tight(r)) {
        int piece = kt_clock_begin(r->e->clock, false);
        encode(r, (const char *const *)texts, count, NULL);
        kt_clock_end(r->e->clock, piece);
    }
    for (size_t i = 0; i < count; i++)
        free(texts[i]);
}
