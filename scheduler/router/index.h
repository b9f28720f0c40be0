/* index.h - the inside of a snapshot and of a reader; for the files of this room and its tests. */
#ifndef KILN_ROUTER_INDEX_H
#define KILN_ROUTER_INDEX_H

#include <string.h>

#include "scheduler/router/map.h"
#include "scheduler/router/meaning.h"
#include "scheduler/router/router.h"
#include "scheduler/router/tokens.h"
#include "scheduler/router/word_lists.h"

#define KILN_PHRASE_WORDS 8 /* of a longer trigger or keyword the first ones count */
#define KILN_HITS_MAX 512   /* phrases found in one prompt */
#define KILN_REPEATS_MAX 4  /* places of one phrase that count */
#define KILN_LIST_END UINT32_MAX
#define KILN_CONTENT 100    /* share of a word that means something, thousandths */
#define KILN_PART_LEAST 600 /* of a phrase of three words and more must be there, with two such */

enum kiln_role { KILN_ROLE_TRIGGER, KILN_ROLE_KEYWORD, KILN_ROLE_NEGATIVE, KILN_ROLE_ANTONYM };

/* What a phrase means for a LoRA. */
struct kiln_use {
    uint32_t lora, phrase;
    uint16_t weight; /* thousandths; below 1000 for a narrower concept */
    uint8_t role;
    bool first; /* the first trigger of its LoRA */
    bool bare;  /* counts only where it certainly asks for a look */
};

/* A phrase that at least one LoRA has.  It is looked for where its rarest word, the anchor,
 * stands. */
struct kiln_phrase {
    const char *text; /* of the LoRA or the lexicon */
    uint64_t forms[KILN_PHRASE_WORDS];
    uint16_t shares[KILN_PHRASE_WORDS]; /* of the phrase's idf, thousandths; their sum is 1000 */
    uint8_t count, anchor;
    bool empty;      /* nothing but praise: "beautiful", "digital illustration" */
    bool denies;     /* it begins with "no": "no anti aliasing" */
    bool common;     /* one word that is a common word of English */
    bool joined;     /* two words written as one: "crosshatching", and nobody's phrase else */
    bool bare;       /* for a LoRA it counts only where it certainly asks for a look */
    bool grouped;    /* made by a group of the lexicon alone: all its words must be there */
    uint32_t as_one; /* number of the phrase of its two words as one, UINT32_MAX for none */
    uint32_t use, use_count;
};

struct kiln_posting {
    uint32_t lora;
    uint32_t impact; /* idf * tf / (k1 + tf) in thousandths */
};

struct kiln_span {
    uint32_t from, to; /* tokens [from, to) */
};

struct kiln_router {
    uint64_t version;
    const struct kiln_lexicon *lexicon;
    struct kiln_router_lora *loras;
    size_t count;
    struct kiln_phrase *phrases;
    size_t phrase_count, phrase_room;
    struct kiln_map phrase_of; /* hash of a phrase -> its number */
    struct kiln_use *uses;     /* by phrase */
    size_t use_count, use_room;
    struct kiln_map anchors; /* form -> first in anchor_list, which phrase 0xffffffff ends */
    struct kiln_anchored {
        uint32_t phrase;
        uint32_t other; /* low bits of the form of a word that must be there too; 0: none must */
    } * anchor_list;
    struct kiln_map words; /* stem -> first of its postings, which lora 0xffffffff ends */
    struct kiln_posting *postings;
    struct kiln_map misspelt; /* a word without one letter -> first in near */
    struct kiln_near {
        uint32_t word, next; /* in spoken; UINT32_MAX ends the list */
    } * near;
    size_t near_count, near_room;
    struct kiln_spoken {
        uint64_t form;
        uint32_t lowest, highest; /* of the LoRAs whose phrases have the word */
        bool alone;               /* it is a phrase */
        char text[24];
    } * spoken;
    size_t spoken_count, spoken_room;
    struct kiln_meaning *meaning; /* NULL: words alone */
};

#define KILN_LOOK 1000 /* of a hit that certainly asks for a look, thousandths */
#define KILN_THING 0   /* of one that names a thing */

/* A phrase in a prompt. */
struct kiln_hit {
    uint32_t phrase;
    struct kiln_span span;
    uint16_t share; /* of its idf that is found, thousandths */
    uint16_t look;  /* how much it looks like asking for a look, up to KILN_LOOK: look.c */
    bool certain;   /* it is one, even of a phrase that is a thing too */
    bool scene;     /* it is a part of the scene: a trigger counts no more than other words */
    bool exact;     /* word for word */
    bool denied;
    uint32_t inside; /* phrase of a longer hit around it, UINT32_MAX for none */
};

