/* entry.c - see entry.h. */
#include "scheduler/cli/lora/entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/router/lora_file.h"
#include "scheduler/router/tokens.h"
#include "scheduler/router/word_lists.h"
#include "schemas/text/text.h"
#include "schemas/text/utf8.h"

#define PHRASES_SHOWN 40 /* of a concept, which may have hundreds */

/* --- options ---------------------------------------------------------------------------------- */

/* Options whose value is a text, a number, or phrases with commas between. */
static const struct {
    const char *option, *key;
    enum { TEXT, NUMBER, PHRASES, PROMPTS } kind;
} keys[] = {{"triggers", "triggers", PHRASES},
            {"positive", "positive", PHRASES},
            {"negative", "negative", PHRASES},
            {"examples", "examples", PROMPTS},
            {"description", "description", TEXT},
            {"category", "category", TEXT},
            {"type", "type", TEXT},
            {"base", "base", TEXT},
            {"variant", "variant", TEXT},
            {"family", "family", TEXT},
            {"of-tenant", "tenant", TEXT},
            {"trigger-mode", "trigger_mode", TEXT},
            {"licence", "licence", TEXT},
            {"source", "source", TEXT},
            {"scale", "scale", NUMBER},
            {"min", "min", NUMBER},
            {"max", "max", NUMBER}};

static void add_phrase(json_t *list, const char *at, size_t len)
{
    for (; len && *at == ' '; at++)
        len--;
    while (len && at[len - 1] == ' ')
        len--;
    if (len)
        (void)json_array_append_new(list, json_stringn(at, len));
}

/* All values that were given for an option. */
static json_t *phrases_of(const struct kiln_args *args, const char *option, bool whole)
{
    json_t *list = json_array();
    for (int i = 0; i < args->given_count; i++) {
        const char *at = args->given[i].value;
        if (strcmp(args->given[i].option->name, option) != 0)
            continue;
        for (size_t len; *at; at += len + (at[len] == ',')) {
            len = whole ? strlen(at) : strcspn(at, ",");
            add_phrase(list, at, len);
        }
    }
    return list;
}

static int set_key(struct kiln_cli *cli, const struct kiln_args *args, size_t k, json_t *entry)
{
    const char *value = kiln_arg(args, keys[k].option);
    char *end;
    if (!value)
        return 0;
    if (!*value) {
        (void)json_object_del(entry, keys[k].key);
        return 0;
    }
    if (keys[k].kind == TEXT) {
        if (json_object_set_new(entry, keys[k].key, json_string(value)))
            return kiln_usage(cli, "--%s is not UTF-8", keys[k].option);
        return 0;
    }
    if (keys[k].kind == NUMBER) {
        const double number = strtod(value, &end);
        if (*end || json_object_set_new(entry, keys[k].key, json_real(number)))
            return kiln_usage(cli, "--%s '%.40s' is not a number", keys[k].option, value);
        return 0;
    }
    json_t *list = phrases_of(args, keys[k].option, keys[k].kind == PROMPTS);
    if (json_array_size(list) == 0) {
        json_decref(list);
        return kiln_usage(cli, "--%s '%.40s' holds no phrase in UTF-8", keys[k].option, value);
    }
    (void)json_object_set_new(entry, keys[k].key, list);
    return 0;
}

int kiln_lora_entry_options(struct kiln_cli *cli, const struct kiln_args *args, json_t *entry)
{
    const char *commercial = kiln_arg(args, "commercial-use");
    int status = 0;
    for (size_t k = 0; k < sizeof keys / sizeof *keys && !status; k++)
        status = set_key(cli, args, k, entry);
    if (status)
        return status;
    if (kiln_arg(args, "enable") && kiln_arg(args, "disable"))
        return kiln_usage(cli, "--enable and --disable exclude each other");
    if (kiln_arg(args, "disable"))
        (void)json_object_set_new(entry, "enabled", json_false());
    if (kiln_arg(args, "enable"))
        (void)json_object_del(entry, "enabled");
    if (!commercial)
        return 0;
    if (strcmp(commercial, "unknown") == 0)
        (void)json_object_del(entry, "commercial");
    else if (strcmp(commercial, "yes") == 0 || strcmp(commercial, "no") == 0)
        (void)json_object_set_new(entry, "commercial", json_boolean(*commercial == 'y'));
    else
        return kiln_usage(cli, "--commercial-use '%.40s' is not yes, no or unknown", commercial);
    return 0;
}

/* --- checks ----------------------------------------------------------------------------------- */

static int check_texts(const char *key, const json_t *value, const char *where,
                       struct kiln_error *err)
{
    size_t i;
    const json_t *item;
    int code = json_is_string(value) ? kiln_lora_text_steers(json_string_value(value)) : -1;
    json_array_foreach(value, i, item)
    {
        if (json_is_string(item) && code < 0)
            code = kiln_lora_text_steers(json_string_value(item));
    }
    if (code < 0)
        return 0;
    return kiln_fail(err, KILN_BAD_INPUT, "%s: '%.40s' has the control character U+%04X", where,
                     key, (unsigned)code);
}

