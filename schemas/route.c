/* route.c - see route.h. */
#include "schemas/route.h"

#include <string.h>

#include "schemas/text/json.h"
#include "schemas/text/text.h"

static void note_choice(const struct kiln_job *job, struct kiln_route_entry *entry)
{
    for (uint32_t i = 0; i < job->lora_count; i++)
        if (strcmp(job->loras[i].name, entry->name) == 0) {
            entry->chosen = true;
            entry->scale = job->loras[i].scale;
        }
}

/* ["neon",0.97,"trigger neon glow"] */
static bool read_entry(const struct kiln_json_value *list, struct kiln_route_entry *ret)
{
    struct kiln_json_reader reader;
    struct kiln_json_value value;
    struct kiln_error err;
    bool more, good = list->type == KILN_JSON_ARRAY &&
                      kiln_json_open(&reader, list->text, list->len, KILN_JSON_ARRAY, &err) == 0;
    int at = 0;
    for (; good && kiln_json_next(&reader, NULL, &value, &more, &err) == 0 && more; at++) {
        if (at == 0)
            good = value.type == KILN_JSON_STRING &&
                   kiln_json_string(&value, ret->name, sizeof ret->name, NULL);
        else if (at == 1)
            good = value.type == KILN_JSON_NUMBER && kiln_json_double(&value, &ret->p);
        else
            good = value.type == KILN_JSON_STRING &&
                   kiln_json_string(&value, ret->words, sizeof ret->words, NULL);
    }
    return good && at == 3;
}

static bool read_entries(const struct kiln_job *job, const struct kiln_json_value *list,
                         struct kiln_route_reason *ret)
{
    struct kiln_json_reader reader;
    struct kiln_json_value value;
    struct kiln_error err;
    bool more;
    if (list->type != KILN_JSON_ARRAY ||
        kiln_json_open(&reader, list->text, list->len, KILN_JSON_ARRAY, &err))
        return false;
    while (kiln_json_next(&reader, NULL, &value, &more, &err) == 0 && more) {
        struct kiln_route_entry *entry = &ret->entries[ret->count];
        if (ret->count == KILN_ROUTE_ENTRIES || !read_entry(&value, entry))
            return false;
        note_choice(job, entry);
        ret->count++;
    }
    return true;
}

bool kiln_route_read(const struct kiln_job *job, struct kiln_route_reason *ret)
{
    struct kiln_json_reader reader;
    struct kiln_json_value key, value;
    struct kiln_error err;
    uint64_t router = 0;
    int known = 0;
    bool more;
    *ret = (struct kiln_route_reason){0};
    if (!job->route ||
        kiln_json_open(&reader, job->route, strlen(job->route), KILN_JSON_OBJECT, &err))
        return false;
    while (kiln_json_next(&reader, &key, &value, &more, &err) == 0 && more) {
        if (kiln_json_equals(&key, "v"))
            known += value.type == KILN_JSON_NUMBER && kiln_json_u64(&value, &ret->version);
        else if (kiln_json_equals(&key, "r"))
            known += value.type == KILN_JSON_NUMBER && kiln_json_u64(&value, &router);
        else if (kiln_json_equals(&key, "e") && value.type == KILN_JSON_STRING)
            (void)kiln_json_string(&value, ret->embedder, sizeof ret->embedder, NULL);
        else if (kiln_json_equals(&key, "p"))
            known += read_entries(job, &value, ret);
    }
    ret->router = (uint32_t)router;
    return known == 3;
}

static void put_percent(struct kiln_text *out, double p)
{
    kiln_text_printf(out, "%.0f %%", p * 100);
}

void kiln_route_words(const struct kiln_job *job, struct kiln_text *out)
{
    struct kiln_route_reason reason;
    if (!kiln_route_read(job, &reason))
        return;
    const char *by = reason.embedder[0] ? ", embedder " : "";
    if (job->lora_count == 0)
        kiln_text_printf(out,
                         "auto chose no LoRA (registry version %llu%s%s): none fits the prompt",
                         (unsigned long long)reason.version, by, reason.embedder);
    else
        kiln_text_printf(out, "auto chose from registry version %llu%s%s",
                         (unsigned long long)reason.version, by, reason.embedder);
    const char *between = ": ";
    for (uint32_t i = 0; i < job->lora_count; i++) {
        kiln_text_printf(out, "%s%s at %.4g", between, job->loras[i].name, job->loras[i].scale);
        between = ", ";
        for (uint32_t e = 0; e < reason.count; e++)
            if (strcmp(reason.entries[e].name, job->loras[i].name) == 0) {
                kiln_text_puts(out, " (");
                put_percent(out, reason.entries[e].p);
                kiln_text_printf(out, ", %s)", reason.entries[e].words);
            }
    }
    for (uint32_t e = 0; e < reason.count; e++)
        if (!reason.entries[e].chosen) {
            kiln_text_printf(out, "; not %s (", reason.entries[e].name);
            put_percent(out, reason.entries[e].p);
            kiln_text_printf(out, ", %s)", reason.entries[e].words);
        }
}
