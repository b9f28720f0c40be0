/* world.h - what a search by meaning reads, inside of this room.
 *
 * A world is a catalogue, an index, and which row of the index is which prompt's.  Searches hold a
 * read lock for as long as they run; the keeper changes a world in short steps under the write
 * lock, and replaces it as a whole after a load.
 */
#ifndef KILN_GALLERY_WORLD_H
#define KILN_GALLERY_WORLD_H

#include <pthread.h>
#include <string.h>

#include "pipeline/embed/index/code.h"
#include "pipeline/embed/index/index.h"
#include "scheduler/gallery/meaning/catalogue.h"
#include "scheduler/gallery/meaning/meaning.h"
#include "scheduler/gallery/meaning/token_file.h"
#include "storage/ledger/gallery/prompts.h"

#define KILN_NO_EVIDENCE (KILN_NONE - 1) /* in `places`: the prompt never gets a vector */

struct kiln_world {
    uint64_t number; /* no other world has it, before or after */
    struct kiln_catalogue *catalogue;
    struct kiln_vector_index *index;
    uint32_t *places;  /* of prompt p: its row in the index, KILN_NONE before it has a vector */
    uint32_t *prompts; /* of row r of the index */
    kiln_token_place *tokens;     /* likewise: 0 while they are in the ledger alone */
    struct kiln_token_file *file; /* where they are; NULL: none was needed yet, or can be */
    bool file_failed;
    uint32_t block; /* of the ledger's table, at which the walk for tokens goes on */
    bool walked;    /* that walk has ended */
    size_t places_room, prompts_room, tokens_room;
    uint32_t prompt_count; /* places that are filled in */
    uint32_t waiting;      /* prompts from here on may lack a vector */
};

struct kiln_meaning {
    const char *pool;
    const struct kiln_embedder *embedder;
    const struct kiln_reuse_words *words; /* the embedder knows no others; NULL: it may know any */
    size_t dims;
    pthread_rwlock_t lock; /* of the world */
    struct kiln_world *world;
    uint64_t *notes; /* [KILN_MEANING_NOTES_MAX]: jobs that changed; the keeper's */
    bool *notes_gone;
    uint32_t note_count;
    _Atomic int64_t searched_ms; /* kiln_clock_ms of the last search */
    int64_t noted_ms;            /* of the last changes; the keeper's */
    uint32_t step_count;         /* prompts of its next step, if a rest follows */
};

/* For vectors of `dims` values. */
int kiln_world_new(size_t dims, struct kiln_world **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_world_free(struct kiln_world *world); /* accepts NULL */
int kiln_world_put_picture(struct kiln_world *world, const struct kiln_prompt_picture *picture,
                           struct kiln_error *err) KILN_MUST_CHECK;
/* Does nothing for a prompt that has a vector. */
int kiln_world_put_vector(struct kiln_world *world, uint32_t prompt,
                          const struct kiln_prompt_vector *vector,
                          struct kiln_error *err) KILN_MUST_CHECK;

/* The keeper puts tokens into the file, which needs no lock.  0: it takes no more, which is logged;
 * searches go on reading them in the ledger. */
kiln_token_place kiln_world_keep(struct kiln_world *world, const uint8_t *tokens, size_t size);
/* The tokens of a prompt are there; nothing for one without a vector. */
void kiln_world_put_tokens(struct kiln_world *world, uint32_t prompt, kiln_token_place place);

/* Fails with KILN_NO_MEMORY. */
int kiln_world_no_memory(struct kiln_error *err);

#endif
