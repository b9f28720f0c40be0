/* text_safe.c - see text_safe.h. */
#include "scheduler/cli/core/text_safe.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "schemas/text/utf8.h"

/* What stands on the terminal for one character. */
struct glyph {
    char text[8];
    size_t len;
    int columns;
    size_t taken; /* bytes of the text that it stands for */
};

/* The text is not at its end. */
static struct glyph glyph_at(const char *text)
{
    struct glyph glyph = {.len = 1, .columns = 1, .taken = 1};
    utf8proc_int32_t code = '?';
    size_t len = kiln_utf8_length(text, strnlen(text, 4));
    if (len == 0) {
        glyph.text[0] = '?';
        return glyph;
    }
    utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)len, &code);
    glyph.taken = len;
    if (code == '\n' || code == '\t') {
        glyph.len =
            (size_t)snprintf(glyph.text, sizeof glyph.text, "\\%c", code == '\n' ? 'n' : 't');
        glyph.columns = (int)glyph.len;
    } else if (kiln_utf8_steering(text, len) >= 0) {
        glyph.len =
            (size_t)snprintf(glyph.text, sizeof glyph.text, "\\u%04x", (unsigned)code & 0xffff);
        glyph.columns = (int)glyph.len;
    } else {
        memcpy(glyph.text, text, len);
        glyph.len = len;
        glyph.columns = len == 1 ? 1 : utf8proc_charwidth(code);
    }
    return glyph;
}

void kiln_text_safe(struct kiln_text *out, const char *text)
{
    while (*text) {
        struct glyph glyph = glyph_at(text);
        kiln_text_add(out, glyph.text, glyph.len);
        text += glyph.taken;
    }
}

void kiln_print_safe(const char *text)
{
    struct kiln_text shown = {0};
    kiln_text_safe(&shown, text);
    if (shown.len > 0)
        fwrite(shown.at, 1, shown.len, stdout);
    kiln_text_release(&shown);
}

void kiln_text_safe_format(struct kiln_text *out, const char *fmt, va_list args)
{
    char *line = NULL;
    if (vasprintf(&line, fmt, args) < 0)
        line = NULL;
    kiln_text_safe(out, line ? line : "(no memory for this line)");
    free(line);
}

void kiln_print_line(const char *fmt, ...)
{
    struct kiln_text shown = {0};
    va_list args;
    va_start(args, fmt);
    kiln_text_safe_format(&shown, fmt, args);
    va_end(args);
    kiln_text_add(&shown, "\n", 1); /* one write, so that lines of several programs do not mix */
    if (!shown.failed)
        fwrite(shown.at, 1, shown.len, stdout);
    kiln_text_release(&shown);
}

/* As much as fits into both; *ret_used: the columns that it takes. */
static size_t fit(const char *text, int columns, char *out, size_t size, int *ret_used)
{
    size_t len = 0;
    int used = 0;
    while (*text) {
        struct glyph glyph = glyph_at(text);
        if (glyph.columns > columns - used || len + glyph.len >= size)
            break;
        memcpy(out + len, glyph.text, glyph.len);
        len += glyph.len;
        used += glyph.columns;
        text += glyph.taken;
    }
    out[len] = '\0';
    *ret_used = used;
    return len;
}

const char *kiln_safe_line(const char *text, char *out, size_t size)
{
    int used;
    (void)fit(text, INT_MAX, out, size, &used);
    return out;
}

const char *kiln_safe_cell(const char *text, int columns, char *out, size_t size)
{
    int used;
    size_t len = fit(text, columns, out, size, &used);
    for (; used < columns && len + 1 < size; used++)
        out[len++] = ' ';
    out[len] = '\0';
    return out;
}

int kiln_safe_columns(const char *text)
{
    int columns = 0;
    while (*text) {
        struct glyph glyph = glyph_at(text);
        columns += glyph.columns;
        text += glyph.taken;
    }
    return columns;
}
