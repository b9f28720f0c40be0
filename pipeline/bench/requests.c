/* requests.c - see requests.h. */
#include "pipeline/bench/requests.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/limits.h"
#include "schemas/room.h"

#define SIDE_DEFAULT 256

/* A name as a position in the list, KILN_NOT_ASKED for null; false for an unknown name. */
static bool read_name(const json_t *value, const struct kiln_label_list *list, const char *what,
                      int *ret, struct kiln_error *err)
{
    *ret = KILN_NOT_ASKED;
    if (!value || json_is_null(value))
        return true;
    const char *name = json_string_value(value);
    *ret = name ? kiln_label_find(list, name) : -1;
    if (*ret >= 0)
        return true;
    kiln_fail(err, KILN_BAD_INPUT, "%s: the judge knows no \"%.40s\"", what, name ? name : "?");
    return false;
}

static int read_things(const json_t *things, const struct kiln_judge_labels *labels,
                       struct kiln_asked *asked, struct kiln_error *err)
{
    size_t i;
    json_t *thing;
    if (json_array_size(things) > KILN_ASKED_THINGS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "more than %d things", KILN_ASKED_THINGS_MAX);
    json_array_foreach(things, i, thing)
    {
        if (!json_is_object(thing))
            return kiln_fail(err, KILN_BAD_INPUT, "things[%zu] is not an object", i);
        if (!read_name(json_object_get(thing, "shape"), &labels->shapes, "shape",
                       &asked->things[i].shape, err) ||
            !read_name(json_object_get(thing, "colour"), &labels->colours, "colour",
                       &asked->things[i].colour, err) ||
            !read_name(json_object_get(thing, "size"), &labels->sizes, "size",
                       &asked->things[i].size, err) ||
            !read_name(json_object_get(thing, "zone"), &kiln_zones, "zone", &asked->things[i].zone,
                       err))
            return KILN_BAD_INPUT;
        asked->thing_count++;
    }
    return 0;
}

static int read_relations(const json_t *relations, struct kiln_asked *asked, struct kiln_error *err)
{
    size_t i;
    json_t *relation;
    if (json_array_size(relations) > KILN_ASKED_RELATIONS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "more than %d relations", KILN_ASKED_RELATIONS_MAX);
    json_array_foreach(relations, i, relation)
    {
        json_int_t a = -1, b = -1;
        const char *word = "";
        (void)json_unpack(relation, "[I, s, I]", &a, &word, &b);
        bool above = strcmp(word, "above") == 0;
        if (a < 0 || b < 0 || a >= asked->thing_count || b >= asked->thing_count ||
            (!above && strcmp(word, "left of") != 0))
            return kiln_fail(err, KILN_BAD_INPUT,
                             "relations[%zu] is not [thing, \"left of\" or \"above\", thing]", i);
        asked->relations[i].a = (int)a;
        asked->relations[i].b = (int)b;
        asked->relations[i].above = above;
        asked->relation_count++;
    }
    return 0;
}

/* [kind, first, second]: the kind decides which of the colours count. */
static int read_background(const json_t *value, const struct kiln_judge_labels *labels,
                           struct kiln_asked *asked, struct kiln_error *err)
{
    const json_t *kind = json_array_get(value, 0);
    asked->first = asked->second = KILN_NOT_ASKED;
    if (!read_name(kind, &labels->backgrounds, "background", &asked->background, err))
        return KILN_BAD_INPUT;
    const char *name = kind ? json_string_value(kind) : NULL;
    bool two = name && (strcmp(name, "stripes") == 0 || strcmp(name, "checks") == 0);
    bool one = name && strcmp(name, "plain") == 0;
    if ((one || two) &&
        !read_name(json_array_get(value, 1), &labels->colours, "background", &asked->first, err))
        return KILN_BAD_INPUT;
    if (two &&
        !read_name(json_array_get(value, 2), &labels->colours, "background", &asked->second, err))
        return KILN_BAD_INPUT;
    return 0;
}

int kiln_asked_read(const json_t *value, const struct kiln_judge_labels *labels,
                    struct kiln_asked *ret, struct kiln_error *err)
{
    *ret = (struct kiln_asked){.count = !json_is_false(json_object_get(value, "count"))};
    if (!json_is_object(value))
        return kiln_fail(err, KILN_BAD_INPUT, "there is no object \"asked\"");
    int code = read_things(json_object_get(value, "things"), labels, ret, err);
    code = code ? code : read_relations(json_object_get(value, "relations"), ret, err);
    return code ? code : read_background(json_object_get(value, "background"), labels, ret, err);
}

