/* tokens.h - a text as the words that the router compares.
 *
 * Folded (schemas/words), hyphens and underscores split, without the accents of Western Europe,
 * traditional Chinese as simplified, British spelling as American, without the plural's s.  Scripts
 * without spaces give pairs of characters.
 */
#ifndef KILN_ROUTER_TOKENS_H
#define KILN_ROUTER_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

struct kiln_route_token {
    uint64_t form; /* hash of the word without plural */
    uint64_t stem; /* of the word without -ing and -ed too */
    uint32_t clause;
    uint32_t classes; /* enum kiln_word_class, when the prompt is read */
    uint8_t mark;   /* enum kiln_mark */
    uint8_t length; /* letters of a plain word of a-z, else 0 */
    bool guessed;   /* a misspelling: form is the word that was probably meant */
    bool likened;   /* with an ending that makes a look of it: "neonish" */
    bool used;      /* spoke for a LoRA that is chosen */
    uint32_t text;  /* where its letters are in kiln_route_tokens.letters */
};

struct kiln_route_tokens {
    struct kiln_route_token *at;
    size_t count, room;
    char *letters; /* the words after all changes, one behind the other */
    size_t letters_len, letters_room;
    uint32_t clauses;
    bool tags;            /* it has <lora:...> */
    bool failed;          /* no memory */
    unsigned char *marks; /* scratch */
    size_t marks_room;
    bool keep_clean; /* also keep what is said, without what is quoted or denied: */
    char *clean;     /* a line a clause, the number of lines before it is its number */
    size_t clean_len, clean_room;
};

/* Adds the words of text; marked: also look for quotations and denials.  Its clauses are its own.
 */
int kiln_route_tokens_add(struct kiln_route_tokens *tokens, const char *text, size_t len,
                          bool marked, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_route_tokens_clear(struct kiln_route_tokens *tokens);
void kiln_route_tokens_release(struct kiln_route_tokens *tokens);
/* Makes two plain words one: "cross hatching", "crosshatching".  False for other texts. */
bool kiln_route_tokens_join(struct kiln_route_tokens *tokens);
/* The first part of a plain American word that Britain spells otherwise, so spelt, in out with room
 * for len + 2 bytes; its length, or 0 for none. */
size_t kiln_route_british(const char *word, size_t len, char *out);
/* Hash of a whole phrase: its forms in their order. */
uint64_t kiln_route_tokens_phrase(const struct kiln_route_token *at, size_t count);

#endif
