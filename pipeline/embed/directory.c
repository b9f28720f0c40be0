/* directory.c - see directory.h. */
#include "pipeline/embed/directory.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "storage/formats/json_bounds.h"

#define SMALL_FILE_MAX (1024 * 1024)
#define SMALL_DEPTH_MAX 32
#define SMALL_VALUES_MAX 65536
#define LAYERS_MAX 48
#define HEADS_MAX 64
#define INNER_MAX 16384
#define POSITIONS_MAX 8192
#define STATIC_TOKENS_DEFAULT 512 /* model2vec's */

struct reading {
    const char *dir;
    struct kiln_embed_layout *layout;
};

/* The object in dir/folder/name, or *ret NULL if there is no such file; the caller frees it. */
static int read_object(const char *dir, const char *folder, const char *name, json_t **ret,
                       struct kiln_error *err)
{
    char path[PATH_MAX];
    *ret = NULL;
    if (snprintf(path, sizeof path, "%s/%s/%s", dir, folder, name) >= (int)sizeof path)
        return kiln_fail(err, KILN_BAD_INPUT, "%.64s...: the path is too long", dir);
    int rc = kiln_json_file(path, SMALL_FILE_MAX, SMALL_DEPTH_MAX, SMALL_VALUES_MAX, ret, err);
    if (rc == KILN_NOT_FOUND)
        return 0;
    if (!rc && !json_is_object(*ret))
        rc = kiln_fail(err, KILN_CORRUPT, "%s: not an object", path);
    if (rc) {
        json_decref(*ret);
        *ret = NULL;
    }
    return rc;
}

/* A whole number within bounds; the default if it is missing or null. */
static int whole(const json_t *config, const char *file, const char *key, size_t least, size_t most,
                 size_t otherwise, size_t *ret, struct kiln_error *err)
{
    const json_t *value = json_object_get(config, key);
    const json_int_t number = json_integer_value(value);
    *ret = otherwise;
    if ((!value || json_is_null(value)) && otherwise)
        return 0;
    if (!json_is_integer(value) || number < (json_int_t)least || number > (json_int_t)most)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: %s is not a number from %zu to %zu", file, key,
                         least, most);
    *ret = (size_t)number;
    return 0;
}

/* --- modules.json ----------------------------------------------------------------------------- */

struct modules {
    char transformer[128], table[128], pooling[128]; /* folders; "" if the module is missing */
    bool has_transformer, has_table, has_pooling;
};

/* The last part of "sentence_transformers.models.Pooling". */
static const char *last_part(const char *type)
{
    const char *dot = strrchr(type, '.');
    return dot ? dot + 1 : type;
}

/* A folder below the model's own: letters, digits, "_", "-" and dots within it. */
static bool folder_fits(const char *path, char *out, size_t size)
{
    const size_t len = strlen(path);
    const bool plain = strspn(path, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "_-.") == len &&
                       strncmp(path, "..", 2) != 0;
    return plain && snprintf(out, size, "%s", len ? path : ".") < (int)size;
}

static int read_module(const struct reading *r, const json_t *module, struct modules *m,
                       struct kiln_error *err)
{
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *path = json_string_value(json_object_get(module, "path"));
    if (!type || !path)
        return kiln_fail(err, KILN_CORRUPT, "%s/modules.json: a module has no type or path",
                         r->dir);
    const char *name = last_part(type);
    char *folder = NULL;
    bool *has = NULL;
    if (strcmp(name, "Transformer") == 0) {
        folder = m->transformer;
        has = &m->has_transformer;
    } else if (strcmp(name, "StaticEmbedding") == 0) {
        folder = m->table;
        has = &m->has_table;
    } else if (strcmp(name, "Pooling") == 0) {
        folder = m->pooling;
        has = &m->has_pooling;
    } else if (strcmp(name, "Normalize") == 0) { /* rows are always normalised */
        return 0;
    } else {
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "%s/modules.json: module \"%.64s\" is not supported", r->dir, type);
    }
    if (*has)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s/modules.json: two modules %s", r->dir, name);
    if (!folder_fits(path, folder, sizeof m->pooling))
        return kiln_fail(err, KILN_CORRUPT, "%s/modules.json: path \"%.64s\"", r->dir, path);
    *has = true;
    return 0;
}

