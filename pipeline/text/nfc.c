/* nfc.c - Unicode normal form C by the tables of Unicode 9, as Hugging Face's tokenizers do it.
 *
 * utf8proc has tables of later versions.  Both agree on all text of Unicode 9.  To the reference, a
 * combining mark that was assigned later is an ordinary character: it is not reordered and does not
 * compose.  So the text is normalised in pieces that end at such characters.
 *
 * The table lists them: those of Unicode 10 to 15 with a combining class, and U+11930, which
 * composes with U+11935.  It was found by comparing both libraries over all code points in several
 * contexts.
 */
#include "pipeline/text/nfc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "schemas/text/text.h"

static const struct {
    int32_t first, last;
} later_marks[] = {
    {0x07fd, 0x07fd},   {0x0898, 0x089f},   {0x08ca, 0x08d3},   {0x09fe, 0x09fe},
    {0x0c3c, 0x0c3c},   {0x0d3b, 0x0d3c},   {0x0eba, 0x0eba},   {0x1715, 0x1715},
    {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},   {0x10d24, 0x10d27},
    {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85},
    {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e}, {0x11839, 0x1183a},
    {0x11930, 0x11930}, {0x1193d, 0x1193e}, {0x11943, 0x11943}, {0x119e0, 0x119e0},
    {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42},
    {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x16ff0, 0x16ff1},
    {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef},
    {0x1e4ec, 0x1e4ef},
};

static bool is_later_mark(int32_t point)
{
    size_t low = 0, high = sizeof later_marks / sizeof *later_marks;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (later_marks[middle].last < point)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizeof later_marks / sizeof *later_marks && later_marks[low].first <= point;
}

/* The code point at text, which is not at its end, and its length; 0 if it is none. */
static size_t next_point(const uint8_t *text, size_t len, int32_t *ret)
{
    utf8proc_int32_t point = text[0];
    utf8proc_ssize_t n = point < 0x80 ? 1 : utf8proc_iterate(text, (utf8proc_ssize_t)len, &point);
    *ret = point;
    return n > 0 ? (size_t)n : 0;
}

/* The length up to the first later mark, or len; whether all of it is ASCII. */
static size_t piece_length(const uint8_t *text, size_t len, bool *ret_ascii)
{
    size_t at = 0;
    *ret_ascii = true;
    while (at < len) {
        int32_t point;
        size_t n = next_point(text + at, len - at, &point);
        if (n == 0 || is_later_mark(point))
            break;
        *ret_ascii = *ret_ascii && point < 0x80;
        at += n;
    }
    return at;
}

int kiln_nfc(const uint8_t *text, size_t len, uint8_t **ret_text, size_t *ret_len,
             struct kiln_error *err)
{
    struct kiln_text out = {0};
    int rc = 0;
    kiln_text_add(&out, "", 0);
    for (size_t at = 0; at < len && !rc;) {
        bool ascii;
        size_t n = piece_length(text + at, len - at, &ascii);
        utf8proc_uint8_t *normal = NULL;
        utf8proc_ssize_t size = 0;
        if (ascii)
            kiln_text_add(&out, (const char *)text + at, n);
        else if ((size = utf8proc_map(text + at, (utf8proc_ssize_t)n, &normal,
                                      UTF8PROC_STABLE | UTF8PROC_COMPOSE)) >= 0)
            kiln_text_add(&out, (const char *)normal, (size_t)size);
        else
            rc = kiln_fail(err, size == UTF8PROC_ERROR_NOMEM ? KILN_NO_MEMORY : KILN_BAD_INPUT,
                           "normalise %zu bytes: %s", n, utf8proc_errmsg(size));
        free(normal);
        at += n;
        if (at < len) { /* the later mark, unchanged */
            int32_t point;
            n = next_point(text + at, len - at, &point);
            n = n > 0 ? n : 1;
            kiln_text_add(&out, (const char *)text + at, n);
            at += n;
        }
    }
    *ret_len = out.len;
    uint8_t *bytes = (uint8_t *)kiln_text_take(&out);
    if (!rc && !bytes)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory to normalise %zu bytes", len);
    if (rc)
        free(bytes);
    else
        *ret_text = bytes;
    return rc;
}
