/* seen.c - open addressing with linear steps, at most three quarters full. */
#include "scheduler/cli/jobs/enqueue/seen.h"

#include <stdlib.h>
#include <string.h>

struct kiln_seen_slot {
    uint64_t high;
    uint32_t low, number; /* number 0: free */
};

/* The slot of a digest, or the free one where it belongs. */
static struct kiln_seen_slot *find(const struct kiln_seen *seen, uint64_t high, uint32_t low)
{
    size_t at = (size_t)high & (seen->size - 1);
    for (;;) {
        struct kiln_seen_slot *slot = &seen->slots[at];
        if (slot->number == 0 || (slot->high == high && slot->low == low))
            return slot;
        at = (at + 1) & (seen->size - 1);
    }
}

/* Doubles and puts every entry in its new place. */
static int grow(struct kiln_seen *seen)
{
    struct kiln_seen bigger = {.size = seen->size ? seen->size * 2 : 1024, .used = seen->used};
    bigger.slots = calloc(bigger.size, sizeof *bigger.slots);
    if (!bigger.slots)
        return -1;
    for (size_t i = 0; i < seen->size; i++)
        if (seen->slots[i].number)
            *find(&bigger, seen->slots[i].high, seen->slots[i].low) = seen->slots[i];
    free(seen->slots);
    *seen = bigger;
    return 0;
}

uint32_t *kiln_seen_number(struct kiln_seen *seen, const uint8_t digest[32])
{
    uint64_t high;
    uint32_t low;
    memcpy(&high, digest, sizeof high);
    memcpy(&low, digest + sizeof high, sizeof low);
    if ((seen->used + 1) * 4 > seen->size * 3 && grow(seen) != 0)
        return NULL;
    struct kiln_seen_slot *slot = find(seen, high, low);
    if (slot->number == 0) {
        slot->high = high;
        slot->low = low;
        seen->used++;
    }
    return &slot->number;
}

void kiln_seen_release(struct kiln_seen *seen)
{
    free(seen->slots);
    *seen = (struct kiln_seen){0};
}
