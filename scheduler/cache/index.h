/* index.h - the donors in memory, found by a prompt.
 *
 * Donors of one prompt are a pool.  A prompt is found in three ways: to the byte, by its canonical
 * form, and by its subject (schemas/reuse/block.h).  Whatever else must be equal for a hit (size,
 * steps, model and its files, coarse or not, negative prompt) is part of every key; so a model that
 * was exchanged under its name has no donors of before.
 *
 * Memory grows with the donors, up to bounds given at the start: about 150 bytes for a donor with a
 * prompt of its own, and the prompt's text.  Nothing is ever moved, so that no call takes longer
 * than the others.  No I/O, no locks.
 */
#ifndef KILN_DONOR_INDEX_H
#define KILN_DONOR_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/error.h"
#include "schemas/reuse/block.h"

#define KILN_DONOR_KEY 16    /* bytes */
#define KILN_POOL_LOOK 256   /* donors of a prompt that are looked at; further ones are not */
#define KILN_CHAIN_LOOK 4096 /* prompts that a walk visits at most */

struct kiln_donor_index;

/* The ways to find a prompt. */
enum kiln_donor_way { KILN_DONOR_EXACT, KILN_DONOR_CANONICAL, KILN_DONOR_SUBJECT, KILN_DONOR_WAYS };
/* Of a prompt and all that must be equal; hashes. */
struct kiln_donor_keys {
    uint8_t at[KILN_DONOR_WAYS][KILN_DONOR_KEY];
    uint64_t said; /* of kiln_reuse_block */
    bool worded;   /* false: only to be found to the byte, the rest is not set */
};

struct kiln_donor_entry {
    uint64_t job;
    struct kiln_donor_keys keys;
    const char *prompt; /* copied where the keys are worded; NULL: not to be compared */
    uint32_t uses;
};

/* The donors of a prompt. */
struct kiln_donor_pool {
    uint32_t donors;
    uint64_t job;  /* of the one that was used least */
    uint32_t uses; /* of that one */
};

/* A prompt with donors, in the course of a walk; lent until the index changes. */
struct kiln_donor_prompt {
    const char *text;     /* NULL: not kept */
    const uint8_t *exact; /* its key */
    uint64_t said;
};

/* NULL: no memory.  text_max: bytes of all prompts together; those beyond are found only by their
 * first two keys. */
struct kiln_donor_index *kiln_donor_index_new(uint32_t donors_max, uint64_t text_max);
void kiln_donor_index_free(struct kiln_donor_index *index); /* accepts NULL */
uint32_t kiln_donor_index_count(const struct kiln_donor_index *index);
uint32_t kiln_donor_index_prompts(const struct kiln_donor_index *index);

/* Adds a donor or replaces the one of this job, which keeps its uses if they are more.  KILN_FULL
 * at the bound, KILN_NO_MEMORY. */
int kiln_donor_index_put(struct kiln_donor_index *index,
                         const struct kiln_donor_entry *entry) KILN_MUST_CHECK;
/* Whether it was there. */
bool kiln_donor_index_remove(struct kiln_donor_index *index, uint64_t job);
/* One more picture begins from it. */
void kiln_donor_index_use(struct kiln_donor_index *index, uint64_t job);

/* Walks over the prompts of a key; *at is 0 at the beginning, *left how many to visit at most.
 * False at the end.  said: only prompts that may say all of it; 0: all. */
bool kiln_donor_index_next(const struct kiln_donor_index *index, enum kiln_donor_way way,
                           const uint8_t key[KILN_DONOR_KEY], uint64_t said, uint32_t *at,
                           uint32_t *left, struct kiln_donor_prompt *ret);
/* The pool of the prompt with this exact key; zeroed if there is none. */
struct kiln_donor_pool kiln_donor_index_pool(const struct kiln_donor_index *index,
                                             const uint8_t key[KILN_DONOR_KEY]);

#endif
