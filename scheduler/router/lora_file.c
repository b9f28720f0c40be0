/* lora_file.c - see lora_file.h. */
#include "scheduler/router/lora_file.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/router/learn.h"
#include "schemas/names.h"
#include "schemas/text/text.h"
#include "schemas/text/utf8.h"

static const char *const categories[] = {"style", "subject", "character", "effect", "motion", NULL};
static const char *const types[] = {"image", "video", "both", NULL};
static const char *const modes[] = {"any", "one", "never", NULL};

const char *kiln_lora_category_name(enum kiln_lora_category category)
{
    return category < KILN_LORA_CATEGORIES ? categories[category] : NULL;
}

int kiln_lora_text_steers(const char *text)
{
    for (size_t left = strlen(text), len; left; text += len, left -= len) {
        len = kiln_utf8_length(text, left);
        const int code = len ? kiln_utf8_steering(text, len) : 0;
        if (code >= 0)
            return code;
    }
    return -1;
}

void kiln_lora_file_forget(json_t *entry)
{
    static const char *const keys[] = {"file", "layout", "rank", "bias"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        (void)json_object_del(entry, keys[i]);
}

struct place { /* for messages */
    const char *where, *name;
    size_t number;
};

static int wrong(const struct place *place, const char *key, const char *what,
                 struct kiln_error *err)
{
    if (place->name)
        return kiln_fail(err, KILN_BAD_INPUT, "%s, LoRA '%.64s': '%.40s' %s", place->where,
                         place->name, key, what);
    return kiln_fail(err, KILN_BAD_INPUT, "%s, LoRA %zu: '%.40s' %s", place->where, place->number,
                     key, what);
}

static int read_name(const struct place *place, const char *key, const json_t *value,
                     char ret[KILN_NAME_MAX + 1], struct kiln_error *err)
{
    if (!json_is_string(value) || json_string_length(value) > KILN_NAME_MAX)
        return wrong(place, key, "must be a text of at most 64 bytes", err);
    kiln_utf8_copy(ret, KILN_NAME_MAX + 1, json_string_value(value));
    return 0;
}

static int read_choice(const struct place *place, const char *key, const json_t *value,
                       const char *const *choices, unsigned *ret, struct kiln_error *err)
{
    for (unsigned i = 0; json_is_string(value) && choices[i]; i++)
        if (strcmp(choices[i], json_string_value(value)) == 0) {
            *ret = i;
            return 0;
        }
    char what[128];
    size_t at = (size_t)snprintf(what, sizeof what, "must be one of");
    for (unsigned i = 0; choices[i]; i++)
        at += (size_t)snprintf(what + at, sizeof what - at, "%s%s", i ? ", " : " ", choices[i]);
    return wrong(place, key, what, err);
}

static int read_texts(const struct place *place, const char *key, const json_t *value,
                      struct kiln_texts *ret, struct kiln_error *err)
{
    if (!json_is_array(value))
        return wrong(place, key, "must be a list of texts", err);
    ret->at = calloc(json_array_size(value) + 1, sizeof *ret->at);
    if (!ret->at)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for LoRAs");
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *text = json_string_value(json_array_get(value, i));
        if (!text || !*text)
            return wrong(place, key, "must be a list of texts that are not empty", err);
        ret->at[ret->count] = strdup(text);
        if (!ret->at[ret->count++])
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for LoRAs");
    }
    return 0;
}

static int read_number(const struct place *place, const char *key, const json_t *value, double *ret,
                       struct kiln_error *err)
{
    if (!json_is_number(value))
        return wrong(place, key, "must be a number", err);
    *ret = json_number_value(value);
    return 0;
}

static int read_bias(const struct place *place, const char *key, const json_t *value,
                     struct kiln_router_lora *lora, struct kiln_error *err)
{
    const double most = KILN_LEARN_MOST / 1000.0;
    const double bias = json_is_number(value) ? json_number_value(value) : 1;
    if (!(fabs(bias) <= most))
        return wrong(place, key, "must be a number from -0.5 to 0.5", err);
    lora->bias = (int)lround(1000 * bias);
    return 0;
}

static int read_bool(const struct place *place, const char *key, const json_t *value, bool *ret,
                     struct kiln_error *err)
{
    if (!json_is_boolean(value))
        return wrong(place, key, "must be true or false", err);
    *ret = json_is_true(value);
    return 0;
}

static int read_text(const struct place *place, const char *key, const json_t *value, char **ret,
                     struct kiln_error *err)
{
    if (!json_is_string(value))
        return wrong(place, key, "must be a text", err);
    *ret = strdup(json_string_value(value));
    return *ret ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for LoRAs");
}

