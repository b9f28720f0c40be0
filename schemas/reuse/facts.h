/* facts.h - what a prompt states: things with their numbers, colours and places, relations,
 * background, style, negations, quoted text and names.
 *
 * Read once for each prompt; guard.h compares two of them.  A prompt of which every word is
 * understood is a set of things and relations; any other is a sequence of words whose order counts.
 */
#ifndef KILN_FACTS_H
#define KILN_FACTS_H

#include <stdint.h>

#include "schemas/error.h"
#include "schemas/reuse/lexicon.h"
#include "schemas/text/text.h"

struct kiln_facts;

/* *words must outlive the facts; the prompt is copied.  Time and memory grow linearly with the
 * prompt, at most KILN_PROMPT_MAX bytes.  KILN_BAD_INPUT: not UTF-8 or too long. */
int kiln_facts_read(const struct kiln_reuse_words *words, const char *prompt,
                    struct kiln_facts **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_facts_free(struct kiln_facts *facts); /* accepts NULL */
/* SHA-256 of the canonical form (canonical.h), borrowed. */
const uint8_t *kiln_facts_canonical(const struct kiln_facts *facts);

/* Appends the facts as one line for people and tests: "thing star colour red; background sky". */
void kiln_facts_text(const struct kiln_facts *facts, struct kiln_text *out);

#endif