/* "Water color" is one word in two, and no water with color in it. */
static inline bool kiln_phrase_is_compound(const struct kiln_router *router,
                                           const struct kiln_phrase *phrase)
{
    return phrase->as_one != UINT32_MAX && !router->phrases[phrase->as_one].joined;
}

struct kiln_candidate {
    uint32_t lora;
    int t, k, b, n, c, m, x, z;
    bool barred, has_trigger, has_first;
    bool by_meaning; /* z is the embedder's */
    bool thing;      /* its own words stand there and ask for no look */
    uint32_t phrase; /* of the strongest evidence; UINT32_MAX: none */
    bool by_trigger;
};

struct kiln_router_reader {
    const struct kiln_router *router;
    struct kiln_route_tokens tokens;
    struct kiln_hit hits[KILN_HITS_MAX];
    size_t hit_count;
    size_t order;       /* the first word that orders a picture: "draw"; SIZE_MAX for none */
    size_t referral;    /* the last "as one of them" behind it, 0 for none */
    struct kiln_cover { /* places where a negative phrase of a LoRA stands */
        uint32_t lora;
        struct kiln_span span;
    } covers[KILN_HITS_MAX];
    size_t cover_count;
    uint32_t *candidate_of;            /* [loras]: number + 1 of its candidate, 0 for none */
    struct kiln_candidate *candidates; /* room for one a LoRA */
    size_t candidate_count;
    char *prompt; /* as drawn */
    struct kiln_segment {
        uint32_t clause; /* UINT32_MAX: all of them */
        bool used;       /* spoke for a LoRA that is chosen */
        char text[KILN_MEANING_TEXT_MAX + 1];
    } segments[KILN_MEANING_SEGMENTS];
    size_t segment_count;
    const int8_t *const *vectors; /* of the segments, the request's */
    int16_t *cosines;  /* [KILN_MEANING_SEGMENTS][loras], thousandths; NULL: no embedder */
    int32_t *products; /* scratch */
};

