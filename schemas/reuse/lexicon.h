/* lexicon.h - the word lists by which prompts are compared: what a word is (a colour, a number, a
 * place, ...) and which words mean the same.
 *
 * The lists are in words.txt, which is built into the programs; its head describes the format.
 * Words in no list are kept to the letter and compared as they are.
 */
#ifndef KILN_LEXICON_H
#define KILN_LEXICON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

/* What a word or phrase is.  words.txt has a section for each, in square brackets. */
#define KILN_SENSE_CLASSES(X)                                                                      \
    X(OPAQUE, "opaque")   /* in no list: compared to the letter */                                 \
    X(FILLER, "filler")   /* says nothing anywhere: "please" */                                    \
    X(REQUEST, "request") /* says nothing at the beginning of a sentence: "draw" */                \
    X(FRAME, "frame")     /* says nothing behind a place: "of the picture" */                      \
    X(QUALITY, "quality") /* says nothing as a tag of its own: "masterpiece" */                    \
    X(ARTICLE, "article") /* says nothing between other words: "a", "is" */                        \
    X(NUMBER, "number")   /* a count */                                                            \
    X(COLOUR, "colour")                                                                            \
    X(SHADE, "shade") /* makes the colour behind it more exact: "dark" */                          \
    X(TINT, "tint")   /* leads from a noun to its colour: "painted" */                             \
    X(SIZE, "size")                                                                                \
    X(DETAIL, "detail")     /* an adjective that makes its noun more exact */                      \
    X(MATERIAL, "material") /* changes what its noun is: "a stone lion" */                         \
    X(THING, "thing")       /* a noun that stands for itself */                                    \
    X(BEING, "being")       /* a noun that may own parts */                                        \
    X(PART, "part")         /* a noun that belongs to something: "hat", "beard" */                 \
    X(ZONE, "zone")         /* a place in the picture */                                           \
    X(RELATION, "relation") /* where one thing is from another */                                  \
    X(PREPOSITION, "preposition")                                                                  \
    X(AND, "and") /* joins what stands side by side */                                             \
    X(NEGATION, "negation")                                                                        \
    X(PRONOUN, "pronoun")   /* points at other words, so that order matters */                     \
    X(ORDER, "order")       /* says that the order of words matters: "then", "first" */            \
    X(POSITION, "position") /* a verb; "placed" and its like only lead to a place */               \
    X(STYLE, "style")       /* of the whole picture: technique, light, camera */                   \
    X(SETTING, "setting")   /* what is behind everything: "at night", "beach" */                   \
    X(BACKDROP, "backdrop") /* the word for it: "background" */                                    \
    X(NAME, "name")         /* of a place, person or work; of a thing whose first word lies */

enum kiln_sense_class {
#define KILN_SENSE_ENUM(name, text) KILN_SENSE_##name,
    KILN_SENSE_CLASSES(KILN_SENSE_ENUM)
#undef KILN_SENSE_ENUM
        KILN_SENSE_CLASS_COUNT
};

struct kiln_sense {
    const char *meaning; /* the first word of its line: equal meanings are equal pointers */
    const char *wider;   /* the meaning that includes it ("red" of "crimson"), or NULL */
    enum kiln_sense_class class;
    bool plural;
    bool own; /* from a model's own lists (kiln_reuse_words_add) */
};

struct kiln_reuse_words;

/* Reads the built-in lists.  empty[0..count): words that a model's card lists as saying nothing to
 * it; they count as fillers.  KILN_BAD_INPUT names the line, or the word of the card. */
int kiln_reuse_words_new(const char *const *empty, size_t count, struct kiln_reuse_words **ret,
                         struct kiln_error *err) KILN_MUST_CHECK;
/* The same from a text in the format of words.txt. */
int kiln_reuse_words_parse(const char *text, const char *const *empty, size_t count,
                           struct kiln_reuse_words **ret, struct kiln_error *err) KILN_MUST_CHECK;
/* Adds a model's own lists, which go before what is there: what it was taught to take for the same
 * (words.txt in its directory).  On failure *words is unusable but for freeing it. */
int kiln_reuse_words_add(struct kiln_reuse_words *words, const char *text,
                         struct kiln_error *err) KILN_MUST_CHECK;
void kiln_reuse_words_free(struct kiln_reuse_words *words); /* accepts NULL */

/* The sense of a folded phrase with single spaces, or NULL.  *ret_longest (may be NULL) receives
 * how many words the longest phrase has that begins with this one (a Han character is a word). */
const struct kiln_sense *kiln_sense_find(const struct kiln_reuse_words *words, const char *phrase,
                                         size_t len, unsigned *ret_longest);

#endif
