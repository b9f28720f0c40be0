/* target.c - see target.h. */
#include "scheduler/gallery/web/target.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/text/utf8.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes in place, ends of lines as LF: browsers send CR LF.  Returns the length, or -1 for a
 * broken escape, a NUL or what is not UTF-8. */
static long decode(char *text, size_t len, bool plus_is_space)
{
    size_t out = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '%') {
            int high = i + 2 < len ? hex_digit(text[i + 1]) : -1;
            int low = i + 2 < len ? hex_digit(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return -1;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if (c == '\0')
            return -1;
        out -= c == '\n' && out > 0 && text[out - 1] == '\r';
        text[out++] = c;
    }
    text[out] = '\0';
    return kiln_utf8_valid(text, out, NULL) ? (long)out : -1;
}

/* "name=value&...", cut apart and decoded in place; each piece ends with a NUL of its own. */
static int read_args(char *text, struct kiln_web_args *args, struct kiln_error *err)
{
    for (char *at = text; at && *at;) {
        char *next = strchr(at, '&');
        if (next)
            *next++ = '\0';
        if (*at) {
            if (args->count == KILN_WEB_ARGS_MAX)
                return kiln_fail(err, KILN_FULL, "the request has more than %d arguments",
                                 KILN_WEB_ARGS_MAX);
            char *value = strchr(at, '=');
            if (value)
                *value++ = '\0';
            else
                value = at + strlen(at);
            if (decode(value, strlen(value), true) < 0 || decode(at, strlen(at), true) < 0)
                return kiln_fail(err, KILN_BAD_INPUT,
                                 "an argument of the request is not UTF-8 in percent encoding");
            args->at[args->count++] = (struct kiln_web_arg){at, value};
        }
        at = next;
    }
    return 0;
}

/* No control characters, and no part that a file system would understand in its own way. */
static bool is_plain_path(const char *path)
{
    for (const char *c = path; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == '\\')
            return false;
    for (const char *part = path; part; part = strchr(part + 1, '/')) {
        size_t len = strcspn(part + 1, "/");
        if ((len == 0 && part[1]) || (len == 1 && part[1] == '.') ||
            (len == 2 && part[1] == '.' && part[2] == '.'))
            return false;
    }
    return true;
}

static int read_target(struct kiln_web_target *target, struct kiln_error *err)
{
    char *query = strchr(target->bytes, '?');
    if (query)
        *query++ = '\0';
    target->path = target->bytes;
    if (target->bytes[0] != '/' || decode(target->bytes, strlen(target->bytes), false) < 0 ||
        !is_plain_path(target->path))
        return kiln_fail(err, KILN_BAD_INPUT, "the path of the request is not valid");
    return query ? read_args(query, &target->args, err) : 0;
}

/* A copy to be cut apart; a raw NUL or line break inside is refused. */
static int copy(const char *text, size_t len, size_t max, struct kiln_web_target *ret,
                struct kiln_error *err)
{
    *ret = (struct kiln_web_target){.path = ""};
    if (len > max)
        return kiln_fail(err, KILN_FULL, "the request has %zu bytes; at most %zu are read", len,
                         max);
    if (memchr(text, '\0', len))
        return kiln_fail(err, KILN_BAD_INPUT, "the request has a NUL byte");
    ret->bytes = malloc(len + 1);
    if (!ret->bytes)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a request");
    memcpy(ret->bytes, text, len);
    ret->bytes[len] = '\0';
    return 0;
}

int kiln_web_target_parse(const char *text, size_t len, struct kiln_web_target *ret,
                          struct kiln_error *err)
{
    int rc = copy(text, len, KILN_WEB_TARGET_MAX, ret, err);
    rc = rc ? rc : read_target(ret, err);
    if (rc)
        kiln_web_target_release(ret);
    return rc;
}

int kiln_web_form_parse(const char *text, size_t len, struct kiln_web_target *ret,
                        struct kiln_error *err)
{
    int rc = copy(text, len, KILN_WEB_FORM_MAX, ret, err);
    rc = rc ? rc : read_args(ret->bytes, &ret->args, err);
    if (rc)
        kiln_web_target_release(ret);
    return rc;
}

void kiln_web_target_release(struct kiln_web_target *target)
{
    free(target->bytes);
    *target = (struct kiln_web_target){.path = ""};
}

const char *kiln_web_arg(const struct kiln_web_args *args, const char *name)
{
    for (size_t i = 0; i < args->count; i++)
        if (strcmp(args->at[i].name, name) == 0)
            return args->at[i].value[0] ? args->at[i].value : NULL;
    return NULL;
}

bool kiln_web_id(const char *text, size_t len, uint64_t *ret)
{
    uint64_t value = 0;
    if (len == 0 || len > 19 || text[0] == '0')
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *ret = value;
    return value <= INT64_MAX;
}
