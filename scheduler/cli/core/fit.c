/* fit.c - see fit.h. */
#include "scheduler/cli/core/fit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <utf8proc.h>

#include "scheduler/cli/core/text_safe.h"
#include "schemas/text/utf8.h"

#define USUAL_COLUMNS 80
#define NARROWEST 20 /* below it nothing would be left of a name */
#define ELLIPSIS "\xe2\x80\xa6"
#define COLOR_OFF "\033[0m"

int kiln_terminal_columns(int fd)
{
    struct winsize size = {0};
    if (!isatty(fd))
        return 0;
    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return USUAL_COLUMNS;
    return size.ws_col < NARROWEST ? NARROWEST : size.ws_col;
}

int kiln_help_columns(void)
{
    const char *wished = getenv("COLUMNS");
    int columns = kiln_terminal_columns(STDOUT_FILENO);
    if (columns)
        return columns;
    columns = wished ? (int)strtol(wished, NULL, 10) : USUAL_COLUMNS;
    return columns < NARROWEST ? USUAL_COLUMNS : columns;
}

/* One character or one colour of a safe text, not at its end: bytes, and columns into *ret. */
static size_t step(const char *text, int *ret_columns)
{
    utf8proc_int32_t code;
    *ret_columns = 0;
    if (text[0] == '\033') {
        size_t len = strcspn(text, "m");
        return len + (text[len] == 'm');
    }
    size_t len = kiln_utf8_length(text, strnlen(text, 4));
    *ret_columns = 1;
    if (len <= 1)
        return 1;
    utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)len, &code);
    *ret_columns = utf8proc_charwidth(code);
    return len;
}

/* Bytes of the text before end that take at most this many columns. */
static size_t reach(const char *text, const char *end, int columns, int *ret_used)
{
    const char *at = text;
    int used = 0, wide;
    while (at < end) {
        size_t len = step(at, &wide);
        if (used + wide > columns)
            break;
        used += wide;
        at += len;
    }
    *ret_used = used;
    return (size_t)(at - text);
}

void kiln_text_cell(struct kiln_text *line, int columns, const char *name, int width)
{
    struct kiln_text safe = {0};
    kiln_text_safe(&safe, name);
    const char *text = safe.at ? safe.at : "", *end = text + safe.len;
    int wanted = kiln_safe_columns(text), used;
    if (columns && wanted > width) {
        int tail = width / 3, wide;
        kiln_text_add(line, text, reach(text, end, width - 1 - tail, &used));
        kiln_text_puts(line, ELLIPSIS);
        for (; wanted > tail; wanted -= wide)
            text += step(text, &wide);
        kiln_text_puts(line, text);
        wanted += used + 1;
    } else {
        kiln_text_add(line, text, safe.len);
    }
    for (; wanted < width; wanted++)
        kiln_text_puts(line, " ");
    kiln_text_release(&safe);
}

static void cut_line(struct kiln_text *out, const char *line, const char *end, int columns)
{
    int used;
    size_t len = reach(line, end, columns - 1, &used);
    kiln_text_add(out, line, len);
    kiln_text_puts(out, ELLIPSIS);
    if (memchr(line, '\033', len))
        kiln_text_puts(out, COLOR_OFF);
}

/* How much of a word that is wider than a line goes before the break: behind a '|' of a list of
 * choices, or a '/' of a path, where there is one. */
static size_t part_of_word(const char *word, size_t len)
{
    for (const char *mark = "|/"; *mark; mark++)
        for (size_t take = len; take > 0; take--)
            if (word[take - 1] == *mark)
                return take;
    return len;
}

/* Breaks at blanks, and inside a word only if it is wider than a whole line. */
static void wrap_line(struct kiln_text *out, const char *line, const char *end, int columns,
                      int hang)
{
    int used, room = columns;
    for (;;) {
        size_t len = reach(line, end, room, &used);
        size_t take = len;
        if (line + len < end) {
            while (take > 0 && line[take] != ' ')
                take--;
            while (take > 0 && line[take - 1] == ' ')
                take--;
            take = take ? take : part_of_word(line, len); /* an indent alone, or one long word */
        }
        kiln_text_add(out, line, take);
        line += take;
        while (line < end && *line == ' ')
            line++;
        if (line >= end)
            return;
        kiln_text_printf(out, "\n%*s", hang, "");
        room = columns - hang;
    }
}

void kiln_text_fit(struct kiln_text *out, const char *text, int columns, int hang)
{
    hang = hang > columns / 2 ? columns / 2 : hang;
    while (*text) {
        const char *end = text + strcspn(text, "\n");
        int used;
        if (columns == 0 || text + reach(text, end, columns, &used) == end)
            kiln_text_add(out, text, (size_t)(end - text));
        else if (hang < 0)
            cut_line(out, text, end, columns);
        else
            wrap_line(out, text, end, columns, hang);
        if (*end)
            kiln_text_puts(out, "\n");
        text = end + (*end == '\n');
    }
}

void kiln_print_fit(const struct kiln_cli *cli, int hang, const char *fmt, ...)
{
    struct kiln_text safe = {0}, shown = {0};
    va_list args;
    va_start(args, fmt);
    kiln_text_safe_format(&safe, fmt, args);
    va_end(args);
    kiln_text_fit(&shown, safe.at ? safe.at : "", cli->columns, hang);
    kiln_text_puts(&shown, "\n"); /* one write, so that lines of several programs do not mix */
    if (!shown.failed && !safe.failed)
        fwrite(shown.at, 1, shown.len, stdout);
    kiln_text_release(&safe);
    kiln_text_release(&shown);
}

void kiln_help_print(FILE *out, int hang, const char *fmt, ...)
{
    struct kiln_text shown = {0};
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        text = NULL;
    va_end(args);
    kiln_text_fit(&shown, text ? text : "(no memory for this line)\n", kiln_help_columns(), hang);
    if (shown.at && !shown.failed)
        fwrite(shown.at, 1, shown.len, out);
    kiln_text_release(&shown);
    free(text);
}