static int read_line(const char *text, size_t len, size_t number,
                     const struct kiln_judge_labels *labels, struct kiln_request *request,
                     struct kiln_error *err)
{
    json_error_t where;
    json_t *line = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
    const json_t *asked = json_object_get(line, "asked"), *seed = json_object_get(line, "seed");
    const char *prompt = json_string_value(json_object_get(line, "prompt"));
    int code = 0;
    if (!line)
        code = kiln_fail(err, KILN_BAD_INPUT, "%s", where.text);
    else if (!prompt || json_string_length(json_object_get(line, "prompt")) > KILN_PROMPT_MAX)
        code = kiln_fail(err, KILN_BAD_INPUT, "prompt must be a text of at most %d bytes",
                         KILN_PROMPT_MAX);
    else if (seed && (!json_is_integer(seed) || json_integer_value(seed) < 0))
        code = kiln_fail(err, KILN_BAD_INPUT, "seed must be a whole number");
    static const char *const keys[2] = {"width", "height"};
    int *const sides[2] = {&request->width, &request->height};
    for (int i = 0; i < 2 && !code; i++) {
        const json_t *value = json_object_get(line, keys[i]);
        json_int_t side = value ? json_integer_value(value) : SIDE_DEFAULT;
        if (side < KILN_SIDE_MIN || side > KILN_SIDE_MAX || side % KILN_SIDE_STEP)
            code = kiln_fail(err, KILN_BAD_INPUT, "%s must be a multiple of %d from %d to %d",
                             keys[i], KILN_SIDE_STEP, KILN_SIDE_MIN, KILN_SIDE_MAX);
        *sides[i] = (int)side;
    }
    code = code ? code : kiln_asked_read(asked, labels, &request->asked, err);
    if (!code) {
        request->seed = seed ? (uint64_t)json_integer_value(seed) : (uint64_t)number - 1;
        request->prompt = strdup(prompt);
        request->asked_text = json_dumps(asked, JSON_COMPACT);
        if (!request->prompt || !request->asked_text)
            code = kiln_fail(err, KILN_NO_MEMORY, "no memory for the prompts");
    }
    json_decref(line);
    return code;
}

int kiln_requests_read(const char *path, const struct kiln_judge_labels *labels, size_t limit,
                       struct kiln_requests *ret, struct kiln_error *err)
{
    struct kiln_requests list = {0};
    FILE *file = fopen(path, "re");
    if (!file)
        return kiln_fail(err, errno == ENOENT ? KILN_NOT_FOUND : KILN_IO, "open %s: %s", path,
                         strerror(errno));
    char *text = NULL;
    size_t size = 0, room = 0, number = 0;
    ssize_t len;
    int code = 0;
    while (!code && list.count < limit && list.count < KILN_REQUESTS_MAX &&
           (len = getline(&text, &size, file)) >= 0) {
        number++;
        if (len == 0 || text[0] == '\n' || text[0] == '#')
            continue;
        struct kiln_request *items = kiln_room(list.items, list.count, &room, sizeof *items);
        if (items) {
            list.items = items;
            items[list.count] = (struct kiln_request){0};
            code = read_line(text, (size_t)len, number, labels, &items[list.count++], err);
        } else {
            code = kiln_fail(err, KILN_NO_MEMORY, "no memory for the prompts");
        }
    }
    if (code && code != KILN_NO_MEMORY)
        code = kiln_fail_in(err, "%s:%zu", path, number);
    else if (!code && ferror(file))
        code = kiln_fail(err, KILN_IO, "read %s: %s", path, strerror(errno));
    else if (!code && list.count == 0)
        code = kiln_fail(err, KILN_BAD_INPUT, "%s holds no prompts", path);
    fclose(file);
    free(text);
    if (code)
        kiln_requests_release(&list);
    else
        *ret = list;
    return code;
}

void kiln_requests_release(struct kiln_requests *requests)
{
    for (size_t i = 0; i < requests->count; i++) {
        free(requests->items[i].prompt);
        free(requests->items[i].asked_text);
    }
    free(requests->items);
    *requests = (struct kiln_requests){0};
}
