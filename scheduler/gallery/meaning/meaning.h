/* meaning.h - pictures whose prompts mean what a text means, or what another picture's prompt does.
 *
 * Each distinct prompt of the pool has a vector (pipeline/embed), kept in the ledger under the
 * embedder's recipe and in memory in an index. One thread, the keeper, follows the ledger and
 * embeds new prompts; any thread searches.
 *
 *     kiln_meaning_load, then kiln_follower_step with kiln_meaning_note, and kiln_meaning_step
 *
 * The features of a prompt's tokens, by which an embedder with tokens ranks what its vectors find,
 * are too many for memory: the keeper copies them into a file (token_file.h), where a search reads
 * them, and until then in the ledger.
 *
 * Nothing here hides a picture of its own accord: the catalogue filters as the ledger does, and
 * whoever shows the pictures asks the ledger once more (kiln_gallery_tiles).
 */
#ifndef KILN_GALLERY_MEANING_H
#define KILN_GALLERY_MEANING_H

#include "pipeline/embed/embedder.h"
#include "schemas/reuse/lexicon.h"
#include "storage/ledger/gallery/gallery.h"

#define KILN_MEANING_HITS_MAX 1000
#define KILN_MEANING_NOTES_MAX 5000 /* changes that are kept until the next step */

struct kiln_meaning;
struct kiln_meaning_scratch; /* memory of one searching thread */

/* pool and embedder must outlive it. */
int kiln_meaning_open(const char *pool, const struct kiln_embedder *embedder,
                      struct kiln_meaning **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_meaning_close(struct kiln_meaning *meaning); /* accepts NULL */
/* Before the first search: the lists of a model whose embedder was trained on no other words.  A
 * text without any of them finds nothing, since its vector would be near to anything.  Borrowed. */
void kiln_meaning_limit(struct kiln_meaning *meaning, const struct kiln_reuse_words *words);

/* --- the keeper ------------------------------------------------------------------------------- */
/* All pictures and vectors of the ledger; what was in memory before stays searchable until the end
 * of it.  Also after a restore (kiln_follower_progress.replaced). */
int kiln_meaning_load(struct kiln_meaning *meaning, struct kiln_ledger *session,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* A kiln_each_change (arg: the meaning).  KILN_FULL: a step is due first; the follower reports the
 * change again. */
int kiln_meaning_note(void *arg, uint64_t job, bool gone, struct kiln_error *err) KILN_MUST_CHECK;
/* Applies what was noted, takes the vectors of new prompts that the ledger has, and embeds others,
 * fewer if a rest follows, and stores their vectors; first of all, piece by piece, it copies
 * the tokens.  writer NULL: only what was noted.  *ret_more: there are more. */
int kiln_meaning_step(struct kiln_meaning *meaning, struct kiln_ledger *reader,
                      struct kiln_ledger *writer, bool *ret_more,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* How many times as long as a step took a keeper rests after it: most while there are searches, and
 * some while pictures come, since their workers wait for commits; else 0. */
int kiln_meaning_rest(const struct kiln_meaning *meaning);

/* --- searching -------------------------------------------------------------------------------- */
struct kiln_meaning_hit {
    uint64_t job; /* the newest picture of its prompt that passes the filter */
    float score;
};
struct kiln_meaning_found {
    uint32_t count; /* hits, best first */
    uint32_t near;  /* of them, those so many spreads above the usual score (search.c) */
    bool known;     /* false: the text, or the picture, gives nothing to search for */
};

int kiln_meaning_scratch_new(struct kiln_meaning *meaning, struct kiln_meaning_scratch **ret,
                             struct kiln_error *err) KILN_MUST_CHECK;
void kiln_meaning_scratch_free(struct kiln_meaning_scratch *scratch); /* accepts NULL */

/* hits: [count], count at most KILN_MEANING_HITS_MAX.  session: for tokens that are not in the
 * file; an embedder without tokens does not use it. */
int kiln_meaning_search(struct kiln_meaning *meaning, struct kiln_meaning_scratch *scratch,
                        struct kiln_ledger *session, const struct kiln_gallery_filter *filter,
                        const char *text, uint32_t count, struct kiln_meaning_hit *hits,
                        struct kiln_meaning_found *ret, struct kiln_error *err) KILN_MUST_CHECK;
/* Pictures of other prompts like that of this job. */
int kiln_meaning_similar(struct kiln_meaning *meaning, struct kiln_meaning_scratch *scratch,
                         struct kiln_ledger *session, const struct kiln_gallery_filter *filter,
                         uint64_t job, uint32_t count, struct kiln_meaning_hit *hits,
                         struct kiln_meaning_found *ret, struct kiln_error *err) KILN_MUST_CHECK;

/* Pictures and prompts in memory, and prompts that still wait for their vector. */
void kiln_meaning_progress(struct kiln_meaning *meaning, uint32_t *ret_pictures,
                           uint32_t *ret_prompts, uint32_t *ret_waiting);
/* Whether searches find all tokens that the ledger had in the file; never if it failed. */
bool kiln_meaning_has_copied(struct kiln_meaning *meaning);

#endif