/* *ret_found: whether there is a modules.json. */
static int read_modules(const struct reading *r, struct modules *m, bool *ret_found,
                        struct kiln_error *err)
{
    char path[PATH_MAX];
    json_t *list = NULL;
    *m = (struct modules){0};
    if (snprintf(path, sizeof path, "%s/modules.json", r->dir) >= (int)sizeof path)
        return kiln_fail(err, KILN_BAD_INPUT, "%.64s...: the path is too long", r->dir);
    int rc = kiln_json_file(path, SMALL_FILE_MAX, SMALL_DEPTH_MAX, SMALL_VALUES_MAX, &list, err);
    *ret_found = rc != KILN_NOT_FOUND;
    if (rc)
        return *ret_found ? rc : 0;
    for (size_t i = 0; i < json_array_size(list) && !rc; i++)
        rc = read_module(r, json_array_get(list, i), m, err);
    if (!rc && m->has_transformer == m->has_table)
        rc = kiln_fail(err, KILN_UNSUPPORTED, "%s: neither a Transformer nor a StaticEmbedding",
                       path);
    json_decref(list);
    return rc;
}

/* --- pooling and lengths ---------------------------------------------------------------------- */

static int read_pooling(const struct reading *r, const char *folder, struct kiln_error *err)
{
    static const char *const others[] = {"max_tokens", "mean_sqrt_len_tokens",
                                         "weightedmean_tokens", "lasttoken"};
    json_t *config;
    int rc = read_object(r->dir, folder, "config.json", &config, err);
    if (rc)
        return rc;
    const char *mode = json_string_value(json_object_get(config, "pooling_mode"));
    const json_t *several = json_object_get(config, "pooling_mode");
    bool cls = json_is_true(json_object_get(config, "pooling_mode_cls_token"));
    bool mean = json_is_true(json_object_get(config, "pooling_mode_mean_tokens"));
    const char *other = NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char key[64];
        snprintf(key, sizeof key, "pooling_mode_%s", others[i]);
        if (json_is_true(json_object_get(config, key)))
            other = others[i];
    }
    if (mode) {
        cls = strcmp(mode, "cls") == 0;
        mean = strcmp(mode, "mean") == 0;
        other = cls || mean ? NULL : mode;
    } else if (several) {
        other = "pooling_mode";
    }
    if (json_is_false(json_object_get(config, "include_prompt")))
        other = "include_prompt: false";
    if (cls && mean)
        other = "cls and mean together";
    if (!config)
        rc = kiln_fail(err, KILN_CORRUPT, "%s/%s: no config.json", r->dir, folder);
    else if (other || !(cls || mean))
        rc = kiln_fail(err, KILN_UNSUPPORTED,
                       "%s/%s/config.json: pooling \"%.64s\" is not supported", r->dir, folder,
                       other ? other : "none");
    r->layout->pooling = cls ? KILN_EMBED_CLS : KILN_EMBED_MEAN;
    json_decref(config);
    return rc;
}

/* tokens_max: what sentence-transformers itself would take, not tokenizer.json's truncation. */
static int read_length(const struct reading *r, const char *folder, struct kiln_error *err)
{
    struct kiln_embed_layout *l = r->layout;
    json_t *own = NULL, *tokenizer = NULL;
    int rc = read_object(r->dir, folder, "sentence_bert_config.json", &own, err);
    rc = rc ? rc : read_object(r->dir, folder, "tokenizer_config.json", &tokenizer, err);
    const json_t *length = json_object_get(own, "max_seq_length");
    const json_t *limit = json_object_get(tokenizer, "model_max_length");
    const json_t *lower = json_object_get(tokenizer, "do_lower_case");
    l->tokens_max = l->positions;
    if (json_is_integer(length) && json_integer_value(length) > 2)
        l->tokens_max = (size_t)json_integer_value(length);
    else if (json_is_number(limit) && json_number_value(limit) > 2 &&
             json_number_value(limit) < (double)l->positions)
        l->tokens_max = (size_t)json_number_value(limit);
    if (l->tokens_max > l->positions)
        l->tokens_max = l->positions;
    l->lowercase = json_is_boolean(lower) ? json_is_true(lower) : -1;
    if (!rc && json_is_true(json_object_get(own, "do_lower_case")))
        rc = kiln_fail(err, KILN_UNSUPPORTED,
                       "%s: do_lower_case of sentence_bert_config.json is not supported", r->dir);
    json_decref(own);
    json_decref(tokenizer);
    return rc;
}

