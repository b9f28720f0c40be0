/* pieces.c - see pieces.h. */
#include "pipeline/embed/tokens/pieces.h"

#include <stdlib.h>
#include <string.h>

struct kiln_pieces {
    uint32_t count;
    uint8_t *bytes;      /* of all pieces, one after the other */
    uint32_t *begins;    /* [count + 1]: where each one begins */
    int32_t *ids;        /* [count] */
    uint32_t first[257]; /* pieces from first[b] to first[b + 1] begin with the byte b */
};

static int compare(const void *a, const void *b)
{
    const struct kiln_piece *x = a, *y = b;
    const size_t len = x->len < y->len ? x->len : y->len;
    const int order = len > 0 ? memcmp(x->at, y->at, len) : 0;
    if (order != 0)
        return order;
    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id; /* the last of equal ones is kept */
}

static bool equal(const struct kiln_piece *a, const struct kiln_piece *b)
{
    return a->len == b->len && memcmp(a->at, b->at, a->len) == 0;
}

/* From which piece on those begin that start with each byte. */
static void index_first_bytes(struct kiln_pieces *p)
{
    uint32_t i = 0;
    while (i < p->count && p->begins[i] == p->begins[i + 1])
        i++; /* an empty piece begins with no byte */
    for (unsigned b = 0; b < 256; b++) {
        p->first[b] = i;
        while (i < p->count && p->bytes[p->begins[i]] == b)
            i++;
    }
    p->first[256] = i;
}

struct kiln_pieces *kiln_pieces_new(struct kiln_piece *pieces, size_t count)
{
    size_t total = 0;
    qsort(pieces, count, sizeof *pieces, compare);
    for (size_t i = 0; i < count; i++)
        total += pieces[i].len;
    struct kiln_pieces *p = calloc(1, sizeof *p);
    if (p) {
        p->bytes = malloc(total + 1);
        p->begins = malloc((count + 1) * sizeof *p->begins);
        p->ids = malloc((count + 1) * sizeof *p->ids);
    }
    if (!p || !p->bytes || !p->begins || !p->ids) {
        kiln_pieces_free(p);
        return NULL;
    }
    uint32_t end = 0;
    for (size_t i = 0; i < count; i++) {
        if (i + 1 < count && equal(&pieces[i], &pieces[i + 1]))
            continue;
        memcpy(p->bytes + end, pieces[i].at, pieces[i].len);
        p->begins[p->count] = end;
        p->ids[p->count++] = pieces[i].id;
        end += (uint32_t)pieces[i].len;
    }
    p->begins[p->count] = end;
    index_first_bytes(p);
    return p;
}

void kiln_pieces_free(struct kiln_pieces *p)
{
    if (!p)
        return;
    free(p->bytes);
    free(p->begins);
    free(p->ids);
    free(p);
}

struct kiln_piece_walk kiln_pieces_start(const struct kiln_pieces *p)
{
    return (struct kiln_piece_walk){.high = p->count};
}

static uint32_t length(const struct kiln_pieces *p, uint32_t i)
{
    return p->begins[i + 1] - p->begins[i];
}

/* The first of the pieces in [low, high), all longer than depth, whose byte there is >= byte. */
static uint32_t lower_bound(const struct kiln_pieces *p, uint32_t low, uint32_t high,
                            uint32_t depth, unsigned byte)
{
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (p->bytes[p->begins[middle] + depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool kiln_pieces_step(const struct kiln_pieces *p, struct kiln_piece_walk *walk, uint8_t byte)
{
    const uint32_t depth = walk->depth;
    if (depth == 0) {
        walk->low = p->first[byte];
        walk->high = p->first[byte + 1];
    } else {
        if (walk->low < walk->high && length(p, walk->low) == depth)
            walk->low++; /* the piece that ends here */
        walk->low = lower_bound(p, walk->low, walk->high, depth, byte);
        walk->high = lower_bound(p, walk->low, walk->high, depth, byte + 1u);
    }
    walk->depth++;
    return walk->low < walk->high;
}

int32_t kiln_pieces_here(const struct kiln_pieces *p, const struct kiln_piece_walk *walk)
{
    return walk->low < walk->high && length(p, walk->low) == walk->depth ? p->ids[walk->low] : -1;
}

int32_t kiln_pieces_find(const struct kiln_pieces *p, const char *at, size_t len)
{
    struct kiln_piece_walk walk = kiln_pieces_start(p);
    for (size_t i = 0; i < len; i++)
        if (!kiln_pieces_step(p, &walk, (uint8_t)at[i]))
            return -1;
    return kiln_pieces_here(p, &walk);
}
