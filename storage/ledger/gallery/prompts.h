/* prompts.h - what a search by meaning keeps in memory: pictures with what they are filtered by,
 * and the vectors of prompts (table gallery_vector); and what it reads there: their tokens.
 *
 * A vector belongs to a recipe, the name of whatever made it (pipeline/embed/embedder.h); vectors
 * of other recipes are never read.
 */
#ifndef KILN_GALLERY_PROMPTS_H
#define KILN_GALLERY_PROMPTS_H

#include "storage/ledger/gallery/gallery.h"

/* A picture without its files.  Lent to the callback. */
struct kiln_prompt_picture {
    uint64_t job;
    int64_t created_ms;
    const char *prompt_hash, *batch, *tenant, *model; /* model_name */
    const char *style;                                /* NULL: none */
    const char *loras;                                /* names with spaces between; NULL: none */
    uint32_t width, height;
    int mode, level; /* enum kiln_gallery_mode, enum kiln_safety_level */
    bool starred;
    int vote; /* 1, -1, or 0 */
};
typedef int kiln_each_prompt_picture(void *arg, const struct kiln_prompt_picture *picture,
                                     struct kiln_error *err);

/* All pictures of the pool, in no order, through a cursor. */
int kiln_gallery_prompt_pictures(struct kiln_ledger *session, const char *pool,
                                 kiln_each_prompt_picture *each, void *arg,
                                 struct kiln_error *err) KILN_MUST_CHECK;
/* Those of these jobs that there are. */
int kiln_gallery_prompt_pictures_of(struct kiln_ledger *session, const char *pool,
                                    const uint64_t *jobs, size_t count,
                                    kiln_each_prompt_picture *each, void *arg,
                                    struct kiln_error *err) KILN_MUST_CHECK;

/* Calls each with the prompts of these pictures, once for each job that has one. */
typedef int kiln_each_prompt(void *arg, uint64_t job, const char *prompt, struct kiln_error *err);
int kiln_gallery_prompts_of(struct kiln_ledger *session, const uint64_t *jobs, size_t count,
                            kiln_each_prompt *each, void *arg,
                            struct kiln_error *err) KILN_MUST_CHECK;

/* A vector in the form of pipeline/embed/index/code.h, whose bytes the table keeps signed. */
struct kiln_prompt_vector {
    char prompt_hash[65];
    float scale;
    const uint8_t *row;    /* [dims], value + 128; borrowed */
    const uint8_t *tokens; /* to be stored (pipeline/embed/captions/token_rows.h); NULL: none */
    size_t tokens_size;
};
typedef int kiln_each_prompt_vector(void *arg, const struct kiln_prompt_vector *vector,
                                    struct kiln_error *err);
/* All vectors of the recipe, without tokens; those of another length than dims are passed over. */
int kiln_gallery_vectors(struct kiln_ledger *session, const char *recipe, size_t dims,
                         kiln_each_prompt_vector *each, void *arg,
                         struct kiln_error *err) KILN_MUST_CHECK;
struct kiln_prompt_hash {
    char hex[65];
};
/* Likewise those of these prompts that there are. */
int kiln_gallery_vectors_of(struct kiln_ledger *session, const char *recipe, size_t dims,
                            const struct kiln_prompt_hash *prompts, size_t count,
                            kiln_each_prompt_vector *each, void *arg,
                            struct kiln_error *err) KILN_MUST_CHECK;
/* Those that are there already stay.  Needs a session that writes. */
int kiln_gallery_vectors_put(struct kiln_ledger *session, const char *recipe, size_t dims,
                             const struct kiln_prompt_vector *vectors, size_t count,
                             struct kiln_error *err) KILN_MUST_CHECK;

/* tokens are lent; size 0: the prompt has none. */
typedef int kiln_each_prompt_tokens(void *arg, size_t place, const uint8_t *tokens, size_t size,
                                    struct kiln_error *err);
/* The tokens of these prompts: calls each once for every one of them, in their order. */
int kiln_gallery_tokens(struct kiln_ledger *session, const char *recipe,
                        const struct kiln_prompt_hash *prompts, size_t count,
                        kiln_each_prompt_tokens *each, void *arg,
                        struct kiln_error *err) KILN_MUST_CHECK;

typedef int kiln_each_stored_tokens(void *arg, const char *prompt_hash, const uint8_t *tokens,
                                    size_t size, struct kiln_error *err);
/* The tokens of all prompts, a piece of the table a call: its blocks from *block on, `blocks` of
 * them, which takes a third of the time of looking the rows up by their keys.  *block is 0 for the
 * first call, and then where the next one begins.  Rows that are written or move meanwhile may be
 * missed.  *ret_more: there are blocks left. */
int kiln_gallery_tokens_walk(struct kiln_ledger *session, const char *recipe, uint32_t blocks,
                             uint32_t *block, bool *ret_more, kiln_each_stored_tokens *each,
                             void *arg, struct kiln_error *err) KILN_MUST_CHECK;

/* Where a walk through the vectors is; {""}: at their beginning, and again after their end. */
struct kiln_vector_place {
    char recipe[128], prompt_hash[65];
};
/* Removes those of the next `rows` vectors that are a day old and whose prompt has no picture. */
int kiln_gallery_vectors_forget(struct kiln_ledger *session, uint32_t rows,
                                struct kiln_vector_place *place,
                                struct kiln_error *err) KILN_MUST_CHECK;

#endif
