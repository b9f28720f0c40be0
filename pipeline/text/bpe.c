/* bpe.c - the merges of a word, best rank first, leftmost first among equals.
 * The word is a linked list of symbols in an array; a heap has every pair of neighbours that has a
 * merge.  A popped pair may be stale, because one of its symbols has been merged with its other
 * neighbour meanwhile.  Then the pair at that place has another result, and is skipped.  So each
 * merge costs one heap step, and a word of n bytes n log n; a prompt may be one word of kilobytes.
 */
#include "pipeline/text/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/room.h"
#define NO_PAIR UINT64_MAX

struct merge {
    uint64_t pair; /* left << 32 | right, or NO_PAIR */
    int32_t rank, merged;
};

struct kiln_bpe {
    int32_t byte_ids[256];
    struct merge *table; /* open addressing, at most half full */
    size_t mask;
};

struct symbol {
    int32_t id; /* -1 once it became part of its left neighbour */
    int32_t prev, next;
};

struct candidate {
    int32_t rank, at, merged;
};

/* The symbols and the heap of one word. */
struct work {
    struct symbol *symbols;
    struct candidate *heap;
    size_t heap_count;
};

#define SMALL_WORD 64 /* bytes; longer ones take memory of their own */

int kiln_ids_add(struct kiln_ids *ids, int32_t id, struct kiln_error *err)
{
    int32_t *at = kiln_room(ids->at, ids->count, &ids->size, sizeof *at);
    if (!at)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %zu token ids", ids->count + 1);
    ids->at = at;
    ids->at[ids->count++] = id;
    return 0;
}

/* --- the table of merges -------------------------------------------------------------------- */

static uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* Mixes all bits of a pair into the low ones (the finalizer of splitmix64). */
static size_t slot_of(uint64_t pair, size_t mask)
{
    pair = (pair ^ pair >> 30) * 0xbf58476d1ce4e5b9u;
    pair = (pair ^ pair >> 27) * 0x94d049bb133111ebu;
    return (size_t)(pair ^ pair >> 31) & mask;
}

/* The pair's place, or the empty one where it would stand. */
static struct merge *find(const struct kiln_bpe *bpe, uint64_t pair)
{
    size_t i = slot_of(pair, bpe->mask);
    while (bpe->table[i].pair != pair && bpe->table[i].pair != NO_PAIR)
        i = (i + 1) & bpe->mask;
    return &bpe->table[i];
}

struct kiln_bpe *kiln_bpe_new(const int32_t byte_ids[256], size_t merges)
{
    size_t size = 16;
    while (size < 2 * merges)
        size *= 2;
    struct kiln_bpe *bpe = malloc(sizeof *bpe);
    struct merge *table = malloc(size * sizeof *table);
    if (!bpe || !table) {
        free(bpe);
        free(table);
        return NULL;
    }
    memcpy(bpe->byte_ids, byte_ids, sizeof bpe->byte_ids);
    for (size_t i = 0; i < size; i++)
        table[i].pair = NO_PAIR;
    bpe->table = table;
    bpe->mask = size - 1;
    return bpe;
}

void kiln_bpe_free(struct kiln_bpe *bpe)
{
    if (bpe)
        free(bpe->table);
    free(bpe);
}

void kiln_bpe_add(struct kiln_bpe *bpe, int32_t left, int32_t right, int32_t rank, int32_t merged)
{
    uint64_t pair = pair_of(left, right);
    *find(bpe, pair) = (struct merge){pair, rank, merged};
}

/* --- one word ------------------------------------------------------------------------------- */

static bool before(struct candidate a, struct candidate b)
{
    return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

static void heap_push(struct work *w, struct candidate c)
{
    size_t i = w->heap_count++;
    for (; i > 0 && before(c, w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = c;
}

static struct candidate heap_pop(struct work *w)
{
    struct candidate top = w->heap[0], last = w->heap[--w->heap_count];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < w->heap_count) {
        if (child + 1 < w->heap_count && before(w->heap[child + 1], w->heap[child]))
            child++;
        if (!before(w->heap[child], last))
            break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return top;
}

/* Queues the pair that begins at `at`, if it has a merge. */
static void offer(const struct kiln_bpe *bpe, struct work *w, int32_t at)
{
    if (at < 0 || w->symbols[at].next < 0)
        return;
    const struct merge *m =
        find(bpe, pair_of(w->symbols[at].id, w->symbols[w->symbols[at].next].id));
    if (m->pair != NO_PAIR)
        heap_push(w, (struct candidate){m->rank, at, m->merged});
}

/* Whether the pair at c.at is still the one that was queued. */
static bool still_there(const struct kiln_bpe *bpe, const struct work *w, struct candidate c)
{
    const struct symbol *left = &w->symbols[c.at];
    if (left->id < 0 || left->next < 0)
        return false;
    const struct merge *m = find(bpe, pair_of(left->id, w->symbols[left->next].id));
    return m->pair != NO_PAIR && m->merged == c.merged;
}

static void merge_all(const struct kiln_bpe *bpe, struct work *w, int32_t count)
{
    for (int32_t i = 0; i + 1 < count; i++)
        offer(bpe, w, i);
    while (w->heap_count > 0) {
        struct candidate c = heap_pop(w);
        if (!still_there(bpe, w, c))
            continue;
        struct symbol *left = &w->symbols[c.at], *right = &w->symbols[left->next];
        left->id = c.merged;
        left->next = right->next;
        right->id = -1;
        if (left->next >= 0)
            w->symbols[left->next].prev = c.at;
        offer(bpe, w, left->prev);
        offer(bpe, w, c.at);
    }
}

int kiln_bpe_encode(const struct kiln_bpe *bpe, const uint8_t *word, size_t len,
                    struct kiln_ids *ids, struct kiln_error *err)
{
    struct symbol small_symbols[SMALL_WORD];
    struct candidate small_heap[3 * SMALL_WORD];
    struct work w = {small_symbols, small_heap, 0};
    if (len == 0)
        return 0;
    if (len > SMALL_WORD) {
        /* One candidate a pair at the start, two more a merge. */
        w.symbols = malloc(len * sizeof *w.symbols);
        w.heap = malloc(3 * len * sizeof *w.heap);
    }
    int rc = w.symbols && w.heap
                 ? 0
                 : kiln_fail(err, KILN_NO_MEMORY, "no memory for a word of %zu bytes", len);
    if (!rc) {
        int32_t count = (int32_t)len;
        for (int32_t i = 0; i < count; i++)
            w.symbols[i] =
                (struct symbol){bpe->byte_ids[word[i]], i - 1, i + 1 < count ? i + 1 : -1};
        merge_all(bpe, &w, count);
        for (int32_t i = 0; i >= 0 && !rc; i = w.symbols[i].next)
            rc = kiln_ids_add(ids, w.symbols[i].id, err);
    }
    if (len > SMALL_WORD) {
        free(w.symbols);
        free(w.heap);
    }
    return rc;
}
