/* styles.c - reads presets with jansson; a sorted array that a file's entries are merged into.
 *
 * Every set begins as a copy of the built-in ones, so that a user's file may replace one of
 * them and a lookup needs to know of one array only.  The built-in set itself is parsed once,
 * on first use, from the text that the Makefile puts into the program; it is checked like any
 * other file, and a test names its ten.
 */
#include "schemas/job/styles.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/embedded.h"
#include "schemas/limits.h"
#include "schemas/names.h"

#define STYLES_MAX 4096
#define STYLE_TEXT_MAX 2048 /* bytes of a prefix, suffix or negative */

struct kiln_styles {
    struct kiln_style *at; /* sorted by name */
    size_t count;
};

static void release_style(struct kiln_style *style)
{
    free(style->name);
    free(style->prefix);
    free(style->suffix);
    free(style->negative);
}

void kiln_styles_free(struct kiln_styles *styles)
{
    if (!styles)
        return;
    for (size_t i = 0; i < styles->count; i++)
        release_style(&styles->at[i]);
    free(styles->at);
    free(styles);
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct kiln_style *)a)->name, ((const struct kiln_style *)b)->name);
}

/* *ret is a copy of member `key`, "" if it is absent. */
static int read_words(json_t *object, const char *path, const char *name, const char *key,
                      char **ret, struct kiln_error *err)
{
    json_t *member = json_object_get(object, key);
    if (member && (!json_is_string(member) || json_string_length(member) > STYLE_TEXT_MAX))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s: style \"%s\": %s must be a text of up to %d bytes", path, name, key,
                         STYLE_TEXT_MAX);
    *ret = strdup(member ? json_string_value(member) : "");
    return *ret ? 0 : kiln_fail(err, KILN_NO_MEMORY, "%s: no memory", path);
}

static int read_style(const char *path, const char *name, json_t *object, struct kiln_style *ret,
                      struct kiln_error *err)
{
    static const char *const known[] = {"prefix", "suffix", "negative"};
    const char *key;
    json_t *unused;
    if (!kiln_name_valid(name, strlen(name), KILN_NAME_MAX))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s: \"%.80s\" is not the name of a style (up to %d " KILN_NAME_RULE ")",
                         path, name, KILN_NAME_MAX);
    if (!json_is_object(object))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s: style \"%s\" must be an object with prefix, suffix and negative",
                         path, name);
    json_object_foreach(object, key, unused)
    {
        if (strcmp(key, known[0]) != 0 && strcmp(key, known[1]) != 0 && strcmp(key, known[2]) != 0)
            return kiln_fail(
                err, KILN_BAD_INPUT,
                "%s: style \"%s\": unknown key \"%.64s\"; known are prefix, suffix, negative", path,
                name, key);
    }
    *ret = (struct kiln_style){0};
    int code = read_words(object, path, name, known[0], &ret->prefix, err);
    if (!code)
        code = read_words(object, path, name, known[1], &ret->suffix, err);
    if (!code)
        code = read_words(object, path, name, known[2], &ret->negative, err);
    if (!code && !(ret->name = strdup(name)))
        code = kiln_fail(err, KILN_NO_MEMORY, "%s: no memory", path);
    if (code)
        release_style(ret);
    return code;
}

/* Replaces the style of the same name, or adds; the order is restored by the caller. */
static void put_style(struct kiln_styles *styles, struct kiln_style style)
{
    for (size_t i = 0; i < styles->count; i++) {
        if (strcmp(styles->at[i].name, style.name) == 0) {
            release_style(&styles->at[i]);
            styles->at[i] = style;
            return;
        }
    }
    styles->at[styles->count++] = style;
}

/* Room for all is made first, so that nothing can fail between two entries but a bad one. */
static int merge(struct kiln_styles *styles, json_t *root, const char *path, struct kiln_error *err)
{
    const char *name;
    json_t *object;
    size_t total = styles->count + json_object_size(root);
    struct kiln_style *at = total ? realloc(styles->at, total * sizeof *at) : NULL;
    if (total && !at)
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory", path);
    styles->at = at;
    json_object_foreach(root, name, object)
    {
        struct kiln_style style;
        int code = read_style(path, name, object, &style, err);
        if (code)
            return code;
        put_style(styles, style);
    }
    if (styles->count > 1)
        qsort(styles->at, styles->count, sizeof *styles->at, compare);
    return 0;
}

static int merge_text(struct kiln_styles *styles, const char *text, size_t len, const char *path,
                      struct kiln_error *err)
{
    json_error_t problem;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &problem);
    if (!root)
        return kiln_fail(err, KILN_BAD_INPUT, "%s:%d: %s", path, problem.line, problem.text);
    int code = 0;
    if (!json_is_object(root) || json_object_size(root) > STYLES_MAX)
        code = kiln_fail(err, KILN_BAD_INPUT, "%s: must be one object of up to %d styles", path,
                         STYLES_MAX);
    if (!code)
        code = merge(styles, root, path, err);
    json_decref(root);
    return code;
}

static int new_with_builtin(struct kiln_styles **ret, struct kiln_error *err)
{
    const struct kiln_embedded *file = &kiln_embedded_styles[0];
    struct kiln_styles *styles = calloc(1, sizeof *styles);
    if (!styles)
        return kiln_fail(err, KILN_NO_MEMORY, "styles: no memory");
    int code = merge_text(styles, file->text, file->size, file->name, err);
    if (code)
        kiln_styles_free(styles);
    else
        *ret = styles;
    return code;
}

static struct kiln_styles *builtin;

static void make_builtin(void)
{
    struct kiln_error err;
    if (new_with_builtin(&builtin, &err) != 0)
        builtin = NULL;
}

const struct kiln_styles *kiln_styles_builtin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_builtin);
    return builtin;
}

int kiln_styles_parse(const char *text, size_t len, const char *path, struct kiln_styles **ret,
                      struct kiln_error *err)
{
    struct kiln_styles *styles;
    int code = new_with_builtin(&styles, err);
    if (code)
        return code;
    code = merge_text(styles, text, len, path, err);
    if (code)
        kiln_styles_free(styles);
    else
        *ret = styles;
    return code;
}

const struct kiln_style *kiln_styles_find(const struct kiln_styles *styles, const char *name,
                                          size_t len)
{
    for (size_t i = 0; styles && i < styles->count; i++)
        if (strlen(styles->at[i].name) == len && memcmp(styles->at[i].name, name, len) == 0)
            return &styles->at[i];
    return NULL;
}

const struct kiln_style *kiln_styles_at(const struct kiln_styles *styles, size_t index)
{
    return &styles->at[index];
}

size_t kiln_styles_count(const struct kiln_styles *styles)
{
    return styles ? styles->count : 0;
}

const char *kiln_style_own(const struct kiln_style *style, const char *prompt, size_t *ret_len)
{
    const size_t len = strlen(prompt), before = style ? strlen(style->prefix) : 0;
    const size_t after = style ? strlen(style->suffix) : 0;
    *ret_len = len;
    if (!style || before + after > len || memcmp(prompt, style->prefix, before) != 0 ||
        memcmp(prompt + len - after, style->suffix, after) != 0)
        return prompt;
    *ret_len = len - before - after;
    return prompt + before;
}

size_t kiln_style_own_negative(const struct kiln_style *style, const char *negative)
{
    const size_t len = strlen(negative), words = style ? strlen(style->negative) : 0;
    if (words == 0 || words > len || strcmp(negative + len - words, style->negative) != 0)
        return len;
    return len == words ? 0 : len - words - (len - words >= 2 ? 2 : 0);
}
