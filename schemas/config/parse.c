/* parse.c - the text of a config file.
 *
 *     # a comment
 *     redis = unix:/srv/kiln/run/redis.sock
 *     postgres = "host=/srv/kiln/run dbname=kiln"   # quotes keep # and spaces
 *
 * One setting a line.  Paths are not changed.  A setting given twice in one file is refused, since
 * nobody can know which one was meant.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/config/config.h"
#include "schemas/limits.h"
#include "schemas/text/utf8.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Removes blanks from both ends of [*start, *end). */
static void trim(const char **start, const char **end)
{
    while (*start < *end && is_blank(**start))
        (*start)++;
    while (*start < *end && is_blank((*end)[-1]))
        (*end)--;
}

/* Removes the quotes of a quoted value, or the comment after an unquoted one. */
static int cut_value(const char **start, const char **end, const char *origin,
                     struct kiln_error *err)
{
    trim(start, end);
    if (*start < *end && **start == '"') {
        const char *close = memchr(*start + 1, '"', (size_t)(*end - *start) - 1);
        if (!close)
            return kiln_fail(err, KILN_CONFIG, "%s: the closing '\"' is missing", origin);
        const char *rest = close + 1, *rest_end = *end;
        trim(&rest, &rest_end);
        if (rest < rest_end && *rest != '#')
            return kiln_fail(err, KILN_CONFIG, "%s: text after the closing '\"'", origin);
        (*start)++;
        *end = close;
        return 0;
    }
    for (const char *at = *start; at < *end; at++) {
        if (*at == '#' && (at == *start || is_blank(at[-1]))) {
            *end = at;
            break;
        }
    }
    trim(start, end);
    return 0;
}

static int already_set(const struct kiln_config *config, const char *name, const char *path,
                       const char *origin, struct kiln_error *err)
{
    size_t len = strlen(path);
    for (int key = 0; key < KILN_KEY_COUNT; key++) {
        const char *before = kiln_config_origin(config, (enum kiln_key)key);
        if (strcmp(kiln_keys[key].name, name) == 0 && strncmp(before, path, len) == 0 &&
            before[len] == ':')
            return kiln_fail(err, KILN_CONFIG, "%s: %s is set twice, first at %s", origin, name,
                             before);
    }
    return 0;
}

/* One line without its end; blank lines and comments set nothing. */
static int parse_line(struct kiln_config *config, const char *start, const char *end,
                      const char *path, const char *origin, struct kiln_error *err)
{
    trim(&start, &end);
    if (start == end || *start == '#')
        return 0;
    const char *equals = memchr(start, '=', (size_t)(end - start));
    if (!equals)
        return kiln_fail(err, KILN_CONFIG, "%s: a line is `name = value`, but this has no '='",
                         origin);
    const char *name_end = equals, *value = equals + 1;
    trim(&start, &name_end);
    char name[64];
    if (start == name_end || (size_t)(name_end - start) >= sizeof name)
        return kiln_fail(err, KILN_CONFIG, "%s: no name of a setting before '='", origin);
    for (size_t i = 0; i <= (size_t)(name_end - start); i++)
        name[i] = start + i == name_end ? '\0' : start[i] == '-' ? '_' : start[i];
    int code = cut_value(&value, &end, origin, err);
    if (!code)
        code = already_set(config, name, path, origin, err);
    if (code)
        return code;
    char *copy = strndup(value, (size_t)(end - value));
    if (!copy)
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for %s", origin, name);
    code = kiln_config_set(config, name, copy, origin, err);
    free(copy);
    return code;
}

int kiln_config_parse(struct kiln_config *config, const char *text, size_t len, const char *path,
                      struct kiln_error *err)
{
    size_t bad;
    if (len > KILN_CONFIG_FILE_MAX)
        return kiln_fail(err, KILN_CONFIG, "%s: larger than %d bytes", path, KILN_CONFIG_FILE_MAX);
    if (memchr(text, '\0', len))
        return kiln_fail(err, KILN_CONFIG,
                         "%s: has a NUL byte at offset %zu, so it is not a text file", path,
                         (size_t)((const char *)memchr(text, '\0', len) - text));
    if (!kiln_utf8_valid(text, len, &bad))
        return kiln_fail(err, KILN_CONFIG, "%s: not valid UTF-8 at offset %zu", path, bad);
    const char *at = text, *end = text + len;
    if (len >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
        at += 3;
    char origin[512];
    for (unsigned line = 1; at < end; line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *line_end = newline ? newline : end;
        snprintf(origin, sizeof origin, "%s:%u", path, line);
        int code = parse_line(config, at, line_end, path, origin, err);
        if (code)
            return code;
        at = newline ? newline + 1 : end;
    }
    return 0;
}