/* --- config.json ------------------------------------------------------------------------------ */

static int read_bert(const struct reading *r, const char *folder, const json_t *config,
                     struct kiln_error *err)
{
    struct kiln_embed_layout *l = r->layout;
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const char *act = json_string_value(json_object_get(config, "hidden_act"));
    const char *positions = json_string_value(json_object_get(config, "position_embedding_type"));
    const json_t *eps = json_object_get(config, "layer_norm_eps");
    if (!type || strcmp(type, "bert") != 0)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: model_type \"%.64s\" is not supported", r->dir,
                         type ? type : "");
    if (act && strcmp(act, "gelu") != 0 && strcmp(act, "gelu_new") != 0 &&
        strcmp(act, "gelu_pytorch_tanh") != 0)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: hidden_act \"%.64s\" is not supported", r->dir,
                         act);
    if (positions && strcmp(positions, "absolute") != 0)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "%s: position_embedding_type \"%.64s\" is not supported", r->dir,
                         positions);
    if (json_is_true(json_object_get(config, "is_decoder")))
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: is_decoder is not supported", r->dir);
    l->tanh_gelu = act && strcmp(act, "gelu") != 0;
    l->norm_eps = json_is_number(eps) ? (float)json_number_value(eps) : 1e-12f;
    if (!(l->norm_eps >= 0 && l->norm_eps < 1))
        return kiln_fail(err, KILN_CORRUPT, "%s: layer_norm_eps", r->dir);
    int rc = whole(config, r->dir, "num_hidden_layers", 1, LAYERS_MAX, 0, &l->layers, err);
    if (!rc)
        rc = whole(config, r->dir, "hidden_size", 1, KILN_EMBED_DIMS_MAX, 0, &l->width, err);
    rc = rc ? rc : whole(config, r->dir, "num_attention_heads", 1, HEADS_MAX, 0, &l->heads, err);
    rc = rc ? rc : whole(config, r->dir, "intermediate_size", 1, INNER_MAX, 0, &l->inner, err);
    if (!rc)
        rc = whole(config, r->dir, "max_position_embeddings", 3, POSITIONS_MAX, 512, &l->positions,
                   err);
    if (!rc && l->width % l->heads != 0)
        rc = kiln_fail(err, KILN_CORRUPT, "%s: hidden_size %zu is not a multiple of %zu heads",
                       r->dir, l->width, l->heads);
    return rc ? rc : read_length(r, folder, err);
}

static int read_static(const struct reading *r, const json_t *config, struct kiln_error *err)
{
    const json_t *length = json_object_get(config, "max_length");
    r->layout->tokens_max = STATIC_TOKENS_DEFAULT;
    if (json_is_null(length)) {
        r->layout->tokens_max = 0;
        return 0;
    }
    return whole(config, r->dir, "max_length", 1, 1 << 20, STATIC_TOKENS_DEFAULT,
                 &r->layout->tokens_max, err);
}

/* --- prefixes --------------------------------------------------------------------------------- */

/* Checkpoints whose cards ask for prefixes that their files do not name.  Matched anywhere in the
 * path, since the hub's cache has the name above a folder named by hash. */
static const struct {
    const char *name, *query, *passage;
} known_prefixes[] = {
    {"multilingual-e5-", "query: ", "passage: "},
    {"e5-small", "query: ", "passage: "},
    {"e5-base", "query: ", "passage: "},
    {"e5-large", "query: ", "passage: "},
    {"bge-small-en", "Represent this sentence for searching relevant passages: ", ""},
    {"bge-base-en", "Represent this sentence for searching relevant passages: ", ""},
    {"bge-large-en", "Represent this sentence for searching relevant passages: ", ""},
};

