/* html.c - see html.h. */
#include "scheduler/gallery/parts/html.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "schemas/text/html.h"
#include "schemas/text/utc.h"
#include "schemas/text/utf8.h"

/* U+FFFE and U+FFFF, which XML has no place for. */
static bool is_noncharacter(const char *text, size_t size)
{
    return size == 3 &&
           (memcmp(text, "\xef\xbf\xbe", 3) == 0 || memcmp(text, "\xef\xbf\xbf", 3) == 0);
}

/* One character with its escapes; returns how many bytes it took. */
static size_t add_character(struct kiln_text *out, const char *text, size_t len, bool shown)
{
    size_t size = kiln_utf8_length(text, len);
    if (size == 0) {
        kiln_text_puts(out, "\xef\xbf\xbd");
        return 1;
    }
    const char *escaped = kiln_html_entity(text[0]);
    int steering = text[0] == '\n' || text[0] == '\t' ? -1 : kiln_utf8_steering(text, size);
    if (escaped)
        kiln_text_puts(out, escaped);
    else if (steering >= 0 && shown)
        kiln_text_printf(out, "<span class=\"hidden-char\">U+%04X</span>", (unsigned)steering);
    else if ((steering >= 0 && steering < 0xa0) || is_noncharacter(text, size))
        kiln_text_puts(out, "\xef\xbf\xbd");
    else
        kiln_text_add(out, text, size);
    return size;
}

static void add_all(struct kiln_text *out, const char *text, bool shown)
{
    for (size_t len = strlen(text); len > 0;) {
        size_t plain = 0;
        while (plain < len && text[plain] >= ' ' && text[plain] < 0x7f &&
               !kiln_html_entity(text[plain]))
            plain++;
        kiln_text_add(out, text, plain);
        text += plain;
        len -= plain;
        if (len > 0) {
            size_t size = add_character(out, text, len, shown);
            text += size;
            len -= size;
        }
    }
}

void kiln_html(struct kiln_text *out, const char *text)
{
    add_all(out, text, true);
}

void kiln_html_attr(struct kiln_text *out, const char *text)
{
    add_all(out, text, false);
}

static void add_cut(struct kiln_text *out, const char *text, size_t max, bool shown)
{
    char cut[512];
    size_t size = max + 1 < sizeof cut ? max + 1 : sizeof cut;
    kiln_utf8_copy(cut, size, text);
    add_all(out, cut, shown);
    if (strlen(cut) < strlen(text))
        kiln_text_puts(out, "\xe2\x80\xa6");
}

void kiln_html_attr_cut(struct kiln_text *out, const char *text, size_t max)
{
    add_cut(out, text, max, false);
}

void kiln_html_cut(struct kiln_text *out, const char *text, size_t max)
{
    add_cut(out, text, max, true);
}

void kiln_url(struct kiln_text *out, const char *text)
{
    kiln_text_percent(out, text, "");
}

void kiln_html_time(struct kiln_text *out, int64_t ms)
{
    char exact[32];
    kiln_time_text(ms, exact, sizeof exact);
    kiln_text_printf(out, "<time datetime=\"%s\">%.10s %.5s UTC</time>", exact, exact, exact + 11);
}

void kiln_html_count(struct kiln_text *out, uint64_t count)
{
    char digits[32], text[48];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, count), at = 0;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    kiln_text_add(out, text, (size_t)at);
}

void kiln_shell(struct kiln_text *out, const char *text)
{
    kiln_text_puts(out, "'");
    for (; *text; text++) {
        if (*text == '\'')
            kiln_text_puts(out, "'\\'");
        kiln_text_add(out, text, 1);
    }
    kiln_text_puts(out, "'");
}
