/* set.c - labelled prompts from JSON lines. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/bench/routing/routing.h"
#include "schemas/room.h"
#include "storage/formats/user_file.h"

#define FILE_MAX (16 << 20)

const char *const kiln_routing_kinds[KILN_ROUTING_KINDS] = {
    [KILN_ROUTING_TRIGGER] = "trigger", [KILN_ROUTING_MEANING] = "meaning",
    [KILN_ROUTING_PARA] = "para",       [KILN_ROUTING_TEAM] = "team",
    [KILN_ROUTING_PLAIN] = "plain",     [KILN_ROUTING_HARD] = "hard",
    [KILN_ROUTING_SCRIPT] = "script"};

const char *const kiln_routing_writes[KILN_ROUTING_WRITES] = {
    [KILN_ROUTING_QUOTED] = "quoted", [KILN_ROUTING_DENIED] = "denied"};

bool kiln_routing_in(const struct kiln_routing_list *list, uint32_t lora)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->at[i] == lora)
            return true;
    return false;
}

bool kiln_routing_wanted(const struct kiln_routing_case *c, uint32_t lora)
{
    for (uint32_t i = 0; i < c->must_count; i++)
        if (kiln_routing_in(&c->must[i], lora))
            return true;
    return false;
}

/* "a|b" as LoRAs; the name that is unknown, or NULL. */
static const char *add_names(const struct kiln_router *router, char *names,
                             struct kiln_routing_list *list)
{
    for (char *name; (name = strsep(&names, "|")) != NULL;) {
        size_t i = 0;
        while (i < kiln_router_count(router) &&
               strcmp(kiln_router_lora(router, i)->name, name) != 0)
            i++;
        if (i == kiln_router_count(router) || list->count == KILN_ROUTING_LIST)
            return name;
        list->at[list->count++] = (uint32_t)i;
    }
    return NULL;
}

static int read_case(const json_t *line, const struct kiln_router *router, const char *where,
                     size_t number, struct kiln_routing_case *ret, struct kiln_error *err)
{
    const char *prompt = json_string_value(json_object_get(line, "prompt"));
    const char *kind = json_string_value(json_object_get(line, "kind"));
    const json_t *must = json_object_get(line, "must"), *may = json_object_get(line, "may");
    const char *writes = json_string_value(json_object_get(line, "writes"));
    unsigned k = 0, w = 0;
    while (kind && k < KILN_ROUTING_KINDS && strcmp(kiln_routing_kinds[k], kind) != 0)
        k++;
    if (!prompt || !kind || k == KILN_ROUTING_KINDS || json_array_size(must) > 3)
        return kiln_fail(err, KILN_BAD_INPUT, "%s, line %zu: no prompt, or an unknown kind", where,
                         number);
    while (writes && w < KILN_ROUTING_WRITES && strcmp(kiln_routing_writes[w], writes) != 0)
        w++;
    if (writes && (w == KILN_ROUTING_WRITES || json_array_size(must) > 0))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s, line %zu: 'writes' is quoted or denied, of a prompt without must",
                         where, number);
    ret->kind = k;
    ret->writes = writes ? w : KILN_ROUTING_WRITES;
    ret->prompt = strdup(prompt);
    for (size_t i = 0; i < json_array_size(must) + json_array_size(may) && ret->prompt; i++) {
        const bool wanted = i < json_array_size(must);
        const json_t *item =
            wanted ? json_array_get(must, i) : json_array_get(may, i - json_array_size(must));
        char names[256];
        snprintf(names, sizeof names, "%s", json_string_value(item) ? json_string_value(item) : "");
        const char *unknown =
            add_names(router, names, wanted ? &ret->must[ret->must_count++] : &ret->may);
        if (unknown)
            return kiln_fail(err, KILN_BAD_INPUT, "%s, line %zu: there is no LoRA '%s'", where,
                             number, unknown);
    }
    return ret->prompt ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for prompts");
}

int kiln_routing_read(const char *path, const struct kiln_router *router,
                      struct kiln_routing_set *ret, struct kiln_error *err)
{
    char *text = NULL, *line;
    size_t len, number = 0, room = 0;
    struct kiln_routing_set set = {0};
    int rc = kiln_user_file_read(path, FILE_MAX, &text, &len, err);
    for (char *rest = text; !rc && (line = strsep(&rest, "\n")) != NULL;) {
        json_error_t at;
        number++;
        if (!*line)
            continue;
        json_t *value = json_loads(line, 0, &at);
        struct kiln_routing_case *cases = kiln_room(set.at, set.count, &room, sizeof *cases);
        if (cases) {
            set.at = cases;
            cases[set.count] = (struct kiln_routing_case){.prompt = NULL};
        }
        if (!value)
            rc = kiln_fail(err, KILN_BAD_INPUT, "%s, line %zu: %s", path, number, at.text);
        else if (!cases)
            rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for prompts");
        else
            rc = read_case(value, router, path, number, &cases[set.count++], err);
        json_decref(value);
    }
    free(text);
    if (rc)
        kiln_routing_release(&set);
    else
        *ret = set;
    return rc;
}

void kiln_routing_release(struct kiln_routing_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        free(set->at[i].prompt);
    free(set->at);
    *set = (struct kiln_routing_set){0};
}