/* What a trainer wrote about the file; the router does not need it. */
static bool ignored(const char *key)
{
    static const char *const keys[] = {"name", "file", "layout", "rank", "source"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static int read_key(const struct place *place, const char *key, const json_t *value,
                    struct kiln_router_lora *lora, struct kiln_error *err)
{
    unsigned choice = 0;
    bool yes = false;
    int rc;
#define IS(name) (strcmp(key, name) == 0)
    if (ignored(key))
        return 0;
    if (IS("base"))
        return read_name(place, key, value, lora->base, err);
    if (IS("variant"))
        return read_name(place, key, value, lora->variant, err);
    if (IS("tenant"))
        return read_name(place, key, value, lora->tenant, err);
    if (IS("family"))
        return read_name(place, key, value, lora->family, err);
    if (IS("triggers"))
        return read_texts(place, key, value, &lora->triggers, err);
    if (IS("positive"))
        return read_texts(place, key, value, &lora->positive, err);
    if (IS("negative"))
        return read_texts(place, key, value, &lora->negative, err);
    if (IS("examples"))
        return read_texts(place, key, value, &lora->examples, err);
    if (IS("description"))
        return read_text(place, key, value, &lora->description, err);
    if (IS("licence"))
        return read_text(place, key, value, &lora->licence, err);
    if (IS("scale"))
        return read_number(place, key, value, &lora->scale, err);
    if (IS("min"))
        return read_number(place, key, value, &lora->min, err);
    if (IS("max"))
        return read_number(place, key, value, &lora->max, err);
    if (IS("bias"))
        return read_bias(place, key, value, lora, err);
    if (IS("enabled"))
        return read_bool(place, key, value, &lora->enabled, err);
    if (IS("commercial")) {
        rc = read_bool(place, key, value, &yes, err);
        lora->commercial = yes ? KILN_COMMERCIAL_YES : KILN_COMMERCIAL_NO;
        return rc;
    }
    if (IS("category")) {
        rc = read_choice(place, key, value, categories, &choice, err);
        lora->category = choice;
        return rc;
    }
    if (IS("type")) {
        rc = read_choice(place, key, value, types, &choice, err);
        lora->type = choice;
        return rc;
    }
    if (IS("trigger_mode")) {
        rc = read_choice(place, key, value, modes, &choice, err);
        lora->trigger_mode = choice;
        return rc;
    }
#undef IS
    return wrong(place, key, "is not a key of LoRAs", err);
}

static int read_lora(const json_t *row, const char *where, size_t number,
                     struct kiln_router_lora *lora, struct kiln_error *err)
{
    struct place place = {where, json_string_value(json_object_get(row, "name")), number};
    const char *key;
    json_t *value;
    *lora = (struct kiln_router_lora){.enabled = true, .scale = 1, .min = -4, .max = 4};
    if (!place.name)
        return kiln_fail(err, KILN_BAD_INPUT, "%s, LoRA %zu: it has no 'name'", where, number);
    int rc = read_name(&place, "name", json_object_get(row, "name"), lora->name, err);
    if (!rc && !kiln_name_valid(lora->name, strlen(lora->name), KILN_NAME_MAX))
        rc = wrong(&place, "name", "must be " KILN_NAME_RULE, err);
    json_object_foreach((json_t *)row, key, value)
    {
        rc = rc ? rc : read_key(&place, key, value, lora, err);
    }
    return rc;
}

int kiln_lora_file_read(const char *text, size_t len, const char *where,
                        struct kiln_router_lora **ret, size_t *ret_count, struct kiln_error *err)
{
    json_error_t at;
    if (len > KILN_LORA_FILE_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: %zu bytes; at most %d", where, len,
                         KILN_LORA_FILE_MAX);
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &at);
    if (!root)
        return kiln_fail(err, KILN_BAD_INPUT, "%s, line %d: %s", where, at.line, at.text);
    const json_t *list = json_object_get(root, "loras");
    const size_t count = json_array_size(list);
    struct kiln_router_lora *loras = calloc(count + 1, sizeof *loras);
    size_t number = 0;
    int rc = 0;
    if (!json_is_array(list))
        rc = kiln_fail(err, KILN_BAD_INPUT, "%s: there is no list 'loras'", where);
    else if (!loras)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for LoRAs");
    else if (count > KILN_ROUTER_LORAS_MAX)
        rc = kiln_fail(err, KILN_BAD_INPUT, "%s: %zu LoRAs; at most %d", where, count,
                       KILN_ROUTER_LORAS_MAX);
    for (; number < count && !rc; number++)
        rc = read_lora(json_array_get(list, number), where, number + 1, &loras[number], err);
    json_decref(root);
    if (rc) {
        for (size_t i = 0; loras && i < number; i++)
            kiln_router_lora_release(&loras[i]);
        free(loras);
        return rc;
    }
    *ret = loras;
    *ret_count = count;
    return 0;
}

int kiln_lora_file_try(const char *lora, const char *where, const struct kiln_lexicon *lexicon,
                       struct kiln_lora_facts *ret, struct kiln_error *err)
{
    struct kiln_router_lora *loras = NULL;
    struct kiln_router *router = NULL;
    struct kiln_lora_facts facts;
    struct kiln_text file = {0};
    size_t count = 0;
    if (strlen(lora) > KILN_LORA_ENTRY_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: a LoRA with %zu bytes of texts; at most %d",
                         where, strlen(lora), KILN_LORA_ENTRY_MAX);
    kiln_text_printf(&file, "{\"loras\":[%s]}", lora);
    int rc = file.failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for the texts of a LoRA")
                         : kiln_lora_file_read(file.at, file.len, where, &loras, &count, err);
    kiln_text_release(&file);
    if (rc)
        return rc;
    facts.enabled = loras->enabled;
    facts.routable = loras->enabled && (loras->triggers.count || loras->positive.count ||
                                        loras->examples.count || loras->description);
    memcpy(facts.tenant, loras->tenant, sizeof facts.tenant);
    rc = kiln_router_build(loras, count, 0, lexicon, &router, err);
    if (rc)
        return rc;
    kiln_router_free(router);
    *ret = facts;
    return 0;
}
