/* catalogue.h - the pictures of a pool in memory: enough of each to filter a search by meaning.
 *
 * A search by meaning compares prompts, each once however many pictures were made from it.  The
 * catalogue gives prompts their numbers, says which prompts have a picture that passes a filter,
 * and which picture of a prompt to show.  It holds at most 39 bytes a picture
 * and about as much a prompt, beside its vector.
 *
 * One thread changes it while others ask: every call takes a lock.
 */
#ifndef KILN_GALLERY_CATALOGUE_H
#define KILN_GALLERY_CATALOGUE_H

#include "scheduler/policy/slots.h" /* KILN_NONE */
#include "storage/ledger/gallery/prompts.h"

struct kiln_catalogue;

int kiln_catalogue_new(struct kiln_catalogue **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_catalogue_free(struct kiln_catalogue *catalogue);

/* A new picture, or what has become of one; *ret_prompt (may be NULL) is the number of its prompt:
 * 0, 1, 2, ... in the order of their first picture.  KILN_NO_MEMORY, KILN_BAD_INPUT for a hash that
 * is not 64 digits. */
int kiln_catalogue_put(struct kiln_catalogue *catalogue,
                       const struct kiln_prompt_picture *picture, uint32_t *ret_prompt,
                       struct kiln_error *err) KILN_MUST_CHECK;
void kiln_catalogue_remove(struct kiln_catalogue *catalogue, uint64_t job);
/* The number of a prompt; KILN_NONE if there never was a picture of it. */
uint32_t kiln_catalogue_prompt(struct kiln_catalogue *catalogue, const char *prompt_hash);
/* The hash of a prompt by its number, which must be one. */
void kiln_catalogue_hash(struct kiln_catalogue *catalogue, uint32_t prompt, char ret[65]);
/* The number of the prompt of a picture; KILN_NONE for a job that has none here. */
uint32_t kiln_catalogue_prompt_of(struct kiln_catalogue *catalogue, uint64_t job);
/* Pictures that are here now, and prompts that ever had one. */
uint32_t kiln_catalogue_count(struct kiln_catalogue *catalogue, uint32_t *ret_prompts);

/* What a mask knows: the first so many pictures, as they were after so many changes. */
struct kiln_catalogue_seen {
    uint32_t pictures;
    uint64_t changes;
};
/* Sets bit places[p] of mask (bit i is bit i % 64 of word i / 64) for each prompt p below `prompts`
 * of which a picture passes the filter, if that is below `bits`; other bits stay.  Returns the
 * number of pictures that pass.  The pool of the filter is not looked at.
 *
 * seen, all zero at first (NULL: none): only pictures that have come since are looked at, or all of
 * them if one has changed meanwhile; then the mask is cleared first. */
uint32_t kiln_catalogue_mask(struct kiln_catalogue *catalogue,
                             const struct kiln_gallery_filter *filter, const uint32_t *places,
                             uint32_t prompts, uint64_t *mask, uint32_t bits,
                             struct kiln_catalogue_seen *seen);

/* For each of `count` prompts the newest picture that passes, by job; 0: none does. */
void kiln_catalogue_newest(struct kiln_catalogue *catalogue,
                           const struct kiln_gallery_filter *filter, const uint32_t *prompts,
                           uint32_t count, uint64_t *ret_jobs);

#endif
