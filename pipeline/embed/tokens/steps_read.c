/* steps_read.c - reads the normaliser and the pre-tokenizer of a tokenizer.json. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/tokens/steps_list.h"

struct reading {
    struct kiln_steps *steps;
    const char *path;
};

static int unsupported(const struct reading *r, const char *part, const char *what,
                       struct kiln_error *err)
{
    return kiln_fail(err, KILN_UNSUPPORTED, "%s: %s \"%.64s\" is not supported", r->path, part,
                     what);
}

/* An option that is a boolean; the default if it is missing or null. */
static bool option(const json_t *step, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(step, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static struct kiln_normaliser *add_normaliser(struct kiln_steps *s, enum kiln_normaliser_type type)
{
    struct kiln_normaliser *step = &s->normalisers[s->normaliser_count++];
    *step = (struct kiln_normaliser){.type = type};
    return step;
}

static int read_replace(struct reading *r, const json_t *step, struct kiln_error *err)
{
    const json_t *pattern = json_object_get(step, "pattern");
    const json_t *literal = json_object_get(pattern, "String");
    const json_t *content = json_object_get(step, "content");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const size_t len = json_string_length(literal), content_len = json_string_length(content);
    enum kiln_normaliser_type type = KILN_NORMALISER_REPLACE;
    if (regex && strcmp(regex, "\\s+") == 0)
        type = KILN_NORMALISER_SPACES;
    else if (regex && strcmp(regex, " {2,}") == 0)
        type = KILN_NORMALISER_TWO_SPACES;
    else if (regex)
        return unsupported(r, "replacing the regular expression", regex, err);
    else if (len == 0 || len > KILN_EMBED_PATTERN_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: the pattern of a Replace is not 1 to %d bytes",
                         r->path, KILN_EMBED_PATTERN_MAX);
    if (!json_is_string(content) || content_len > KILN_EMBED_PATTERN_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "%s: the content of a Replace is not text of at most %d bytes", r->path,
                         KILN_EMBED_PATTERN_MAX);
    struct kiln_normaliser *n = add_normaliser(r->steps, type);
    if (!regex)
        memcpy(n->pattern, json_string_value(literal), len);
    memcpy(n->content, json_string_value(content), content_len);
    n->pattern_len = len;
    n->content_len = content_len;
    return 0;
}

static int read_normaliser(struct reading *r, const json_t *step, struct kiln_error *err)
{
    const char *type = json_string_value(json_object_get(step, "type"));
    if (json_is_null(step) || !step)
        return 0;
    if (!type)
        return kiln_fail(err, KILN_CORRUPT, "%s: a normalizer has no type", r->path);
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(step, "normalizers");
        int rc = 0;
        for (size_t i = 0; i < json_array_size(list) && !rc; i++)
            rc = read_normaliser(r, json_array_get(list, i), err);
        return rc;
    }
    if (r->steps->normaliser_count == KILN_EMBED_STEPS_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: more than %d normalizers", r->path,
                         KILN_EMBED_STEPS_MAX);
    if (strcmp(type, "BertNormalizer") == 0) {
        struct kiln_normaliser *n = add_normaliser(r->steps, KILN_NORMALISER_BERT);
        n->clean = option(step, "clean_text", true);
        n->ideographs = option(step, "handle_chinese_chars", true);
        n->lowercase = option(step, "lowercase", true);
        n->strip_accents = option(step, "strip_accents", n->lowercase);
    } else if (strcmp(type, "Precompiled") == 0) {
        const json_t *map = json_object_get(step, "precompiled_charsmap");
        struct kiln_charsmap *read = NULL;
        if (!json_is_string(map))
            return kiln_fail(err, KILN_CORRUPT, "%s: Precompiled has no character map", r->path);
        if (json_string_length(map) == 0) /* an empty map changes nothing */
            return 0;
        int rc =
            kiln_charsmap_new(json_string_value(map), json_string_length(map), r->path, &read, err);
        if (rc)
            return rc;
        add_normaliser(r->steps, KILN_NORMALISER_CHARSMAP)->map = read;
    } else if (strcmp(type, "Lowercase") == 0) {
        add_normaliser(r->steps, KILN_NORMALISER_LOWERCASE);
    } else if (strcmp(type, "Strip") == 0) {
        struct kiln_normaliser *n = add_normaliser(r->steps, KILN_NORMALISER_STRIP);
        n->left = option(step, "strip_left", true);
        n->right = option(step, "strip_right", true);
    } else if (strcmp(type, "Replace") == 0) {
        return read_replace(r, step, err);
    } else {
        return unsupported(r, "normalizer", type, err);
    }
    return 0;
}

static int read_metaspace(struct reading *r, const json_t *step, struct kiln_splitter *ret,
                          struct kiln_error *err)
{
    const char *replacement = json_string_value(json_object_get(step, "replacement"));
    const char *scheme = json_string_value(json_object_get(step, "prepend_scheme"));
    if (!replacement || strcmp(replacement, "\xe2\x96\x81") != 0)
        return unsupported(r, "the replacement of Metaspace", replacement ? replacement : "", err);
    ret->prepend = option(step, "add_prefix_space", true);
    ret->split = option(step, "split", true);
    if (scheme && strcmp(scheme, "always") != 0 && strcmp(scheme, "never") != 0)
        return unsupported(r, "the prepend_scheme of Metaspace", scheme, err);
    if (scheme)
        ret->prepend = strcmp(scheme, "always") == 0;
    return 0;
}

static int read_splitter(struct reading *r, const json_t *step, struct kiln_error *err)
{
    const char *type = json_string_value(json_object_get(step, "type"));
    struct kiln_splitter splitter = {.type = KILN_SPLITTER_BERT};
    int rc = 0;
    if (json_is_null(step) || !step)
        return 0;
    if (!type)
        return kiln_fail(err, KILN_CORRUPT, "%s: a pre_tokenizer has no type", r->path);
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(step, "pretokenizers");
        for (size_t i = 0; i < json_array_size(list) && !rc; i++)
            rc = read_splitter(r, json_array_get(list, i), err);
        return rc;
    }
    if (strcmp(type, "WhitespaceSplit") == 0)
        splitter.type = KILN_SPLITTER_SPACES;
    else if (strcmp(type, "Metaspace") == 0)
        splitter.type = KILN_SPLITTER_METASPACE;
    else if (strcmp(type, "BertPreTokenizer") != 0)
        return unsupported(r, "pre_tokenizer", type, err);
    if (splitter.type == KILN_SPLITTER_METASPACE)
        rc = read_metaspace(r, step, &splitter, err);
    if (!rc && r->steps->splitter_count == KILN_EMBED_STEPS_MAX)
        rc = kiln_fail(err, KILN_UNSUPPORTED, "%s: more than %d pre_tokenizers", r->path,
                       KILN_EMBED_STEPS_MAX);
    if (!rc)
        r->steps->splitters[r->steps->splitter_count++] = splitter;
    return rc;
}

int kiln_steps_read(const json_t *root, const char *path, struct kiln_steps **ret,
                    struct kiln_error *err)
{
    struct reading r = {calloc(1, sizeof *r.steps), path};
    if (!r.steps)
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for its steps", path);
    int rc = read_normaliser(&r, json_object_get(root, "normalizer"), err);
    rc = rc ? rc : read_splitter(&r, json_object_get(root, "pre_tokenizer"), err);
    if (rc)
        kiln_steps_free(r.steps);
    else
        *ret = r.steps;
    return rc;
}

void kiln_steps_free(struct kiln_steps *s)
{
    for (size_t i = 0; s && i < s->normaliser_count; i++)
        kiln_charsmap_free(s->normalisers[i].map);
    free(s);
}