/* build_words.c: the postings of BM25F, and the words that are recognised when misspelt. */
int kiln_router_build_words(struct kiln_router *router, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_router_build_misspelt(struct kiln_router *router, struct kiln_error *err) KILN_MUST_CHECK;
/* Letters of a word that may have a wrong letter; one less within a phrase. */
#define KILN_MISSPELT_LEN 5
/* Of one of which two letters may be swapped or one doubled; one less within a phrase. */
#define KILN_SLIP_LEN 4
#define KILN_TAIL_LEN 3  /* of one of which only the last letter may be doubled */
#define KILN_NEAR_MAX 16 /* words compared with a misspelt one; with more, none is meant */
/* Of one that is a phrase by itself and may have two wrong letters. */
#define KILN_TWICE_LEN 8
/* Calls each with the hash of every word that lacks up to so many letters of text, from that one
 * on. */
void kiln_misspelt_each(const char *text, size_t len, size_t from, unsigned letters,
                        void (*each)(void *arg, uint64_t hash), void *arg);

/* guess.c: which words misspelt ones stand for. */
void kiln_router_guess(struct kiln_router_reader *reader);

/* --- words around a phrase, for look.c and scene.c --- */

/* The classes of the token at i if it is in the clause, else 0. */
static inline unsigned classes_at(const struct kiln_router_reader *reader, size_t i,
                                  uint32_t clause)
{
    return i < reader->tokens.count && reader->tokens.at[i].clause == clause
               ? reader->tokens.at[i].classes
               : 0;
}

/* By their letters, which is quicker than by their hashes. */
static inline bool is_any(const struct kiln_router_reader *reader, size_t i,
                          const char *const *words, size_t count)
{
    if (i >= reader->tokens.count)
        return false;
    const struct kiln_route_token *token = &reader->tokens.at[i];
    const char *letters = reader->tokens.letters + token->text;
    const size_t len = token->length;
    for (size_t w = 0; w < count; w++)
        if (letters[0] == words[w][0] && len == strlen(words[w]) &&
            memcmp(letters, words[w], len) == 0)
            return true;
    return false;
}

#define IS_ANY(reader, i, words) is_any(reader, i, words, sizeof(words) / sizeof *(words))

static inline bool is_word(const struct kiln_router_reader *reader, size_t i, const char *word)
{
    return is_any(reader, i, &word, 1);
}

/* The same for a text of words with a space between two. */
static inline bool is_in_text(const struct kiln_router_reader *reader, size_t i, const char *words)
{
    if (i >= reader->tokens.count)
        return false;
    const struct kiln_route_token *token = &reader->tokens.at[i];
    const char *letters = reader->tokens.letters + token->text;
    for (size_t len = strcspn(words, " "); len > 0; len = strcspn(words, " ")) {
        if (len == token->length && memcmp(letters, words, len) == 0)
            return true;
        words += len + (words[len] == ' ');
    }
    return false;
}

static inline bool is_article(const struct kiln_router_reader *reader, size_t i)
{
    static const char *const articles[] = {"a", "an", "the"};
    return IS_ANY(reader, i, articles);
}

/* look.c: "drawn with neon", "a fox made from clay"; "make a fox and a star a sticker". */
bool kiln_router_is_made_with(const struct kiln_router_reader *reader, struct kiln_span span,
                              uint32_t clause);
bool kiln_router_is_made_one(const struct kiln_router_reader *reader, struct kiln_span span,
                             uint32_t clause);

/* scene.c: traded, worn, part of the scene, somebody's work; "a box of old stickers". */
bool kiln_router_is_in_scene(const struct kiln_router_reader *reader, struct kiln_span span,
                             uint32_t clause);
bool kiln_router_is_contained(const struct kiln_router_reader *reader, struct kiln_span span,
                              uint32_t clause);

/* look.c: fills reader->order and reader->referral; then, of a phrase with a span, fills look,
 * scene and certain.  part: a word that says something is missing. */
void kiln_router_find_orders(struct kiln_router_reader *reader);
void kiln_router_judge(const struct kiln_router_reader *reader, bool part, struct kiln_hit *hit);

/* read.c: the words of a request, and reader->hits. */
int kiln_router_read(struct kiln_router_reader *reader, const struct kiln_router_request *request,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* Whether the phrase stands where its anchor is token i. */
bool kiln_router_word_for_word(const struct kiln_route_tokens *tokens, size_t i,
                               const struct kiln_phrase *phrase, struct kiln_span *ret,
                               bool *ret_guessed);

/* score.c: fills reader->candidates from the hits and words that are not used up, in no order. */
#define KILN_Z_NOTHING (-1000000)   /* of a LoRA without evidence */
#define KILN_Z_LEAST_TRIGGER (-847) /* p of 0.3: nothing below it is chosen, */
#define KILN_Z_LEAST 0              /* nor below 0.5 without a trigger */
void kiln_router_score(struct kiln_router_reader *reader, const struct kiln_router_pool *pool,
                       const struct kiln_router_weights *weights);
/* Whether the LoRA has the phrase as a trigger or a keyword. */
bool kiln_router_has(const struct kiln_router *router, uint32_t lora, uint32_t phrase);
bool kiln_router_suits(const struct kiln_router_lora *lora, const struct kiln_router_pool *pool);
/* The candidate of a LoRA, which becomes one if it suits the pool; NULL if not. */
struct kiln_candidate *kiln_router_candidate(struct kiln_router_reader *reader, uint32_t lora,
                                             const struct kiln_router_pool *pool);
bool kiln_candidate_before(const struct kiln_candidate *a, const struct kiln_candidate *b);
int kiln_router_p(int z); /* thousandths */
static inline bool kiln_spans_meet(struct kiln_span a, struct kiln_span b)
{
    return a.from < b.to && b.from < a.to;
}

/* meaning.c.  Memory of a reader; the segments of the words that were read; their cosines; the
 * evidence c, m and x of the candidates and of the LoRAs that are nearest. */
bool kiln_router_meaning_room(struct kiln_router_reader *reader);
void kiln_router_split(struct kiln_router_reader *reader);
int kiln_router_compare(struct kiln_router_reader *reader,
                        const struct kiln_router_request *request,
                        struct kiln_error *err) KILN_MUST_CHECK;
void kiln_router_add_meaning(struct kiln_router_reader *reader,
                             const struct kiln_router_pool *pool);
/* The whole prompt, and the clause that spoke for a LoRA chosen without words, speak for no other
 * one. */
void kiln_router_use_segments(struct kiln_router_reader *reader, uint32_t lora, bool by_meaning);

/* drawn.c: scales, the prompt as drawn and the reason, of a team that is chosen. */
void kiln_route_scales(const struct kiln_router *router, struct kiln_route *route);
void kiln_route_prompt(struct kiln_router_reader *reader, const struct kiln_router_request *request,
                       const bool missing[KILN_LORAS_MAX], struct kiln_route *route);
int kiln_route_reason(const struct kiln_router *router, struct kiln_route *route,
                      struct kiln_error *err) KILN_MUST_CHECK;

#endif