int kiln_lora_entry_check(const json_t *entry, const char *where,
                          const struct kiln_lexicon *lexicon, struct kiln_lora_facts *ret,
                          char **ret_text, struct kiln_error *err)
{
    const char *key;
    json_t *value;
    int rc = 0;
    json_object_foreach((json_t *)entry, key, value)
    {
        rc = rc ? rc : check_texts(key, value, where, err);
    }
    if (rc)
        return rc;
    char *text = json_dumps(entry, JSON_COMPACT);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the texts of a LoRA");
    rc = kiln_lora_file_try(text, where, lexicon, ret, err);
    if (rc)
        free(text);
    else
        *ret_text = text;
    return rc;
}

void kiln_lora_clean_text(const char *text, char *out, size_t most)
{
    size_t used = 0;
    for (size_t left = strlen(text), len; left && used < most; text += len, left -= len) {
        len = kiln_utf8_length(text, left);
        const bool bad = len == 0 || *text == ' ' || kiln_utf8_steering(text, len) >= 0;
        len = len ? len : 1;
        if (!bad && used + len > most)
            break;
        if (bad && used && out[used - 1] != ' ') /* blanks are one */
            out[used++] = ' ';
        else if (!bad) {
            memcpy(out + used, text, len);
            used += len;
        }
    }
    while (used && out[used - 1] == ' ')
        used--;
    out[used] = '\0';
}

/* --- what a person should know ---------------------------------------------------------------- */

/* The phrase's hash; *ret_praise: each of its words is in every prompt. */
static uint64_t hash_of(const struct kiln_lexicon *lexicon, const char *text, bool *ret_praise)
{
    struct kiln_route_tokens tokens = {0};
    struct kiln_error err;
    uint64_t hash = 0;
    *ret_praise = true;
    if (kiln_route_tokens_add(&tokens, text, strlen(text), false, &err) == 0 && tokens.count) {
        hash = kiln_route_tokens_phrase(tokens.at, tokens.count);
        for (size_t i = 0; i < tokens.count; i++)
            *ret_praise &= (kiln_lexicon_classes(lexicon, tokens.at[i].form) &
                            (KILN_WORD_SMALL | KILN_WORD_PRAISE)) != 0;
    }
    kiln_route_tokens_release(&tokens);
    return hash;
}

/* The name of another LoRA that has the trigger, or NULL. */
static const char *owner_of(const json_t *others, const char *name, uint64_t hash,
                            const struct kiln_lexicon *lexicon)
{
    size_t i, k;
    const json_t *lora, *trigger;
    bool praise;
    json_array_foreach(json_object_get(others, "loras"), i, lora)
    {
        const char *other = json_string_value(json_object_get(lora, "name"));
        if (!other || strcmp(other, name) == 0)
            continue;
        json_array_foreach(json_object_get(lora, "triggers"), k, trigger)
        {
            if (hash && hash_of(lexicon, json_string_value(trigger), &praise) == hash)
                return other;
        }
    }
    return NULL;
}

/* Each concept once, however many of its phrases the LoRA has. */
static void explain_lexicon(const struct kiln_cli *cli, const char *text, uint64_t hash,
                            const struct kiln_lexicon *lexicon, bool *told)
{
    const int32_t number = hash ? kiln_lexicon_find(lexicon, hash) : -1;
    struct kiln_text list = {0};
    if (number < 0 || !told || told[number])
        return;
    told[number] = true;
    const struct kiln_concept *concept = kiln_lexicon_concept(lexicon, number);
    bool praise;
    size_t shown = 0, rest = 0;
    for (size_t i = 0; i < concept->count; i++) {
        const char *phrase = concept->phrases[i].text;
        if (hash_of(lexicon, phrase, &praise) == hash)
            continue;
        if (shown < PHRASES_SHOWN)
            kiln_text_printf(&list, "%s%s", shown++ ? ", " : "", phrase);
        else
            rest++;
    }
    if (rest)
        kiln_text_printf(&list, " and %zu more", rest);
    if (list.len && !list.failed)
        kiln_say(cli, "      the lexicon adds to '%s': %s (--negative leaves one out)", text,
                 list.at);
    kiln_text_release(&list);
}

void kiln_lora_entry_explain(const struct kiln_cli *cli, const json_t *entry,
                             const struct kiln_lexicon *lexicon, const char *others)
{
    static const char *const lists[] = {"triggers", "positive"};
    const char *name = json_string_value(json_object_get(entry, "name"));
    json_t *rest = others ? json_loads(others, 0, NULL) : NULL;
    bool *told = calloc(kiln_lexicon_count(lexicon) + 1, sizeof *told); /* without, it says less */
    size_t i;
    const json_t *text;
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        json_array_foreach(json_object_get(entry, lists[l]), i, text)
        {
            bool praise;
            const char *phrase = json_string_value(text);
            const uint64_t hash = hash_of(lexicon, phrase, &praise);
            const char *owner = l == 0 ? owner_of(rest, name, hash, lexicon) : NULL;
            if (praise)
                kiln_warn(cli, "%s: '%s' is in prompts of every kind, so the router ignores it",
                          name, phrase);
            if (owner)
                kiln_warn(cli,
                          "%s: LoRA '%s' has the trigger '%s' too; the one whose other words "
                          "fit better is chosen",
                          name, owner, phrase);
            explain_lexicon(cli, phrase, hash, lexicon, told);
        }
    json_decref(rest);
    free(told);
}
