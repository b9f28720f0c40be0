/* words.h - the words of a text as search compares them, in any script.
 *
 * Text is brought to one form (NFKC, case folded, invisible characters dropped: Unicode's
 * NFKC_Casefold), so "Ｆｏｏ", "FOO" and "foo" are the same.  A word is a run of letters, digits
 * and marks.  Scripts without spaces (Han, Kana, Hangul, Thai, Lao, Khmer, Burmese) give
 * overlapping pairs of characters in place of words, so that any part of a run is found; the last
 * character comes alone after them, so that one character is found by prefix.
 *
 *     "Red star, 赤い星"  ->  red@1 star@2 赤い@3 い星@4 星@5 (an END)
 */
#ifndef KILN_WORDS_H
#define KILN_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_WORD_MAX 128 /* bytes; a longer word is cut, in texts and queries alike */

enum kiln_word_kind {
    KILN_WORD_PLAIN,
    KILN_WORD_PAIR,   /* two characters of a run without spaces */
    KILN_WORD_SINGLE, /* such a run of one character */
    KILN_WORD_END     /* the last character of a longer run */
};

struct kiln_word {
    const char *text; /* not terminated; lent to the callback */
    size_t len;
    enum kiln_word_kind kind;
    uint32_t position;
    uint32_t run; /* number of the run it is from, counted like positions */
};
typedef void kiln_each_word(void *arg, const struct kiln_word *word);

/* text[0..len) in the one form, malloc'd and terminated; *ret_len may be NULL.  KILN_BAD_INPUT: not
 * UTF-8.  A NUL becomes a space. */
int kiln_words_fold(const char *text, size_t len, char **ret, size_t *ret_len,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* Calls each with the words of folded text; positions go on from *position (start with 0). */
void kiln_words_each(const char *folded, size_t len, uint32_t *position, kiln_each_word *each,
                     void *arg);

#endif
