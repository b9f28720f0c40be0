/* names.c - the rule for names and the edit distance behind "did you mean".
 *
 * The distance counts inserted, deleted, changed and swapped letters (optimal string
 * alignment), because swapped neighbours are what fingers do: wdith, stpes.  Three rows of the
 * usual table are enough.  Words are compared by their first COMPARED_MAX bytes: the known ones
 * are short, and what a hostile file calls a key must not cost more than that.
 */
#include "schemas/names.h"

#include <ctype.h>
#include <string.h>

#include "schemas/limits.h"

#define COMPARED_MAX 64 /* longer words are compared by their first bytes only */

bool kiln_name_valid(const char *text, size_t len, size_t max)
{
    if (len == 0 || len > max || !isalnum((unsigned char)text[0]))
        return false;
    for (size_t i = 1; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '.' && text[i] != '_' && text[i] != '-')
            return false;
    return true;
}

bool kiln_name_reserved(const char *name)
{
    return strcmp(name, KILN_CACHE_BATCH) == 0 ||
           strncmp(name, KILN_BACKFILL_BATCH, strlen(KILN_BACKFILL_BATCH)) == 0;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* People who type Width mean width. */
static bool same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

size_t kiln_edit_distance(const char *a, size_t a_len, const char *b, size_t b_len, size_t max)
{
    a_len = least(a_len, COMPARED_MAX);
    b_len = least(b_len, COMPARED_MAX);
    size_t apart = a_len > b_len ? a_len - b_len : b_len - a_len;
    if (apart > max)
        return apart;
    /* What both begin or end with changes no distance. */
    for (; a_len > 0 && b_len > 0 && same(a[0], b[0]); a_len--, b_len--, a++, b++)
        ;
    for (; a_len > 0 && b_len > 0 && same(a[a_len - 1], b[b_len - 1]); a_len--, b_len--)
        ;
    /* `before` is two letters of a back, needed for a swap; `next` is being filled. */
    size_t rows[3][COMPARED_MAX + 1], *before = rows[0], *last = rows[1], *next = rows[2];
    for (size_t j = 0; j <= b_len; j++)
        last[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        next[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t change = last[j - 1] + !same(a[i - 1], b[j - 1]);
            size_t best = least(change, least(last[j], next[j - 1]) + 1);
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                best = least(best, before[j - 2] + 1);
            next[j] = best;
        }
        size_t *const free_row = before;
        before = last;
        last = next;
        next = free_row;
    }
    return last[b_len];
}

static const char *nearest_within(const char *text, size_t len, const char *const *names,
                                  size_t count, size_t limit)
{
    const char *best = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t distance = kiln_edit_distance(text, len, names[i], strlen(names[i]), limit);
        if (distance <= limit) {
            best = names[i];
            if (distance == 0)
                break;
            limit = distance - 1; /* only a nearer one may replace it */
        }
    }
    return best;
}

const char *kiln_nearest(const char *text, size_t len, const char *const *names, size_t count)
{
    if (len < 2) /* every name of one letter is one change away */
        return NULL;
    return nearest_within(text, len, names, count, len / 3 > 1 ? len / 3 : 1);
}

const char *kiln_closest(const char *text, size_t len, const char *const *names, size_t count)
{
    return nearest_within(text, len, names, count, KILN_LINE_MAX);
}
