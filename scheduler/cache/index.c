/* index.c - see index.h.
 *
 * Prompts and donors lie in chunks that are taken when they are needed and never move; free places
 * form a list.  Chains lead to prompts by each of their keys, to the donors of a prompt, and to a
 * donor by its job.  Places count from 1, so that zeroed memory is empty chains.
 */
#include "scheduler/cache/index.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/reuse/block.h"

#define CHUNK 4096

struct link {
    uint32_t next, prev; /* 0: none */
};

struct prompt {
    uint8_t keys[KILN_DONOR_WAYS][KILN_DONOR_KEY];
    struct link links[KILN_DONOR_WAYS]; /* of a free place: links[0].next is the next one */
    uint64_t said;
    char *text;
    uint32_t donors; /* the chain of its donors */
    uint32_t text_len;
    bool worded;
};

struct donor {
    uint64_t job;
    struct link link; /* among the donors of its prompt; of a free place: the next one */
    uint32_t prompt, uses, next_job;
};

struct kiln_donor_index {
    uint32_t max, heads; /* heads: a power of two */
    uint32_t count, prompts;
    uint64_t text, text_max; /* bytes */
    struct prompt **prompt_chunks;
    struct donor **donor_chunks;
    uint32_t prompts_taken, donors_taken; /* places ever used */
    uint32_t free_prompt, free_donor;
    uint32_t *by_key[KILN_DONOR_WAYS], *by_job; /* [heads] */
};

/* --- places ----------------------------------------------------------------------------------- */

static struct prompt *prompt_at(const struct kiln_donor_index *index, uint32_t at)
{
    return &index->prompt_chunks[(at - 1) / CHUNK][(at - 1) % CHUNK];
}

static struct donor *donor_at(const struct kiln_donor_index *index, uint32_t at)
{
    return &index->donor_chunks[(at - 1) / CHUNK][(at - 1) % CHUNK];
}

static uint32_t take_prompt(struct kiln_donor_index *index)
{
    uint32_t at = index->free_prompt;
    if (at) {
        index->free_prompt = prompt_at(index, at)->links[0].next;
        return at;
    }
    struct prompt **chunk = &index->prompt_chunks[index->prompts_taken / CHUNK];
    if (!*chunk && !(*chunk = malloc(CHUNK * sizeof **chunk)))
        return 0;
    return ++index->prompts_taken;
}

static uint32_t take_donor(struct kiln_donor_index *index)
{
    uint32_t at = index->free_donor;
    if (at) {
        index->free_donor = donor_at(index, at)->link.next;
        return at;
    }
    struct donor **chunk = &index->donor_chunks[index->donors_taken / CHUNK];
    if (!*chunk && !(*chunk = malloc(CHUNK * sizeof **chunk)))
        return 0;
    return ++index->donors_taken;
}

/* --- chains ----------------------------------------------------------------------------------- */

static uint32_t *key_head(const struct kiln_donor_index *index, int way, const uint8_t *key)
{
    uint64_t number;
    memcpy(&number, key, sizeof number); /* keys are hashes already */
    return &index->by_key[way][number & (index->heads - 1)];
}