static int set_prefix(char *out, const char *prefix, const char *dir, struct kiln_error *err)
{
    if (prefix && snprintf(out, KILN_EMBED_PREFIX_MAX, "%s", prefix) >= KILN_EMBED_PREFIX_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: a prefix is longer than %d bytes", dir,
                         KILN_EMBED_PREFIX_MAX - 1);
    return 0;
}

static int read_prefixes(const struct reading *r, const struct kiln_embed_options *options,
                         struct kiln_error *err)
{
    static const char *const passages[] = {"passage", "document", "corpus"};
    json_t *config;
    const char *query = NULL, *passage = NULL;
    int rc = read_object(r->dir, ".", "config_sentence_transformers.json", &config, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < sizeof known_prefixes / sizeof *known_prefixes && !query; i++)
        if (strcasestr(r->dir, known_prefixes[i].name)) {
            query = known_prefixes[i].query;
            passage = known_prefixes[i].passage;
        }
    const json_t *prompts = json_object_get(config, "prompts");
    const char *own = json_string_value(json_object_get(prompts, "query"));
    /* Recent versions write "" for both if nothing was set, which says nothing. */
    query = own && *own ? own : query;
    for (size_t i = 0; i < sizeof passages / sizeof *passages; i++) {
        own = json_string_value(json_object_get(prompts, passages[i]));
        passage = own && *own ? own : passage;
    }
    query = options && options->query_prefix ? options->query_prefix : query;
    passage = options && options->passage_prefix ? options->passage_prefix : passage;
    rc = set_prefix(r->layout->query_prefix, query, r->dir, err);
    rc = rc ? rc : set_prefix(r->layout->passage_prefix, passage, r->dir, err);
    json_decref(config);
    return rc;
}

/* --- all -------------------------------------------------------------------------------------- */

static int set_paths(const struct reading *r, const char *folder, struct kiln_error *err)
{
    struct kiln_embed_layout *l = r->layout;
    const bool here = strcmp(folder, ".") == 0;
    if (asprintf(&l->tensors, "%s%s%s/model.safetensors", r->dir, here ? "" : "/",
                 here ? "" : folder) < 0)
        l->tensors = NULL;
    if (asprintf(&l->tokenizer, "%s%s%s/tokenizer.json", r->dir, here ? "" : "/",
                 here ? "" : folder) < 0)
        l->tokenizer = NULL;
    if (!l->tensors || !l->tokenizer)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open %s", r->dir);
    if (access(l->tensors, F_OK) != 0)
        return kiln_fail(err, KILN_NOT_FOUND,
                         "%s: there is no such file (weights in other formats are not read)",
                         l->tensors);
    return 0;
}

int kiln_embed_layout_read(const char *dir, const struct kiln_embed_options *options,
                           struct kiln_embed_layout *ret, struct kiln_error *err)
{
    const struct reading r = {dir, ret};
    struct modules m;
    json_t *config = NULL;
    bool found = false;
    *ret = (struct kiln_embed_layout){.lowercase = -1};
    int rc = read_modules(&r, &m, &found, err);
    const char *folder = m.has_transformer ? m.transformer : m.has_table ? m.table : ".";
    rc = rc ? rc : read_object(dir, folder, "config.json", &config, err);
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const bool table = found ? m.has_table : !type || strcmp(type, "model2vec") == 0;
    ret->type = table ? KILN_EMBED_STATIC : KILN_EMBED_BERT;
    rc = rc ? rc : set_paths(&r, folder, err);
    if (!rc && !table && !config)
        rc = kiln_fail(err, KILN_NOT_FOUND, "%s/%s: no config.json", dir, folder);
    if (!rc)
        rc = table ? read_static(&r, config, err) : read_bert(&r, folder, config, err);
    if (!rc && m.has_pooling)
        rc = read_pooling(&r, m.pooling, err);
    if (!rc)
        rc = read_prefixes(&r, options, err);
    json_decref(config);
    return rc;
}

void kiln_embed_layout_release(struct kiln_embed_layout *layout)
{
    free(layout->tensors);
    free(layout->tokenizer);
    *layout = (struct kiln_embed_layout){0};
}
