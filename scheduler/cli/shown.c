/* shown.c - see shown.h. */
#include "scheduler/cli/shown.h"

#include <stdio.h>
#include <string.h>

/* The code of the control character at the start of text, -1 if there is none.  In UTF-8 those of
 * C1 have two bytes. */
static int control_at(const char *text, size_t *ret_len)
{
    unsigned char first = (unsigned char)text[0], second = (unsigned char)text[first ? 1 : 0];
    *ret_len = 1;
    if ((first < 0x20 && first) || first == 0x7f)
        return first;
    if (first != 0xc2 || second < 0x80 || second > 0x9f)
        return -1;
    *ret_len = 2;
    return second;
}

void kiln_text_shown(struct kiln_text *out, const char *text)
{
    size_t len;
    for (; *text; text += len) {
        int code = control_at(text, &len);
        if (code < 0)
            kiln_text_add(out, text, len);
        else if (code == '\n' || code == '\t')
            kiln_text_puts(out, code == '\n' ? "\\n" : "\\t");
        else
            kiln_text_printf(out, "\\u%04x", (unsigned)code);
    }
}

void kiln_print_shown(const char *text)
{
    struct kiln_text shown = {0};
    kiln_text_shown(&shown, text);
    if (shown.len > 0)
        fwrite(shown.at, 1, shown.len, stdout);
    kiln_text_release(&shown);
}
