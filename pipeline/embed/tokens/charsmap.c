/* charsmap.c - see charsmap.h. */
#include "pipeline/embed/tokens/charsmap.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "pipeline/embed/tokens/characters.h"
#include "schemas/text/utf8.h"

#define GRAPHEME_MAX 5 /* bytes of a grapheme cluster that is looked up as a whole */

struct kiln_charsmap {
    uint8_t *bytes; /* the decoded map */
    const uint8_t *trie;
    uint32_t units;
    const char *replacements; /* of valid UTF-8, each ended by a NUL */
    size_t replacement_bytes;
};

/* --- reading ---------------------------------------------------------------------------------- */

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* How many bytes it is, or -1 for what is not base64. */
static ssize_t decode(const char *base64, size_t len, uint8_t *out)
{
    uint32_t bits = 0;
    size_t have = 0, n = 0;
    while (len > 0 && base64[len - 1] == '=')
        len--;
    for (size_t i = 0; i < len; i++) {
        const int value = base64_value(base64[i]);
        if (value < 0)
            return -1;
        bits = (bits << 6 | (uint32_t)value) & 0xffffffu;
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[n++] = (uint8_t)(bits >> have);
        }
    }
    return (ssize_t)n;
}

static uint32_t unit(const struct kiln_charsmap *m, uint32_t at)
{
    const uint8_t *b = m->trie + (size_t)at * 4;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

int kiln_charsmap_new(const char *base64, size_t len, const char *what, struct kiln_charsmap **ret,
                      struct kiln_error *err)
{
    if (len / 4 * 3 > KILN_CHARSMAP_BYTES_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: the character map has more than %d bytes",
                         what, KILN_CHARSMAP_BYTES_MAX);
    struct kiln_charsmap *m = calloc(1, sizeof *m);
    if (!m || !(m->bytes = malloc(len / 4 * 3 + 4))) {
        kiln_charsmap_free(m);
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for its character map", what);
    }
    const ssize_t size = decode(base64, len, m->bytes);
    m->trie = m->bytes; /* for unit() */
    const uint32_t trie_size = size >= 4 ? unit(m, 0) : 0;
    const bool fits =
        size >= 4 && trie_size >= 4 && trie_size % 4 == 0 && trie_size <= (size_t)size - 4;
    if (fits) {
        m->trie = m->bytes + 4;
        m->units = trie_size / 4;
        m->replacements = (const char *)m->trie + trie_size;
        m->replacement_bytes = (size_t)size - 4 - trie_size;
    }
    if (!fits || !kiln_utf8_valid(m->replacements, m->replacement_bytes, NULL)) {
        kiln_charsmap_free(m);
        return kiln_fail(err, KILN_CORRUPT, "%s: the character map is damaged", what);
    }
    *ret = m;
    return 0;
}

void kiln_charsmap_free(struct kiln_charsmap *m)
{
    if (!m)
        return;
    free(m->bytes);
    free(m);
}

/* --- applying --------------------------------------------------------------------------------- */

/* The distance from a unit to its children. */
static uint32_t offset(uint32_t u)
{
    return (u >> 10) << ((u & (1u << 9)) >> 6);
}

/* The replacement of the shortest prefix that has one, or NULL.  Units beyond the array, of a
 * damaged map, end the search. */
static const char *find(const struct kiln_charsmap *m, const char *text, size_t len,
                        size_t *ret_len)
{
    uint32_t at = offset(unit(m, 0));
    for (size_t i = 0; i < len && text[i]; i++) {
        const uint8_t byte = (uint8_t)text[i];
        at ^= byte;
        if (at >= m->units)
            return NULL;
        const uint32_t u = unit(m, at);
        if ((u & ((1u << 31) | 0xffu)) != byte)
            return NULL;
        at ^= offset(u);
        if (at >= m->units)
            return NULL;
        if (u >> 8 & 1u) {
            const uint32_t value = unit(m, at) & 0x7fffffffu;
            if (value > m->replacement_bytes)
                return NULL;
            *ret_len = strnlen(m->replacements + value, m->replacement_bytes - value);
            return m->replacements + value;
        }
    }
    return NULL;
}

static void map_characters(const struct kiln_charsmap *m, const char *text, size_t len,
                           struct kiln_text *out)
{
    for (size_t at = 0; at < len;) {
        uint32_t code;
        size_t n = kiln_char_next(text + at, &code), found_len;
        const char *found = find(m, text + at, n, &found_len);
        if (found)
            kiln_text_add(out, found, found_len);
        else
            kiln_text_add(out, text + at, n);
        at += n;
    }
}

/* Where the grapheme cluster that begins at text ends. */
static size_t cluster(const char *text, size_t len)
{
    uint32_t before, code;
    utf8proc_int32_t state = 0;
    size_t at = kiln_char_next(text, &before);
    while (at < len) {
        const size_t n = kiln_char_next(text + at, &code);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)code,
                                             &state))
            break;
        before = code;
        at += n;
    }
    return at;
}

void kiln_charsmap_apply(const struct kiln_charsmap *m, const char *text, size_t len,
                         struct kiln_text *out)
{
    for (size_t at = 0; at < len;) {
        const size_t n = cluster(text + at, len - at);
        size_t found_len;
        const char *found = n <= GRAPHEME_MAX ? find(m, text + at, n, &found_len) : NULL;
        if (found)
            kiln_text_add(out, found, found_len);
        else
            map_characters(m, text + at, n, out);
        at += n;
    }
}
