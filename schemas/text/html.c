/* html.c - see html.h. */
#include "schemas/text/html.h"

#include <stdio.h>
#include <string.h>

#include "schemas/text/utf8.h"

const char *kiln_html_entity(char c)
{
    static const char *const entities[] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;", ['\''] = "&#39;"};
    const unsigned char at = (unsigned char)c;
    return at < sizeof entities / sizeof *entities ? entities[at] : NULL;
}

size_t kiln_html_next(const char **text, char out[KILN_HTML_PIECE])
{
    const unsigned char c = (unsigned char)**text;
    if (!c)
        return 0;
    const size_t length = kiln_utf8_length(*text, strnlen(*text, 4));
    const int steers = length ? kiln_utf8_steering(*text, length) : -1;
    if (steers >= 0 && !strchr("\n\t", c)) {
        *text += length;
        return (size_t)snprintf(out, KILN_HTML_PIECE, "\\u%04x", (unsigned)steers);
    }
    ++*text;
    const char *entity = kiln_html_entity((char)c);
    if (entity)
        return (size_t)snprintf(out, KILN_HTML_PIECE, "%s", entity);
    out[0] = (char)c;
    return 1;
}
