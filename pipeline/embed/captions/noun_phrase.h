/* noun_phrase.h - a query without a noun, such as "something round and red at night", put as a noun
 * phrase: "a red round thing at night".
 *
 * A text encoder that learned from captions binds a colour to the noun behind it.  It takes what
 * "and" joins for two things, so "something round and red" finds circles beside red stars.  The
 * words behind "something" or "anything" (also: "something that is"), and behind "a thing that is",
 * stand before the noun instead.  A word for a form ("round") stands last, as nouns of forms do.
 *
 * English only: other texts stay as they are.
 */
#ifndef KILN_NOUN_PHRASE_H
#define KILN_NOUN_PHRASE_H

#include <stddef.h>

#define KILN_NOUN_PHRASE_MAX 512 /* bytes of a query that is changed; a longer one stays */

/* Writes the changed query to out, without a NUL, and returns its length; 0 if the text stays as it
 * is. */
size_t kiln_noun_phrase(const char *text, size_t len, char out[KILN_NOUN_PHRASE_MAX]);

#endif
