/* weight_sets.c - the weight sets of an engine: the model's transformer, and those that its
 * kiln.json names for some of the steps.
 *
 * Text encoder, VAE and tokenizer serve all sets.  Each has its LoRAs and its time table, which
 * hold products of its weights, so going from one set to another loads and makes nothing.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/engine/engine.h"
#include "pipeline/weights/loading.h"
#include "storage/formats/card/model_card.h"

static struct kiln_weight_set *add(struct kiln_engine *e, const char *folder)
{
    struct kiln_weight_set *set = &e->sets[e->set_count++];
    set->e = e;
    snprintf(set->folder, sizeof set->folder, "%s", folder);
    return set;
}

int kiln_engine_sets_list(struct kiln_engine *e, const char *dir, bool random,
                          struct kiln_error *err)
{
    struct kiln_model_card card;
    char path[PATH_MAX];
    add(e, "transformer");
    int code = kiln_model_card_read(dir, &card, err);
    e->renewed = code ? 0 : card.noise;
    for (uint32_t i = 0; !code && i < card.weight_count; i++) {
        const struct kiln_card_weights *w = &card.weights[i];
        if (!w->transformer || kiln_engine_set(e, w->path) > 0)
            continue;
        struct kiln_error why;
        code = kiln_model_config_same(dir, w->path, &e->config.transformer, &why);
        if (code)
            return kiln_fail(err, code, "%s/kiln.json: \"transformer\": \"%s\": %s", dir, w->path,
                             why.text);
        add(e, w->path);
    }
    for (uint32_t i = 0; !code && !random && i < card.weight_count; i++) {
        if (!card.weights[i].transformer)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, card.weights[i].path);
        kiln_loading_note(path, 0, 0);
        code = kiln_card_weights_are(&card.weights[i], dir, err);
    }
    return code;
}

int kiln_engine_set(const struct kiln_engine *e, const char *folder)
{
    for (int i = 0; i < e->set_count; i++)
        if (strcmp(e->sets[i].folder, folder) == 0)
            return i;
    return -1;
}

int kiln_engine_sets_load(struct kiln_engine *e, const char *dir, bool random,
                          enum kt_dtype matrices, struct kiln_fp8_cache *cache,
                          struct kiln_error *err)
{
    char path[PATH_MAX], name[KILN_CARD_PATH];
    int code = 0;
    for (int i = 0; i < e->set_count && !code; i++) {
        struct kiln_weight_set *set = &e->sets[i];
        snprintf(path, sizeof path, "%s/%s", dir, set->folder);
        snprintf(name, sizeof name, i ? "transformer.%d" : "transformer", i);
        code = kiln_transformer_load(random ? NULL : path, &e->config.transformer, e->weights,
                                     matrices, cache, name, &set->params, &set->transformer, err);
    }
    return code;
}

void kiln_engine_sets_release(struct kiln_engine *e)
{
    for (int i = e->set_count - 1; i >= 0; i--) { /* the first one's LoRAs serve the others */
        struct kiln_weight_set *set = &e->sets[i];
        kt_scope_free(set->times_scope);
        kiln_loras_free(set->loras);
        kiln_param_table_release(&set->params);
        kiln_transformer_free(set->transformer);
    }
}

/* --- their LoRAs ------------------------------------------------------------------------------ */

/* The folder may hold another model by now. */
static int check_same_model(const struct kiln_engine *e, struct kiln_error *err)
{
    char hash[KILN_MODEL_HASH_LEN + 1];
    if (e->random_weights)
        return 0;
    int code = kiln_model_hash(e->dir, hash, err);
    if (!code && strcmp(hash, e->hash) != 0)
        code = kiln_fail(err, KILN_CORRUPT,
                         "%s: another model has been put there (%s) since the one in use (%s) was "
                         "loaded; open it again",
                         e->dir, hash, e->hash);
    return code;
}

/* Loads the transformer again without quantising it; ret[i] is the matrix of module i.  Checks the
 * model before, for the better message, and after, since files may have been replaced meanwhile. */
static int load_plain(void *arg, struct kt_scope *scope, kt *ret, struct kiln_error *err)
{
    const struct kiln_weight_set *set = arg;
    const struct kiln_engine *e = set->e;
    struct kiln_param_table params = {0};
    struct kiln_transformer *t = NULL;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", e->dir, set->folder);
    int code = check_same_model(e, err);
    if (!code)
        code = kiln_transformer_load(e->random_weights ? NULL : path, &e->config.transformer, scope,
                                     e->dtype, NULL, "", &params, &t, err);
    code = code ? code : check_same_model(e, err);
    if (!code && params.count != set->params.count)
        code = kiln_fail(err, KILN_CORRUPT, "%s: it is another model than the one in use", path);
    for (size_t i = 0; !code && i < params.count; i++)
        ret[i] = *params.items[i].slot;
    kiln_param_table_release(&params);
    kiln_transformer_free(t);
    return code;
}

int kiln_engine_loras_open(struct kiln_engine *e, struct kiln_error *err)
{
    for (int i = 0; i < e->set_count; i++) {
        struct kiln_weight_set *set = &e->sets[i];
        const struct kiln_lora_plain of = {.load = load_plain, .arg = set};
        const struct kiln_lora_plain *plain = e->e4m3 ? &of : NULL;
        set->loras = i ? kiln_loras_new_beside(e->sets[0].loras, &set->params, plain)
                       : kiln_loras_new(&set->params, e->device, e->dtype, plain);
        if (!set->loras)
            return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for its LoRAs", e->dir);
    }
    return 0;
}

int kiln_engine_loras(struct kiln_weight_set *set, const struct kiln_lora_use *uses, size_t count,
                      struct kiln_error *err)
{
    bool changed = false;
    kt_threads_set(set->e->threads); /* merging on the CPU uses this thread's operations */
    int code = kiln_loras_set(set->loras, uses, count, &changed, err);
    if (changed)
        kiln_engine_drop_times(set);
    return code;
}

/* --- their time tables ------------------------------------------------------------------------ */

void kiln_engine_drop_times(struct kiln_weight_set *set)
{
    kt_scope_free(set->times_scope);
    set->times = set->strides = NULL;
    set->times_scope = NULL;
    set->times_key.steps = 0;
}

int kiln_engine_times(struct kiln_weight_set *set, const struct kiln_time_key *key,
                      struct kiln_error *err)
{
    if (memcmp(key, &set->times_key, sizeof *key) == 0)
        return 0;
    kiln_engine_drop_times(set);
    set->times_scope = kt_scope_new(set->e->device);
    set->times = kiln_time_table(set->transformer, set->times_scope, key->times, key->steps);
    set->strides =
        kt_from_host(set->times_scope, key->strides, KT_F32, KT_F32, 1, (int64_t[]){key->steps});
    set->times_key = *key;
    int code = kt_scope_check(set->times_scope, err);
    if (code)
        kiln_engine_drop_times(set);
    return code;
}
