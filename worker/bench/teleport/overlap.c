/* overlap.c - how much the words of two prompts have in common; see teleport.h. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "worker/bench/teleport/teleport.h"

#define WORDS_MAX 160 /* of a prompt; further ones count for nothing */

struct words {
    const char *at[WORDS_MAX];
    size_t len[WORDS_MAX], count;
};

/* Runs of letters and digits, and of bytes beyond ASCII. */
static void split(const char *text, struct words *ret)
{
    ret->count = 0;
    while (*text && ret->count < WORDS_MAX) {
        size_t len = 0;
        while (isalnum((unsigned char)text[len]) || (unsigned char)text[len] >= 0x80)
            len++;
        if (len > 0) {
            ret->at[ret->count] = text;
            ret->len[ret->count++] = len;
        }
        text += len ? len : 1;
    }
}

static bool same(const struct words *a, size_t i, const struct words *b, size_t k)
{
    return a->len[i] == b->len[k] && strncasecmp(a->at[i], b->at[k], a->len[i]) == 0;
}

/* The share of the words of a that b has. */
static double covered(const struct words *a, const struct words *b)
{
    size_t found = 0;
    for (size_t i = 0; i < a->count; i++) {
        size_t k = 0;
        while (k < b->count && !same(a, i, b, k))
            k++;
        found += k < b->count;
    }
    return a->count ? (double)found / (double)a->count : 1;
}

/* The longest common subsequence, as a share of the longer prompt. */
static double ordered(const struct words *a, const struct words *b)
{
    size_t best[WORDS_MAX + 1] = {0};
    for (size_t i = 0; i < a->count; i++) {
        size_t left_above = 0;
        for (size_t k = 0; k < b->count; k++) {
            const size_t above = best[k + 1];
            if (same(a, i, b, k))
                best[k + 1] = left_above + 1;
            else if (best[k] > above)
                best[k + 1] = best[k];
            left_above = above;
        }
    }
    const size_t longer = a->count > b->count ? a->count : b->count;
    return longer ? (double)best[b->count] / (double)longer : 1;
}

void kiln_teleport_overlap(const char *target, const char *donor,
                           double ret[KILN_TELEPORT_OVERLAPS])
{
    struct words t, d;
    split(target, &t);
    split(donor, &d);
    ret[0] = covered(&t, &d);
    ret[1] = covered(&d, &t);
    ret[2] = ordered(&t, &d);
    ret[3] = log(((double)t.count + 1) / ((double)d.count + 1));
}