static uint32_t *job_head(const struct kiln_donor_index *index, uint64_t job)
{
    return &index->by_job[(job * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (index->heads - 1)];
}

static void link_key(struct kiln_donor_index *index, uint32_t at, int way)
{
    struct prompt *prompt = prompt_at(index, at);
    uint32_t *head = key_head(index, way, prompt->keys[way]);
    prompt->links[way] = (struct link){*head, 0};
    if (*head)
        prompt_at(index, *head)->links[way].prev = at;
    *head = at;
}

static void unlink_key(struct kiln_donor_index *index, uint32_t at, int way)
{
    const struct prompt *prompt = prompt_at(index, at);
    const struct link link = prompt->links[way];
    if (link.prev)
        prompt_at(index, link.prev)->links[way].next = link.next;
    else
        *key_head(index, way, prompt->keys[way]) = link.next;
    if (link.next)
        prompt_at(index, link.next)->links[way].prev = link.prev;
}

/* The place that names the donor of a job, in its chain; the end of the chain if there is none. */
static uint32_t *find_job(const struct kiln_donor_index *index, uint64_t job)
{
    uint32_t *at = job_head(index, job);
    while (*at && donor_at(index, *at)->job != job)
        at = &donor_at(index, *at)->next_job;
    return at;
}

static uint32_t find_prompt(const struct kiln_donor_index *index, const uint8_t *exact)
{
    uint32_t at = *key_head(index, KILN_DONOR_EXACT, exact);
    while (at && memcmp(prompt_at(index, at)->keys[KILN_DONOR_EXACT], exact, KILN_DONOR_KEY) != 0)
        at = prompt_at(index, at)->links[KILN_DONOR_EXACT].next;
    return at;
}

/* --- the whole -------------------------------------------------------------------------------- */

struct kiln_donor_index *kiln_donor_index_new(uint32_t donors_max, uint64_t text_max)
{
    struct kiln_donor_index *index = calloc(1, sizeof *index);
    if (!index)
        return NULL;
    const size_t chunks = donors_max / CHUNK + 1;
    index->max = donors_max;
    index->text_max = text_max;
    for (index->heads = 1; index->heads < donors_max;)
        index->heads *= 2;
    /* Large ones are zero pages of the system until they are used. */
    index->prompt_chunks = calloc(chunks, sizeof *index->prompt_chunks);
    index->donor_chunks = calloc(chunks, sizeof *index->donor_chunks);
    index->by_job = calloc(index->heads, sizeof *index->by_job);
    bool ok = index->prompt_chunks && index->donor_chunks && index->by_job;
    for (int way = 0; way < KILN_DONOR_WAYS; way++) {
        index->by_key[way] = calloc(index->heads, sizeof *index->by_key[way]);
        ok = ok && index->by_key[way];
    }
    if (ok)
        return index;
    kiln_donor_index_free(index);
    return NULL;
}

void kiln_donor_index_free(struct kiln_donor_index *index)
{
    if (!index)
        return;
    for (uint32_t at = 1; at <= index->prompts_taken; at++)
        free(prompt_at(index, at)->text);
    for (size_t i = 0; index->prompt_chunks && i <= index->max / CHUNK; i++)
        free(index->prompt_chunks[i]);
    for (size_t i = 0; index->donor_chunks && i <= index->max / CHUNK; i++)
        free(index->donor_chunks[i]);
    for (int way = 0; way < KILN_DONOR_WAYS; way++)
        free(index->by_key[way]);
    free(index->prompt_chunks);
    free(index->donor_chunks);
    free(index->by_job);
    free(index);
}

uint32_t kiln_donor_index_count(const struct kiln_donor_index *index)
{
    return index->count;
}

uint32_t kiln_donor_index_prompts(const struct kiln_donor_index *index)
{
    return index->prompts;
}

/* --- changes ---------------------------------------------------------------------------------- */

static uint32_t add_prompt(struct kiln_donor_index *index, const struct kiln_donor_entry *entry)
{
    const struct kiln_donor_keys *keys = &entry->keys;
    const uint32_t at = take_prompt(index);
    if (!at)
        return 0;
    struct prompt *prompt = prompt_at(index, at);
    const size_t len = keys->worded && entry->prompt ? strlen(entry->prompt) : 0;
    *prompt = (struct prompt){.said = keys->said, .worded = keys->worded};
    memcpy(prompt->keys, keys->at, sizeof prompt->keys);
    if (len && len < index->text_max - index->text) {
        prompt->text = strdup(entry->prompt); /* without it the prompt is only not compared */
        prompt->text_len = prompt->text ? (uint32_t)len + 1 : 0;
        index->text += prompt->text_len;
    }
    link_key(index, at, KILN_DONOR_EXACT);
    if (keys->worded)
        link_key(index, at, KILN_DONOR_CANONICAL);
    if (prompt->text)
        link_key(index, at, KILN_DONOR_SUBJECT);
    index->prompts++;
    return at;
}

static void remove_prompt(struct kiln_donor_index *index, uint32_t at)
{
    struct prompt *prompt = prompt_at(index, at);
    unlink_key(index, at, KILN_DONOR_EXACT);
    if (prompt->worded)
        unlink_key(index, at, KILN_DONOR_CANONICAL);
    if (prompt->text)
        unlink_key(index, at, KILN_DONOR_SUBJECT);
    index->text -= prompt->text_len;
    free(prompt->text);
    prompt->text = NULL;
    prompt->links[0].next = index->free_prompt;
    index->free_prompt = at;
    index->prompts--;
}

bool kiln_donor_index_remove(struct kiln_donor_index *index, uint64_t job)
{
    uint32_t *by_job = find_job(index, job);
    if (!*by_job)
        return false;
    const uint32_t at = *by_job;
    struct donor *donor = donor_at(index, at);
    struct prompt *prompt = prompt_at(index, donor->prompt);
    if (donor->link.prev) /* a pool may be long: it is not walked */
        donor_at(index, donor->link.prev)->link.next = donor->link.next;
    else
        prompt->donors = donor->link.next;
    if (donor->link.next)
        donor_at(index, donor->link.next)->link.prev = donor->link.prev;
    if (!prompt->donors)
        remove_prompt(index, donor->prompt);
    *by_job = donor->next_job;
    donor->link.next = index->free_donor;
    index->free_donor = at;
    index->count--;
    return true;
}

int kiln_donor_index_put(struct kiln_donor_index *index, const struct kiln_donor_entry *entry)
{
    const uint8_t *exact = entry->keys.at[KILN_DONOR_EXACT];
    const uint32_t known = *find_job(index, entry->job);
    if (known) {
        struct donor *donor = donor_at(index, known);
        if (memcmp(prompt_at(index, donor->prompt)->keys[KILN_DONOR_EXACT], exact,
                   KILN_DONOR_KEY) == 0) {
            donor->uses = donor->uses > entry->uses ? donor->uses : entry->uses;
            return 0;
        }
        (void)kiln_donor_index_remove(index, entry->job);
    }
    if (index->count == index->max)
        return KILN_FULL;
    const uint32_t at = take_donor(index);
    uint32_t of = at ? find_prompt(index, exact) : 0;
    of = at && !of ? add_prompt(index, entry) : of;
    if (!of) {
        if (at) {
            donor_at(index, at)->link.next = index->free_donor;
            index->free_donor = at;
        }
        return KILN_NO_MEMORY;
    }
    struct donor *donor = donor_at(index, at);
    struct prompt *prompt = prompt_at(index, of);
    uint32_t *job = job_head(index, entry->job);
    *donor = (struct donor){.job = entry->job,
                            .link = {prompt->donors, 0},
                            .prompt = of,
                            .uses = entry->uses,
                            .next_job = *job};
    if (prompt->donors)
        donor_at(index, prompt->donors)->link.prev = at;
    *job = prompt->donors = at;
    index->count++;
    return 0;
}

void kiln_donor_index_use(struct kiln_donor_index *index, uint64_t job)
{
    const uint32_t at = *find_job(index, job);
    if (at)
        donor_at(index, at)->uses++;
}

/* --- look-ups --------------------------------------------------------------------------------- */

bool kiln_donor_index_next(const struct kiln_donor_index *index, enum kiln_donor_way way,
                           const uint8_t key[KILN_DONOR_KEY], uint64_t said, uint32_t *at,
                           uint32_t *left, struct kiln_donor_prompt *ret)
{
    uint32_t next = *at ? prompt_at(index, *at)->links[way].next : *key_head(index, way, key);
    for (; next && *left > 0; next = prompt_at(index, next)->links[way].next) {
        const struct prompt *prompt = prompt_at(index, next);
        --*left;
        if (!kiln_reuse_said_serves(said, prompt->said) ||
            memcmp(prompt->keys[way], key, KILN_DONOR_KEY) != 0)
            continue;
        *ret =
            (struct kiln_donor_prompt){prompt->text, prompt->keys[KILN_DONOR_EXACT], prompt->said};
        *at = next;
        return true;
    }
    return false;
}

struct kiln_donor_pool kiln_donor_index_pool(const struct kiln_donor_index *index,
                                             const uint8_t key[KILN_DONOR_KEY])
{
    struct kiln_donor_pool pool = {0};
    const uint32_t of = find_prompt(index, key);
    for (uint32_t at = of ? prompt_at(index, of)->donors : 0; at && pool.donors < KILN_POOL_LOOK;) {
        const struct donor *donor = donor_at(index, at);
        if (pool.donors == 0 || donor->uses < pool.uses) {
            pool.job = donor->job;
            pool.uses = donor->uses;
        }
        pool.donors++;
        at = donor->link.next;
    }
    return pool;
}
