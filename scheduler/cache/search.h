/* search.h - from which donors in memory a run of a job may begin, and how late.
 *
 * Donors of the same prompt and of prompts with the same canonical form are found by their keys.
 * Others are found by the subject of the prompt, and the guard (schemas/reuse/guard.h) judges each
 * of them.  Only classes with a row in the model's table are looked for at all: a table of
 * same_prompt alone costs two hashes a job.  No I/O, no locks, no clock; a look-up judges at most
 * KILN_SEARCH_JUDGED prompts of KILN_SEARCH_BYTES together.
 */
#ifndef KILN_DONOR_SEARCH_H
#define KILN_DONOR_SEARCH_H

#include "scheduler/cache/index.h"
#include "scheduler/cache/news.h"
#include "scheduler/cache/rule.h"
#include "schemas/reuse/lexicon.h"

#define KILN_SEARCH_JUDGED 64
#define KILN_SEARCH_BYTES 16384
#define KILN_SEARCH_PROMPT 2048 /* longer prompts are found only to the byte */

/* What a donor and a job must agree in, beside their prompts. */
struct kiln_donor_kind {
    const char *model;             /* as jobs name it */
    uint64_t weights;              /* hash of the model's files */
    uint32_t width, height, steps; /* of the donor, which may be of the job's small size */
    bool coarse;                   /* the donor was rendered coarse first */
    const char *lora_set;          /* kiln_lora_set_key; "": none */
};

/* prompt_hash, negative: see kiln_prompt_hash.  facts: of the prompt; NULL: it is found only to the
 * byte. */
void kiln_donor_keys(const struct kiln_donor_kind *kind, const char *prompt_hash,
                     const char *negative, const struct kiln_facts *facts,
                     struct kiln_donor_keys *ret);
/* The marks of the same prompt (schemas/reuse/look.h), and what it says; 0 without facts. */
struct kiln_reuse_marks kiln_donor_marks(const char *prompt_hash, const struct kiln_facts *facts,
                                         uint64_t *ret_said);
/* The facts of a prompt as donors are found by them: NULL without words, for a long prompt, one
 * that is not UTF-8, or without memory. */
struct kiln_facts *kiln_donor_facts(const struct kiln_reuse_words *words, const char *prompt);

/* What a search came upon, for people.  Each may be NULL. */
struct kiln_search_watch {
    /* A prompt that was judged; reason: why not, "" if it may be used. */
    void (*prompt)(void *arg, const char *prompt, enum kiln_reuse_class class, const char *reason);
    /* The donors of a class, and where they let a run begin; refusal: why nowhere, else NULL. */
    void (*pool)(void *arg, const struct kiln_donor_kind *kind, const struct kiln_reuse_pool *pool,
                 const struct kiln_reuse_start *start, const char *refusal);
    void *arg;
};

/* What is searched, and with what; borrowed. */
struct kiln_donor_stock {
    const struct kiln_donor_index *index;
    const struct kiln_donor_news *news; /* of its donors; NULL: not told */
    const struct kiln_model_card *card;
    const struct kiln_reuse_words *words; /* NULL: only the same prompt */
    bool whole; /* for a worker that cannot begin at a small step (rule.h) */
};

/* The donor from which a run costs the least, of several the one in the class of most
 * trust, and of these the one used least.  donor.job 0: none.  weights: the hash of the files that
 * render the job's model now.  watch may be NULL.  *ret_marks: by which the job was looked up. */
struct kiln_donor kiln_donor_search(const struct kiln_donor_stock *stock,
                                    const struct kiln_job *job, uint64_t weights,
                                    const struct kiln_search_watch *watch,
                                    struct kiln_reuse_marks *ret_marks);

#endif
