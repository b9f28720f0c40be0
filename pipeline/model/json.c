/* json.c - typed reads from a small JSON file; see json.h. */
#include "pipeline/model/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/limits.h"
#include "storage/formats/regular.h"

void kiln_model_refuse(struct kiln_model_json *c, int code, const char *fmt, ...)
{
    if (c->error.code)
        return;
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    kiln_fail(&c->error, code, "%s: %s", c->path, text);
}

void kiln_model_json_open(struct kiln_model_json *c, const char *dir, const char *name)
{
    memset(c, 0, sizeof *c);
    if (snprintf(c->path, sizeof c->path, "%s/%s", dir, name) >= (int)sizeof c->path) {
        kiln_fail(&c->error, KILN_BAD_INPUT, "the path of %s is too long", name);
        return;
    }
    size_t size;
    char *text;
    if (kiln_regular_read(c->path, KILN_CONFIG_FILE_MAX, &text, &size, &c->error))
        return;
    json_error_t where;
    c->root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
    free(text);
    if (!c->root)
        kiln_model_refuse(c, KILN_BAD_INPUT, "line %d: not JSON: %s", where.line, where.text);
    else if (!json_is_object(c->root))
        kiln_model_refuse(c, KILN_BAD_INPUT, "it holds no JSON object");
}

int kiln_model_json_close(struct kiln_model_json *c, struct kiln_error *err)
{
    json_decref(c->root);
    c->root = NULL;
    if (c->error.code && err)
        *err = c->error;
    return c->error.code;
}

/* The value of a key, NULL if it is absent or null (or the reader has failed). */
static json_t *value_of(struct kiln_model_json *c, const char *key)
{
    json_t *value = c->error.code ? NULL : json_object_get(c->root, key);
    return json_is_null(value) ? NULL : value;
}

static int checked_int(struct kiln_model_json *c, const char *key, const json_t *value, int min,
                       int max)
{
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value))
        kiln_model_refuse(c, KILN_BAD_INPUT, "%s is not an integer", key);
    else if (n < min || n > max)
        kiln_model_refuse(c, KILN_BAD_INPUT, "%s is %" JSON_INTEGER_FORMAT ", outside of %d to %d",
                          key, n, min, max);
    else
        return (int)n;
    return min;
}

int kiln_model_int(struct kiln_model_json *c, const char *key, int min, int max)
{
    json_t *value = value_of(c, key);
    if (!value) {
        kiln_model_refuse(c, KILN_BAD_INPUT, "%s is missing", key);
        return min;
    }
    return checked_int(c, key, value, min, max);
}

int kiln_model_int_or(struct kiln_model_json *c, const char *key, int min, int max, int fallback)
{
    json_t *value = value_of(c, key);
    return value ? checked_int(c, key, value, min, max) : fallback;
}

double kiln_model_real_or(struct kiln_model_json *c, const char *key, double fallback)
{
    json_t *value = value_of(c, key);
    if (!value)
        return fallback;
    if (!json_is_number(value) || !isfinite(json_number_value(value))) {
        kiln_model_refuse(c, KILN_BAD_INPUT, "%s is not a number", key);
        return fallback;
    }
    return json_number_value(value);
}

bool kiln_model_bool_or(struct kiln_model_json *c, const char *key, bool fallback)
{
    json_t *value = value_of(c, key);
    if (value && !json_is_boolean(value))
        kiln_model_refuse(c, KILN_BAD_INPUT, "%s is neither true nor false", key);
    return value ? json_is_true(value) : fallback;
}

int kiln_model_ints(struct kiln_model_json *c, const char *key, int min, int max, int *out,
                    int capacity)
{
    json_t *value = value_of(c, key);
    size_t count = json_array_size(value);
    if (!c->error.code && !json_is_array(value))
        kiln_model_refuse(c, KILN_BAD_INPUT, "%s is not a list", key);
    if (count > (size_t)capacity)
        kiln_model_refuse(c, KILN_BAD_INPUT, "%s has %zu entries, more than %d", key, count,
                          capacity);
    if (c->error.code)
        return 0;
    for (size_t i = 0; i < count; i++)
        out[i] = checked_int(c, key, json_array_get(value, i), min, max);
    return c->error.code ? 0 : (int)count;
}

void kiln_model_only_text(struct kiln_model_json *c, const char *key, const char *value)
{
    json_t *found = value_of(c, key);
    const char *text = json_string_value(found);
    if (found && (!text || strcmp(text, value) != 0))
        kiln_model_refuse(c, KILN_UNSUPPORTED, "%s is \"%.64s\"; only \"%s\" is supported", key,
                          text ? text : "(not a string)", value);
}

void kiln_model_only_bool(struct kiln_model_json *c, const char *key, bool value)
{
    if (kiln_model_bool_or(c, key, value) != value)
        kiln_model_refuse(c, KILN_UNSUPPORTED, "%s: %s is not supported", key,
                          value ? "false" : "true");
}

void kiln_model_only_null(struct kiln_model_json *c, const char *key)
{
    if (value_of(c, key))
        kiln_model_refuse(c, KILN_UNSUPPORTED, "%s is set, which is not supported", key);
}
