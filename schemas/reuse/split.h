/* split.h - a prompt cut into words, numbers, symbols and quoted spans, with the breaks between.
 *
 * Words are folded (words.h) and stand in one buffer with one space between them, so that words
 * i..j are the phrase at[i].start .. end of at[j].  Characters of Han and of other scripts without
 * spaces are words of their own, with no space between neighbours.  Quoted text is kept to the
 * letter.  Private to this room.
 */
#ifndef KILN_SPLIT_H
#define KILN_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

enum kiln_split_kind {
    KILN_SPLIT_WORD,
    KILN_SPLIT_HAN, /* one character of a script without spaces */
    KILN_SPLIT_NUMBER,
    KILN_SPLIT_SYMBOL,
    KILN_SPLIT_QUOTE /* a quoted span, without its quotation marks */
};

/* What stands before a word; the strongest of several. */
enum kiln_split_break { KILN_BREAK_NONE, KILN_BREAK_COMMA, KILN_BREAK_COLON, KILN_BREAK_STOP };

struct kiln_split_word {
    uint32_t start, len;
    uint8_t kind;        /* enum kiln_split_kind */
    uint8_t before;      /* enum kiln_split_break */
    bool capital;        /* begins with a capital letter */
    bool capitals;       /* has a capital letter behind another letter: "RED", "iPhone", not "4K" */
    uint32_t from, size; /* of a word or number: the bytes of the prompt, as it was typed */
};

struct kiln_split {
    struct kiln_split_word *at;
    uint32_t count;
    char *text; /* the buffer of words */
    size_t len;
};

/* KILN_BAD_INPUT: not UTF-8 or longer than KILN_PROMPT_MAX.  Release it with kiln_split_release. */
int kiln_split_prompt(const char *prompt, size_t len, struct kiln_split *ret,
                      struct kiln_error *err) KILN_MUST_CHECK;
void kiln_split_release(struct kiln_split *split);

#endif
