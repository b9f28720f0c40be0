/* template.c - see template.h. */
#include "pipeline/embed/tokens/template.h"

#include <stdbool.h>
#include <string.h>

#include "pipeline/embed/tokens/pieces.h"

static int add(struct kiln_template *t, bool behind, const json_t *id, const char *path,
               struct kiln_error *err)
{
    int32_t *side = behind ? t->behind : t->before;
    size_t *count = behind ? &t->behind_count : &t->before_count;
    if (!json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= KILN_PIECES_MAX)
        return kiln_fail(err, KILN_CORRUPT, "%s: a token of the template has no id", path);
    if (*count == KILN_TEMPLATE_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: more than %d tokens before or behind a text",
                         path, KILN_TEMPLATE_MAX);
    side[(*count)++] = (int32_t)json_integer_value(id);
    return 0;
}

/* "single": [{"SpecialToken": {"id": "[CLS]"}}, {"Sequence": {"id": "A"}}, ...] */
static int read_single(const json_t *processor, const char *path, struct kiln_template *t,
                       struct kiln_error *err)
{
    const json_t *single = json_object_get(processor, "single");
    const json_t *tokens = json_object_get(processor, "special_tokens");
    size_t texts = 0;
    int rc = 0;
    for (size_t i = 0; i < json_array_size(single) && !rc; i++) {
        const json_t *item = json_array_get(single, i);
        const json_t *special = json_object_get(item, "SpecialToken");
        const char *name = json_string_value(json_object_get(special, "id"));
        if (json_object_get(item, "Sequence")) {
            texts++;
            continue;
        }
        const json_t *ids = name ? json_object_get(json_object_get(tokens, name), "ids") : NULL;
        if (json_array_size(ids) == 0)
            rc = kiln_fail(err, KILN_CORRUPT, "%s: the template names an unknown token \"%.64s\"",
                           path, name ? name : "");
        for (size_t k = 0; k < json_array_size(ids) && !rc; k++)
            rc = add(t, texts > 0, json_array_get(ids, k), path, err);
    }
    if (!rc && texts != 1)
        rc = kiln_fail(err, KILN_UNSUPPORTED, "%s: the template has the text %zu times", path,
                       texts);
    return rc;
}

int kiln_template_read(const json_t *processor, const char *path, struct kiln_template *ret,
                       struct kiln_error *err)
{
    const char *type = json_string_value(json_object_get(processor, "type"));
    *ret = (struct kiln_template){0};
    if (!processor || json_is_null(processor))
        return 0;
    if (type && strcmp(type, "TemplateProcessing") == 0)
        return read_single(processor, path, ret, err);
    if (type && (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0)) {
        int rc = add(ret, false, json_array_get(json_object_get(processor, "cls"), 1), path, err);
        return rc ? rc
                  : add(ret, true, json_array_get(json_object_get(processor, "sep"), 1), path, err);
    }
    return kiln_fail(err, KILN_UNSUPPORTED, "%s: post_processor \"%.64s\" is not supported", path,
                     type ? type : "");
}

int32_t kiln_template_max_id(const struct kiln_template *t)
{
    int32_t most = -1;
    for (size_t i = 0; i < t->before_count; i++)
        most = t->before[i] > most ? t->before[i] : most;
    for (size_t i = 0; i < t->behind_count; i++)
        most = t->behind[i] > most ? t->behind[i] : most;
    return most;
}
