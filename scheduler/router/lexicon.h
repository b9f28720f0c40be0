/* lexicon.h - groups of phrases with one meaning (lexicon.txt), and how rare the words of English
 * are (background.txt).  Both are built into the program.  Immutable; shared by all threads. */
#ifndef KILN_ROUTER_LEXICON_H
#define KILN_ROUTER_LEXICON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_IDF_UNKNOWN 95 /* of a word that is not among the common ones, in tenths */

struct kiln_lexicon;

#define KILN_CONCEPT_PHRASES_MAX 10000

struct kiln_concept {
    const char *name, *kind;
    struct kiln_lexicon_phrase {
        char *text;
        uint64_t hash; /* kiln_route_tokens_phrase */
        bool bare;     /* it is a thing, too (lexicon.txt) */
        bool grouped;  /* one of many that a group of words makes ("@glow outlines") */
    } * phrases;       /* count of them */
    size_t count, room;
    int32_t parent;          /* number of the concept, -1 for none */
    const int32_t *antonyms; /* antonym_count of them */
    uint32_t antonym_count;
};

/* The built-in one. */
int kiln_lexicon_new(struct kiln_lexicon **ret, struct kiln_error *err) KILN_MUST_CHECK;
/* From texts with the format of those files.  KILN_BAD_INPUT names the line. */
int kiln_lexicon_parse(const char *concepts, const char *background, struct kiln_lexicon **ret,
                       struct kiln_error *err) KILN_MUST_CHECK;
void kiln_lexicon_free(struct kiln_lexicon *lexicon);

size_t kiln_lexicon_count(const struct kiln_lexicon *lexicon);
const struct kiln_concept *kiln_lexicon_concept(const struct kiln_lexicon *lexicon, int32_t number);
/* The concept that has this phrase, by its hash (kiln_route_tokens_phrase); -1 for none. */
int32_t kiln_lexicon_find(const struct kiln_lexicon *lexicon, uint64_t phrase);

/* The classes of a word (word_lists.h) by the hash of its form. */
unsigned kiln_lexicon_classes(const struct kiln_lexicon *lexicon, uint64_t form);
/* In tenths; that of praise and small words is nearly nothing. */
unsigned kiln_lexicon_idf(const struct kiln_lexicon *lexicon, uint64_t form);
/* Whether it is among the common words or in a phrase of the lexicon; and its classes. */
bool kiln_lexicon_known(const struct kiln_lexicon *lexicon, uint64_t form);
bool kiln_lexicon_look_up(const struct kiln_lexicon *lexicon, uint64_t form, uint32_t *ret_classes);
/* Whether it is a common word of English: names no look by itself. */
bool kiln_lexicon_common(const struct kiln_lexicon *lexicon, uint64_t form);

#endif
