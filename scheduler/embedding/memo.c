/* memo.c - see memo.h: chains of a hash table, and a list in the order of use, over fixed slots. */
#include "scheduler/embedding/memo.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/digest.h"

#define NONE UINT32_MAX

struct slot {
    struct kiln_memo_key key;
    uint32_t next;         /* of its chain */
    uint32_t newer, older; /* in the order of use */
};

struct kiln_memo {
    size_t rows, dims, used, chains;
    struct slot *slots;
    uint32_t *heads; /* [chains] */
    int8_t *vectors; /* [rows][dims] */
    uint32_t newest, oldest;
};

struct kiln_memo_key kiln_memo_key(const char *text)
{
    uint8_t hash[KILN_SHA256_SIZE];
    struct kiln_memo_key key;
    kiln_sha256(text, strlen(text), hash);
    memcpy(&key, hash, sizeof key);
    return key;
}

struct kiln_memo *kiln_memo_new(size_t rows, size_t dims)
{
    struct kiln_memo *memo = calloc(1, sizeof *memo);
    if (!memo)
        return NULL;
    *memo = (struct kiln_memo){.rows = rows,
                               .dims = dims,
                               .chains = 2 * rows,
                               .slots = calloc(rows, sizeof *memo->slots),
                               .heads = malloc(2 * rows * sizeof *memo->heads),
                               .vectors = malloc(rows * dims),
                               .newest = NONE,
                               .oldest = NONE};
    if (memo->slots && memo->heads && memo->vectors) {
        memset(memo->heads, 0xff, 2 * rows * sizeof *memo->heads);
        return memo;
    }
    kiln_memo_free(memo);
    return NULL;
}

void kiln_memo_free(struct kiln_memo *memo)
{
    if (!memo)
        return;
    free(memo->slots);
    free(memo->heads);
    free(memo->vectors);
    free(memo);
}

static uint32_t *chain(struct kiln_memo *memo, struct kiln_memo_key key)
{
    return &memo->heads[key.low % memo->chains];
}

static void unlink_order(struct kiln_memo *memo, uint32_t at)
{
    const struct slot *s = &memo->slots[at];
    *(s->newer == NONE ? &memo->newest : &memo->slots[s->newer].older) = s->older;
    *(s->older == NONE ? &memo->oldest : &memo->slots[s->older].newer) = s->newer;
}

static void make_newest(struct kiln_memo *memo, uint32_t at)
{
    struct slot *s = &memo->slots[at];
    s->newer = NONE;
    s->older = memo->newest;
    *(memo->newest == NONE ? &memo->oldest : &memo->slots[memo->newest].newer) = at;
    memo->newest = at;
}

static uint32_t find(struct kiln_memo *memo, struct kiln_memo_key key)
{
    uint32_t at = *chain(memo, key);
    while (at != NONE &&
           (memo->slots[at].key.high != key.high || memo->slots[at].key.low != key.low))
        at = memo->slots[at].next;
    return at;
}

const int8_t *kiln_memo_find(struct kiln_memo *memo, struct kiln_memo_key key)
{
    const uint32_t at = find(memo, key);
    if (at == NONE)
        return NULL;
    unlink_order(memo, at);
    make_newest(memo, at);
    return memo->vectors + at * memo->dims;
}

/* A slot that was never used, or the oldest one, out of its chain. */
static uint32_t take_slot(struct kiln_memo *memo)
{
    if (memo->used < memo->rows)
        return (uint32_t)memo->used++;
    const uint32_t at = memo->oldest;
    uint32_t *link = chain(memo, memo->slots[at].key);
    while (*link != at)
        link = &memo->slots[*link].next;
    *link = memo->slots[at].next;
    unlink_order(memo, at);
    return at;
}

void kiln_memo_put(struct kiln_memo *memo, struct kiln_memo_key key, const int8_t *row)
{
    if (kiln_memo_find(memo, key))
        return;
    const uint32_t at = take_slot(memo);
    memo->slots[at].key = key;
    memo->slots[at].next = *chain(memo, key);
    *chain(memo, key) = at;
    make_newest(memo, at);
    memcpy(memo->vectors + at * memo->dims, row, memo->dims);
}
