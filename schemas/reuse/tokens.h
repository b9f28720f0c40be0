/* tokens.h - a prompt as a sequence of phrases of the word lists and of single unknown words.
 * Private to this room. */
#ifndef KILN_REUSE_TOKENS_H
#define KILN_REUSE_TOKENS_H

#include "schemas/reuse/lexicon.h"
#include "schemas/reuse/split.h"
#include "schemas/text/text.h"

struct kiln_token {
    const char *text;               /* len bytes in the buffer of the split, not terminated */
    const struct kiln_sense *sense; /* NULL: in no list */
    uint32_t len;
    uint8_t class;  /* enum kiln_sense_class; a number of digits is KILN_SENSE_NUMBER */
    uint8_t before; /* enum kiln_split_break */
    uint8_t kind;   /* enum kiln_split_kind of its first word */
    bool capital;   /* its first word begins with a capital letter; see facts.c */
    bool cased;     /* has capitals other than the one that begins a sentence */
    uint32_t word;  /* its first word in the split */
    uint8_t words;
};

struct kiln_tokens {
    struct kiln_token *at;
    uint32_t count;
    struct kiln_split split; /* what the texts point into */
    const char *prompt;      /* lent by the caller of kiln_tokens_read */
};

int kiln_tokens_read(const struct kiln_reuse_words *words, const char *prompt,
                     struct kiln_tokens *ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_tokens_release(struct kiln_tokens *tokens);

/* Appends a cased token as it was typed, with single spaces. */
void kiln_token_typed(const struct kiln_tokens *tokens, const struct kiln_token *token,
                      struct kiln_text *out);
/* The token's meaning for comparison: that of the lists, else its own text. */
const char *kiln_token_meaning(const struct kiln_token *token, size_t *ret_len);
/* Equal in meaning and in number. */
bool kiln_token_equal(const struct kiln_token *a, const struct kiln_token *b);

#endif
