/* reading.h - what facts.c reads and guard.c compares.  Private to this room. */
#ifndef KILN_REUSE_READING_H
#define KILN_REUSE_READING_H

#include "schemas/digest.h"
#include "schemas/reuse/facts.h"
#include "schemas/reuse/tokens.h"

enum { KILN_THINGS_MAX = 6, KILN_THING_WORDS_MAX = 6, KILN_THING_RELATIONS_MAX = 8 };

/* One place in the sequence of words: a token, or a break between phrases. */
struct kiln_item {
    const struct kiln_token *token; /* NULL: a break */
    uint8_t before;                 /* of a break: enum kiln_split_break */
};

/* A noun with what is said of it. */
struct kiln_thing {
    const struct kiln_token *noun;
    const struct kiln_token *number, *zone;              /* NULL: not said */
    const struct kiln_token *said[KILN_THING_WORDS_MAX]; /* colours, shades, sizes, details */
    uint8_t said_count;
};

/* things[a] is KIND of things[b]: "left of", "above", ... ; the inverse ones are turned round. */
struct kiln_thing_relation {
    uint8_t a, b;
    const char *kind;
};

struct kiln_facts {
    char *prompt;
    uint8_t canonical[KILN_SHA256_SIZE];
    struct kiln_text capitals; /* the words whose capitals count, as they were typed */
    struct kiln_tokens tokens;
    struct kiln_item *items; /* what is left without articles, fillers and styles */
    uint32_t count;
    bool negated;  /* says what must not be */
    bool pointing; /* has pronouns or words of order: breaks count */
    /* The same as things, if every word of the prompt was understood. */
    bool whole;
    struct kiln_thing things[KILN_THINGS_MAX];
    uint8_t thing_count;
    struct kiln_thing_relation relations[KILN_THING_RELATIONS_MAX];
    uint8_t relation_count;
    const struct kiln_token *ground[3]; /* setting; or colours and backdrop */
    uint8_t ground_count;
};

/* things.c: fills the part from `whole` on from the items. */
void kiln_things_parse(struct kiln_facts *facts);
/* match.c: whether things of a whole donor can stand for those of a whole target; *ret_more: the
 * donor says more. */
bool kiln_things_match(const struct kiln_facts *target, const struct kiln_facts *donor,
                       bool *ret_more);

/* What makes a noun more exact. */
static inline bool kiln_attribute(const struct kiln_token *token)
{
    return token->class == KILN_SENSE_COLOUR || token->class == KILN_SENSE_SHADE ||
           token->class == KILN_SENSE_SIZE || token->class == KILN_SENSE_DETAIL ||
           token->class == KILN_SENSE_QUALITY || token->class == KILN_SENSE_MATERIAL;
}

/* A noun of the lists. */
static inline bool kiln_known_noun(const struct kiln_token *token)
{
    return token->class == KILN_SENSE_THING || token->class == KILN_SENSE_BEING ||
           token->class == KILN_SENSE_PART;
}

/* Whether a donor's word may stand for the target's: the same, or a narrower meaning.  A setting
 * with its preposition is narrower only as a background (match.c): who paints the beach may paint
 * at home. */
static inline bool kiln_token_serves(const struct kiln_token *donor,
                                     const struct kiln_token *target, bool *ret_narrower)
{
    if (kiln_token_equal(donor, target))
        return true;
    if (donor->sense && target->sense && donor->sense->wider &&
        donor->class != KILN_SENSE_SETTING && donor->sense->wider == target->sense->meaning &&
        donor->sense->plural == target->sense->plural)
        return *ret_narrower = true;
    return false;
}

#endif
