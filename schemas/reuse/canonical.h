/* canonical.h - one form for all prompts that differ only in how they are typed.
 *
 * Spacing, punctuation, invisible characters, quality words and fillers do not count, nor does the
 * order of comma-separated tags where order says nothing.  Of capital letters only the one that
 * begins a sentence does not count: text encoders tell "RED" and "Red" from "red", and a model need
 * not render all of them alike (measured: scripts/bench/RESULTS.md).  Quoted text stays as it is.
 * Other words with the same meaning are left to the guard (guard.h).
 *
 *     "Masterpiece,  A red star!"  ->  "a red star"
 *     "a RED Star"                 ->  "a RED Star"
 *     "blue sky, red star"         ->  "blue sky, red star" = "red star, blue sky"
 */
#ifndef KILN_CANONICAL_H
#define KILN_CANONICAL_H

#include <stdint.h>

#include "schemas/digest.h"
#include "schemas/error.h"
#include "schemas/reuse/lexicon.h"
#include "schemas/reuse/tokens.h"
#include "schemas/text/text.h"

/* Appends the canonical form of prompt to *out (may be NULL) and writes the SHA-256 of that form to
 * ret_hash (may be NULL).  The form depends on the word lists: hashes that are stored are made
 * again when KILN_REUSE_WORDS_VERSION changes.  KILN_BAD_INPUT: not UTF-8 or longer than
 * KILN_PROMPT_MAX. */
int kiln_canonical_prompt(const struct kiln_reuse_words *words, const char *prompt,
                          struct kiln_text *out, uint8_t ret_hash[KILN_SHA256_SIZE],
                          struct kiln_error *err) KILN_MUST_CHECK;

/* The same for a prompt that has been read: tokens as kiln_tokens_read gives them. */
int kiln_canonical_tokens(const struct kiln_tokens *tokens, struct kiln_text *out,
                          uint8_t ret_hash[KILN_SHA256_SIZE],
                          struct kiln_error *err) KILN_MUST_CHECK;

/* Raised whenever a change of code or lists changes the canonical form of any prompt. */
#define KILN_REUSE_WORDS_VERSION 2

#endif
