/* loras.c - see loras.h. */
#include "scheduler/embedding/loras.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/router/map.h"
#include "schemas/digest.h"
#include "schemas/text/text.h"
#include "schemas/text/utf8.h"

#define TEXTS (KILN_EMBEDDING_POSITIVE + 1 + KILN_EMBEDDING_NEGATIVE)

struct vectors {
    uint8_t hash[KILN_SHA256_SIZE]; /* of its texts */
    uint32_t negatives;
    int8_t *rows; /* [1 + negatives][dims] */
};

struct kiln_embedding_loras {
    struct kiln_map places; /* of a hash's first bytes, in list */
    struct vectors *list;
    size_t count;
};

static void release(struct kiln_embedding_loras *known)
{
    for (size_t i = 0; i < known->count; i++)
        free(known->list[i].rows);
    free(known->list);
    kiln_map_release(&known->places);
    *known = (struct kiln_embedding_loras){.count = 0};
}

struct kiln_embedding_loras *kiln_embedding_loras_new(void)
{
    return calloc(1, sizeof(struct kiln_embedding_loras));
}

void kiln_embedding_loras_free(struct kiln_embedding_loras *known)
{
    if (!known)
        return;
    release(known);
    free(known);
}

/* The texts of a LoRA: those that speak for it first. */
struct texts {
    const char *at[TEXTS];
    size_t positive, count;
    char description[KILN_MEANING_TEXT_MAX + 1];
};

static void add_list(struct texts *texts, const struct kiln_texts *list, uint32_t most)
{
    for (uint32_t i = 0; i < list->count && i < most; i++)
        texts->at[texts->count++] = list->at[i];
}

static void collect(const struct kiln_router_lora *lora, struct texts *ret)
{
    ret->count = 0;
    add_list(ret, &lora->examples, KILN_EMBEDDING_POSITIVE);
    if (lora->description && lora->description[0]) {
        kiln_utf8_copy(ret->description, sizeof ret->description, lora->description);
        ret->at[ret->count++] = ret->description;
    }
    if (ret->count == 0)
        add_list(ret, &lora->positive, KILN_EMBEDDING_POSITIVE);
    ret->positive = ret->count;
    add_list(ret, &lora->negative, ret->positive ? KILN_EMBEDDING_NEGATIVE : 0);
}

/* Each text with its NUL, and how many speak for the LoRA. */
static int hash_texts(const struct texts *texts, uint8_t ret[KILN_SHA256_SIZE],
                      struct kiln_error *err)
{
    struct kiln_text all = {0};
    kiln_text_printf(&all, "%zu ", texts->positive);
    for (size_t i = 0; i < texts->count; i++)
        kiln_text_add(&all, texts->at[i], strlen(texts->at[i]) + 1);
    const bool failed = all.failed;
    if (!failed)
        kiln_sha256(all.at, all.len, ret);
    kiln_text_release(&all);
    return failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for the texts of a LoRA") : 0;
}

static uint64_t key_of(const uint8_t hash[KILN_SHA256_SIZE])
{
    uint64_t key;
    memcpy(&key, hash, sizeof key);
    return key ? key : 1;
}

static const struct vectors *find(const struct kiln_embedding_loras *known,
                                  const uint8_t hash[KILN_SHA256_SIZE])
{
    const uint32_t *place = known ? kiln_map_get(&known->places, key_of(hash)) : NULL;
    const struct vectors *found = place ? &known->list[*place] : NULL;
    return found && memcmp(found->hash, hash, KILN_SHA256_SIZE) == 0 ? found : NULL;
}

/* The mean of the first rows, then the others. */
static int embed(const struct kiln_embedding_model *model, const struct texts *texts, int8_t *rows,
                 struct kiln_error *err)
{
    const size_t dims = kiln_embedding_model_dims(model);
    float *values = malloc((texts->count + 1) * dims * sizeof *values);
    int rc = values
                 ? kiln_embedding_model_floats(model, false, texts->at, texts->count, values, err)
                 : kiln_fail(err, KILN_NO_MEMORY, "no memory for vectors");
    for (size_t i = 1; i < texts->positive && !rc; i++)
        for (size_t d = 0; d < dims; d++)
            values[d] += values[i * dims + d];
    if (!rc)
        kiln_meaning_round(values, dims, rows);
    for (size_t i = texts->positive; i < texts->count && !rc; i++)
        kiln_meaning_round(values + i * dims, dims, rows + (i - texts->positive + 1) * dims);
    free(values);
    return rc;
}

static int vectors_of(const struct kiln_embedding_model *model, const struct kiln_router_lora *lora,
                      const struct kiln_embedding_loras *known, struct vectors *ret,
                      struct kiln_error *err)
{
    const size_t dims = kiln_embedding_model_dims(model);
    struct texts texts;
    collect(lora, &texts);
    int rc = hash_texts(&texts, ret->hash, err);
    if (rc)
        return rc;
    ret->negatives = (uint32_t)(texts.count - texts.positive);
    ret->rows = calloc(1 + ret->negatives, dims);
    const struct vectors *same = find(known, ret->hash);
    if (!ret->rows)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for vectors");
    if (same)
        memcpy(ret->rows, same->rows, (1 + ret->negatives) * dims);
    else if (texts.positive > 0)
        rc = embed(model, &texts, ret->rows, err);
    return rc ? kiln_fail_in(err, "LoRA '%s'", lora->name) : 0;
}

static struct kiln_meaning *assemble(const struct kiln_embedding_model *model,
                                     const struct kiln_embedding_loras *fresh)
{
    const size_t dims = kiln_embedding_model_dims(model);
    size_t negatives = 0;
    for (size_t i = 0; i < fresh->count; i++)
        negatives += fresh->list[i].negatives;
    struct kiln_meaning *meaning = kiln_meaning_new(dims, fresh->count, negatives);
    if (!meaning)
        return NULL;
    memcpy(meaning->id, kiln_embedding_model_id(model), strlen(kiln_embedding_model_id(model)) + 1);
    meaning->weights = *kiln_embedding_model_weights(model);
    for (size_t i = 0, at = 0; i < fresh->count; i++) {
        const struct vectors *v = &fresh->list[i];
        kiln_meaning_put(meaning, i, v->rows);
        for (uint32_t n = 0; n < v->negatives; n++)
            kiln_meaning_put(meaning, fresh->count + at++, v->rows + (n + 1) * dims);
        meaning->first[i + 1] = (uint32_t)at;
    }
    return meaning;
}

int kiln_embedding_loras(const struct kiln_embedding_model *model, struct kiln_router *router,
                         struct kiln_embedding_loras *known, bool (*stop)(void *arg), void *arg,
                         struct kiln_error *err)
{
    const size_t count = kiln_router_count(router);
    struct kiln_embedding_loras fresh = {.list = calloc(count + 1, sizeof *fresh.list)};
    struct kiln_meaning *meaning = NULL;
    int rc = fresh.list ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for vectors");
    for (size_t i = 0; i < count && !rc; i++) {
        struct vectors *v = &fresh.list[fresh.count++];
        rc = stop && stop(arg) ? kiln_fail(err, KILN_CANCELLED, "stopped")
                               : vectors_of(model, kiln_router_lora(router, i), known, v, err);
        if (!rc && !kiln_map_put(&fresh.places, key_of(v->hash), (uint32_t)i))
            rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for vectors");
    }
    if (!rc && !(meaning = assemble(model, &fresh)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for vectors");
    if (!rc)
        kiln_router_set_meaning(router, meaning);
    if (!rc && known) {
        release(known);
        *known = fresh;
    } else {
        release(&fresh);
    }
    return rc;
}
