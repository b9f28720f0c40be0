/* conditions.c - see conditions.h. */
#include "scheduler/gallery/web/conditions.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool kiln_web_none_match(const char *header, const char *etag)
{
    size_t len = strlen(etag);
    for (const char *at = header; at && *at;) {
        at += strspn(at, " \t,");
        if (*at == '*')
            return true;
        if (strncmp(at, "W/", 2) == 0)
            at += 2;
        if (*at != '"')
            return false;
        const char *end = strchr(at + 1, '"');
        if (!end)
            return false;
        if ((size_t)(end + 1 - at) == len && strncmp(at, etag, len) == 0)
            return true;
        at = end + 1;
    }
    return false;
}

/* Up to 18 digits, so that no sum overflows; *text is moved behind them. */
static bool read_number(const char **text, uint64_t *ret)
{
    size_t len = strspn(*text, "0123456789");
    if (len == 0 || len > 18)
        return false;
    *ret = strtoull(*text, NULL, 10);
    *text += len;
    return true;
}

enum kiln_web_range kiln_web_range_read(const char *range, const char *if_range, const char *etag,
                                        uint64_t size, uint64_t *ret_first, uint64_t *ret_last)
{
    uint64_t first = 0, last = 0;
    if (!range || strncasecmp(range, "bytes=", 6) != 0 || (if_range && strcmp(if_range, etag) != 0))
        return KILN_WEB_RANGE_NONE;
    const char *at = range + 6;
    bool from = read_number(&at, &first);
    if (*at++ != '-')
        return KILN_WEB_RANGE_NONE;
    bool to = read_number(&at, &last);
    if (*at != '\0' || (!from && !to) || (from && to && last < first))
        return KILN_WEB_RANGE_NONE;
    if (!from) { /* the last so many bytes */
        if (last == 0 || size == 0)
            return KILN_WEB_RANGE_BEYOND;
        first = last < size ? size - last : 0;
        last = size - 1;
    } else if (first >= size) {
        return KILN_WEB_RANGE_BEYOND;
    } else if (!to || last >= size) {
        last = size - 1;
    }
    *ret_first = first;
    *ret_last = last;
    return KILN_WEB_RANGE_PART;
}

/* Whether the parameters behind a coding say q=0, q=0.0 or the like. */
static bool is_refused(const char *parameters, size_t len)
{
    const char *q = memmem(parameters, len, "q=", 2);
    return q && strtod(q + 2, NULL) == 0;
}

bool kiln_web_takes_gzip(const char *header)
{
    bool any = false;
    for (const char *at = header; at && *at;) {
        at += strspn(at, " \t,");
        size_t len = strcspn(at, ","), word = strcspn(at, ";, \t");
        bool refused = is_refused(at + word, len - word);
        if (word == 4 && strncasecmp(at, "gzip", 4) == 0)
            return !refused;
        any = any || (word == 1 && *at == '*' && !refused);
        at += len;
    }
    return any;
}
