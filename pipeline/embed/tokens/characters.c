/* characters.c - see characters.h. */
#include "pipeline/embed/tokens/characters.h"

#include <utf8proc.h>

#include "pipeline/embed/tokens/character_tables.h"

size_t kiln_char_next(const char *text, uint32_t *ret)
{
    const uint8_t *t = (const uint8_t *)text;
    if (t[0] < 0x80) {
        *ret = t[0];
        return 1;
    }
    const size_t len = t[0] < 0xe0 ? 2 : t[0] < 0xf0 ? 3 : 4;
    uint32_t code = t[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++)
        code = code << 6 | (t[i] & 0x3fu);
    *ret = code;
    return len;
}

static bool within(const struct kiln_char_range *ranges, size_t count, uint32_t code)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (ranges[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && ranges[low].first <= code;
}

bool kiln_char_space(uint32_t code)
{
    return code < 0x80 ? code == ' ' || (code >= '\t' && code <= '\r')
                       : within(kiln_chars_space, kiln_chars_space_count, code);
}

bool kiln_char_dropped(uint32_t code)
{
    if (code >= ' ' && code < 0x7f)
        return false;
    return within(kiln_chars_dropped, kiln_chars_dropped_count, code);
}

bool kiln_char_ideograph(uint32_t code)
{
    return code >= 0x3400 && within(kiln_chars_ideograph, kiln_chars_ideograph_count, code);
}

bool kiln_char_mark(uint32_t code)
{
    return code >= 0x300 && within(kiln_chars_mark, kiln_chars_mark_count, code);
}

bool kiln_char_punctuation(uint32_t code)
{
    return within(kiln_chars_punctuation, kiln_chars_punctuation_count, code);
}

/* Capitals that Unicode 16 and 17 added, which utf8proc may not know. */
static const struct {
    uint32_t first, last, lower; /* lower: of the first */
} later_capitals[] = {
    {0x1c89, 0x1c89, 0x1c8a},    {0xa7cb, 0xa7cb, 0x0264}, {0xa7cc, 0xa7cc, 0xa7cd},
    {0xa7ce, 0xa7ce, 0xa7cf},    {0xa7d2, 0xa7d2, 0xa7d3}, {0xa7d4, 0xa7d4, 0xa7d5},
    {0xa7da, 0xa7da, 0xa7db},    {0xa7dc, 0xa7dc, 0x019b}, {0x10d50, 0x10d65, 0x10d70},
    {0x16ea0, 0x16eb8, 0x16ebb},
};

size_t kiln_char_lower(uint32_t code, uint32_t out[2])
{
    if (code < 0x80) {
        out[0] = code >= 'A' && code <= 'Z' ? code + 32 : code;
        return 1;
    }
    if (code == 0x130) { /* the only capital whose lower case is two characters: i and a dot */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
    for (size_t i = 0; i < sizeof later_capitals / sizeof *later_capitals; i++)
        if (code >= later_capitals[i].first && code <= later_capitals[i].last)
            out[0] = code - later_capitals[i].first + later_capitals[i].lower;
    return 1;
}

/* Characters with a decomposition that came after Unicode 9. */
static const struct kiln_char_range later_composed[] = {
    {0x105c9, 0x105e4}, {0x11383, 0x113c8}, {0x11938, 0x11938},
    {0x16121, 0x16128}, {0x16d68, 0x16d6a},
};

size_t kiln_char_decompose(uint32_t code, uint32_t out[KILN_DECOMPOSED_MAX])
{
    utf8proc_int32_t parts[KILN_DECOMPOSED_MAX];
    int boundary = 0;
    out[0] = code;
    if (code < 0xc0 || within(later_composed, sizeof later_composed / sizeof *later_composed, code))
        return 1;
    const utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)code, parts, KILN_DECOMPOSED_MAX,
                                UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &boundary);
    if (n < 1 || n > KILN_DECOMPOSED_MAX)
        return 1;
    for (utf8proc_ssize_t i = 0; i < n; i++)
        out[i] = (uint32_t)parts[i];
    return (size_t)n;
}
