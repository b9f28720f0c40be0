/* json_bounds.c - a scan that knows only brackets, commas, colons and strings; see json_bounds.h.
 */
#include "storage/formats/json_bounds.h"

#include <stdbool.h>
#include <stdlib.h>

#include "storage/formats/regular.h"

/* Past a string, from its opening quote: where its closing one is, or the end. */
static size_t string_end(const char *text, size_t len, size_t at)
{
    for (at++; at < len && text[at] != '"'; at++)
        at += text[at] == '\\';
    return at;
}

int kiln_json_bounds(const char *text, size_t len, size_t depth_max, size_t values_max,
                     const char *what, struct kiln_error *err)
{
    size_t depth = 0, values = 0;
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        const bool opens = c == '{' || c == '[';
        if (c == '"')
            i = string_end(text, len, i);
        else if (c == '}' || c == ']')
            depth -= depth > 0;
        depth += opens;
        values += opens || c == ',' || c == ':';
        if (depth > depth_max)
            return kiln_fail(err, KILN_CORRUPT, "%s: JSON nests deeper than %zu at byte %zu", what,
                             depth_max, i);
        if (values > values_max)
            return kiln_fail(err, KILN_UNSUPPORTED, "%s: JSON holds more than %zu values", what,
                             values_max);
    }
    return 0;
}

int kiln_json_file(const char *path, size_t bytes_max, size_t depth_max, size_t values_max,
                   json_t **ret, struct kiln_error *err)
{
    char *text;
    size_t len;
    json_error_t where;
    int rc = kiln_regular_read(path, bytes_max, &text, &len, err);
    if (rc)
        return rc;
    rc = kiln_json_bounds(text, len, depth_max, values_max, path, err);
    json_t *json = rc ? NULL : json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
    free(text);
    if (rc)
        return rc;
    if (!json)
        return kiln_fail(err, KILN_CORRUPT, "%s:%d: %s", path, where.line, where.text);
    *ret = json;
    return 0;
}
