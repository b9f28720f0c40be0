/* known.h - what a model's own word lists say of a text: a noun that they lack, and whether they
 * have any word of it. */
#ifndef KILN_REUSE_KNOWN_H
#define KILN_REUSE_KNOWN_H

#include "schemas/error.h"
#include "schemas/reuse/lexicon.h"

#define KILN_NOUN_MAX 64 /* bytes, with the NUL */

/* The first noun of the built-in lists (a thing, a being, a part) that no list of the model's own
 * has (kiln_reuse_words_add), as it was typed; "" if there is none.  Words in no list at all are no
 * nouns here: they may be anything.  KILN_BAD_INPUT: not UTF-8 or too long. */
int kiln_reuse_unknown_noun(const struct kiln_reuse_words *words, const char *prompt,
                            char ret[KILN_NOUN_MAX], struct kiln_error *err) KILN_MUST_CHECK;
/* Whether the text has a word or phrase that a list of the model's own gives a meaning: a colour, a
 * thing, a place, and not words that say nothing, such as "picture of".  KILN_BAD_INPUT likewise.
 */
int kiln_reuse_has_own(const struct kiln_reuse_words *words, const char *text, bool *ret,
                       struct kiln_error *err) KILN_MUST_CHECK;

#endif
