/* index.c - see index.h.
 *
 * Entries lie in one array that doubles; free ones form a list.  Two tables of chains lead to them:
 * by key and by job.  Both have as many heads as the array has entries.
 */
#include "scheduler/cache/index.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
#define FIRST_ROOM 1024 /* a power of two: heads are found by a mask */

struct slot {
    struct kiln_donor_entry entry;
    uint32_t next_key, prev_key;
    uint32_t next_job; /* of a free slot: the next free one */
};

struct kiln_donor_index {
    uint32_t max, room, count, unused;
    struct slot *slots;
    uint32_t *by_key, *by_job; /* [room] */
};

static uint32_t key_head(const struct kiln_donor_index *index, const uint8_t *key)
{
    uint64_t number;
    memcpy(&number, key, sizeof number); /* keys are hashes already */
    return (uint32_t)number & (index->room - 1);
}

static uint32_t job_head(const struct kiln_donor_index *index, uint64_t job)
{
    return (uint32_t)(job * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (index->room - 1);
}

struct kiln_donor_index *kiln_donor_index_new(uint32_t donors_max)
{
    struct kiln_donor_index *index = calloc(1, sizeof *index);
    if (index)
        *index = (struct kiln_donor_index){.max = donors_max, .unused = NONE};
    return index;
}

void kiln_donor_index_free(struct kiln_donor_index *index)
{
    if (!index)
        return;
    free(index->slots);
    free(index->by_key);
    free(index->by_job);
    free(index);
}

uint32_t kiln_donor_index_count(const struct kiln_donor_index *index)
{
    return index->count;
}

static void link_slot(struct kiln_donor_index *index, uint32_t at)
{
    struct slot *slot = &index->slots[at];
    uint32_t *key = &index->by_key[key_head(index, slot->entry.key)];
    uint32_t *job = &index->by_job[job_head(index, slot->entry.job)];
    slot->next_key = *key;
    slot->prev_key = NONE;
    if (*key != NONE)
        index->slots[*key].prev_key = at;
    slot->next_job = *job;
    *key = *job = at;
}

/* Only when every slot is in use, so that each of them is linked again. */
static bool grow(struct kiln_donor_index *index)
{
    const uint32_t room = index->room ? 2 * index->room : FIRST_ROOM;
    struct slot *slots = realloc(index->slots, room * sizeof *slots);
    if (slots)
        index->slots = slots;
    uint32_t *by_key = malloc(room * sizeof *by_key), *by_job = malloc(room * sizeof *by_job);
    if (!slots || !by_key || !by_job) {
        free(by_key);
        free(by_job);
        return false;
    }
    memset(by_key, 0xff, room * sizeof *by_key);
    memset(by_job, 0xff, room * sizeof *by_job);
    free(index->by_key);
    free(index->by_job);
    index->by_key = by_key;
    index->by_job = by_job;
    const uint32_t before = index->room;
    index->room = room;
    for (uint32_t i = 0; i < before; i++)
        link_slot(index, i);
    for (uint32_t i = room; i-- > before;) {
        slots[i].next_job = index->unused;
        index->unused = i;
    }
    return true;
}

/* The place that names the slot of a job, in its chain; the end of the chain if there is none. */
static uint32_t *find_job(const struct kiln_donor_index *index, uint64_t job)
{
    uint32_t *at = &index->by_job[job_head(index, job)];
    while (*at != NONE && index->slots[*at].entry.job != job)
        at = &index->slots[*at].next_job;
    return at;
}

bool kiln_donor_index_remove(struct kiln_donor_index *index, uint64_t job)
{
    uint32_t *by_job = index->room ? find_job(index, job) : NULL;
    if (!by_job || *by_job == NONE)
        return false;
    const uint32_t at = *by_job;
    struct slot *slot = &index->slots[at];
    if (slot->prev_key == NONE) /* a pool may be long: it is not walked */
        index->by_key[key_head(index, slot->entry.key)] = slot->next_key;
    else
        index->slots[slot->prev_key].next_key = slot->next_key;
    if (slot->next_key != NONE)
        index->slots[slot->next_key].prev_key = slot->prev_key;
    *by_job = slot->next_job;
    slot->next_job = index->unused;
    index->unused = at;
    index->count--;
    return true;
}

int kiln_donor_index_put(struct kiln_donor_index *index, const struct kiln_donor_entry *entry)
{
    uint32_t *known = index->room ? find_job(index, entry->job) : NULL;
    if (known && *known != NONE &&
        memcmp(index->slots[*known].entry.key, entry->key, KILN_DONOR_KEY) == 0) {
        struct kiln_donor_entry *old = &index->slots[*known].entry;
        const uint32_t uses = old->uses > entry->uses ? old->uses : entry->uses;
        *old = *entry;
        old->uses = uses;
        return 0;
    }
    (void)kiln_donor_index_remove(index, entry->job);
    if (index->count == index->max)
        return KILN_FULL;
    if (index->unused == NONE && !grow(index))
        return KILN_NO_MEMORY;
    const uint32_t at = index->unused;
    index->unused = index->slots[at].next_job;
    index->slots[at].entry = *entry;
    link_slot(index, at);
    index->count++;
    return 0;
}

void kiln_donor_index_use(struct kiln_donor_index *index, uint64_t job)
{
    const uint32_t *at = index->room ? find_job(index, job) : NULL;
    if (at && *at != NONE)
        index->slots[*at].entry.uses++;
}

struct kiln_donor_pool kiln_donor_index_pool(const struct kiln_donor_index *index,
                                             const uint8_t key[KILN_DONOR_KEY], uint64_t weights)
{
    struct kiln_donor_pool pool = {0};
    uint32_t at = index->room ? index->by_key[key_head(index, key)] : NONE;
    for (uint32_t seen = 0; at != NONE && seen < KILN_POOL_LOOK; at = index->slots[at].next_key) {
        const struct kiln_donor_entry *entry = &index->slots[at].entry;
        if (memcmp(entry->key, key, KILN_DONOR_KEY) != 0)
            continue;
        seen++;
        if (entry->weights != weights)
            continue;
        if (pool.donors == 0 || entry->uses < pool.uses) {
            pool.job = entry->job;
            pool.uses = entry->uses;
        }
        pool.donors++;
    }
    return pool;
}
