/* guess.c - misspelt words of a prompt: which word of the registry's phrases each stands for.
 *
 * Common words of English stand for themselves.  Others stand for the word that is near enough for
 * its length and nearer than all others.  If there is none, or several are as near, it is the one
 * that makes a phrase of the words beside it, which may have three or four letters: "pen and ikn".
 */
#include <string.h>

#include "scheduler/router/index.h"
#include "scheduler/router/word_lists.h"
#include "schemas/names.h"

#define WORD_MAX 20 /* letters of a word that may be misspelt */
#define AROUND 3    /* words on either side that may make a phrase with it */

/* How a word is misspelt; the lower, the nearer. */
enum { SLIP, WRONG_LETTER, TWO_LETTERS, ANOTHER_WORD };

struct guess {
    const struct kiln_router *router;
    const char *text;
    size_t len;
    size_t short_by; /* so many letters a word may be shorter than otherwise for its mistake */
    const struct kiln_spoken *word;                /* that is meant; NULL: none yet */
    int distance;                                  /* its */
    bool many;                                     /* as near to another word, of other LoRAs */
    const struct kiln_spoken *near[KILN_NEAR_MAX]; /* all words that are near */
    size_t near_count;
};

/* The same, or two letters are swapped, or one is doubled: in words of three letters only the last
 * one. */
static bool is_slip(const char *word, size_t len, const char *text, size_t text_len, size_t least)
{
    size_t same = 0;
    while (same < len && same < text_len && word[same] == text[same])
        same++;
    if (text_len == len)
        return same == len || (len >= least && same + 1 < len && word[same] == text[same + 1] &&
                               word[same + 1] == text[same] &&
                               memcmp(word + same + 2, text + same + 2, len - same - 2) == 0);
    return text_len == len + 1 && same > 0 && text[same] == text[same - 1] &&
           (len >= KILN_SLIP_LEN || same == len) &&
           memcmp(word + same, text + same + 1, len - same) == 0;
}

static int distance(const struct guess *guess, const struct kiln_spoken *spoken)
{
    const char *word = spoken->text;
    const size_t len = strlen(word), text_len = guess->len;
    const char *text = guess->text;
    if (is_slip(word, len, text, text_len, KILN_SLIP_LEN - guess->short_by))
        return SLIP;
    if (word[0] != text[0]) /* the first letter is hardly ever wrong */
        return ANOTHER_WORD;
    if (len + guess->short_by < KILN_MISSPELT_LEN)
        return ANOTHER_WORD;
    const bool twice = spoken->alone && len >= KILN_TWICE_LEN;
    const size_t wrong = kiln_edit_distance(word, len, text, text_len, twice ? 2 : 1);
    return wrong <= 1 ? WRONG_LETTER : wrong == 2 && twice ? TWO_LETTERS : ANOTHER_WORD;
}

/* Which of two words is meant does not matter if one LoRA alone has both. */
static bool same_lora(const struct kiln_spoken *a, const struct kiln_spoken *b)
{
    return a->lowest == a->highest && b->lowest == b->highest && a->lowest == b->lowest;
}

static void try_guess(void *arg, uint64_t hash)
{
    struct guess *guess = arg;
    const struct kiln_router *router = guess->router;
    const uint32_t *first = kiln_map_get(&router->misspelt, hash);
    unsigned seen = 0;
    for (uint32_t n = first ? *first : UINT32_MAX; n != UINT32_MAX; n = router->near[n].next) {
        const struct kiln_spoken *word = &router->spoken[router->near[n].word];
        const int away = distance(guess, word);
        if (++seen > KILN_NEAR_MAX) {
            guess->many = true;
            guess->distance = -1; /* nothing is nearer */
            return;
        }
        if (away != ANOTHER_WORD && guess->near_count < KILN_NEAR_MAX)
            guess->near[guess->near_count++] = word;
        if (away == ANOTHER_WORD || away > guess->distance ||
            (guess->word && word->form == guess->word->form && away == guess->distance))
            continue;
        const bool as_near = away == guess->distance && guess->word;
        /* "Sticker", which is a phrase, rather than the first word of "stick on". */
        if (as_near && word->alone != guess->word->alone) {
            guess->many &= !word->alone;
            guess->word = word->alone ? word : guess->word;
            continue;
        }
        guess->many = as_near && (guess->many || !same_lora(word, guess->word));
        guess->word = word;
        guess->distance = away;
    }
}

static void look_around(struct guess *guess)
{
    char other[WORD_MAX];
    try_guess(guess, kiln_map_hash(guess->text, guess->len));
    kiln_misspelt_each(guess->text, guess->len, 1, 1, try_guess, guess);
    memcpy(other, guess->text, guess->len); /* "enon" */
    other[0] = guess->text[1];
    other[1] = guess->text[0];
    try_guess(guess, kiln_map_hash(other, guess->len));
    if (!guess->word && guess->len + 2 >= KILN_TWICE_LEN)
        kiln_misspelt_each(guess->text, guess->len, 1, 2, try_guess, guess);
}

/* Whether a word of the phrase beside word `at` says more than "a" or "style". */
static bool others_say(const struct kiln_router *router, const struct kiln_phrase *phrase,
                       size_t at)
{
    for (size_t w = 0; w < phrase->count; w++)
        if (w != at && !(kiln_lexicon_classes(router->lexicon, phrase->forms[w]) & KILN_WORD_SMALL))
            return true;
    return false;
}

/* Whether token i, read as the word, makes a phrase of the words beside it, which say something. */
static bool completes(const struct kiln_router *router, struct kiln_route_tokens *tokens, size_t i,
                      const struct kiln_spoken *word)
{
    const struct kiln_route_token was = tokens->at[i];
    const size_t low = i > AROUND ? i - AROUND : 0;
    bool found = false;
    tokens->at[i].form = word->form;
    for (size_t t = low; t < tokens->count && t <= i + AROUND && !found; t++) {
        const uint32_t *list = kiln_map_get(&router->anchors, tokens->at[t].form);
        for (const struct kiln_anchored *p = list ? router->anchor_list + *list : NULL;
             p && p->phrase != KILN_LIST_END && !found; p++) {
            const struct kiln_phrase *phrase = &router->phrases[p->phrase];
            struct kiln_span span;
            bool guessed;
            found = phrase->count > 1 && !phrase->empty &&
                    kiln_router_word_for_word(tokens, t, phrase, &span, &guessed) &&
                    span.from <= i && i < span.to && others_say(router, phrase, i - span.from);
        }
    }
    tokens->at[i] = was;
    return found;
}

/* The one word near a short one that completes a phrase, or NULL. */
static const struct kiln_spoken *within_a_phrase(const struct kiln_router *router,
                                                 struct kiln_route_tokens *tokens, size_t i)
{
    struct guess guess = {.router = router,
                          .text = tokens->letters + tokens->at[i].text,
                          .len = tokens->at[i].length,
                          .short_by = 1,
                          .distance = ANOTHER_WORD};
    const struct kiln_spoken *found = NULL;
    look_around(&guess);
    for (size_t n = 0; n < guess.near_count; n++) {
        if ((found && found->form == guess.near[n]->form) ||
            !completes(router, tokens, i, guess.near[n]))
            continue;
        if (found)
            return NULL;
        found = guess.near[n];
    }
    return found;
}

/* "Neonish", "pixelesque": the phrase of one word and an ending. */
static bool is_likened(const struct kiln_router *router, struct kiln_route_token *token,
                       const char *text)
{
    static const char *const endings[] = {"ish",  "like", "esque", "ified", "ized",
                                          "ised", "ify",  "core",  "wave"};
    for (size_t e = 0; e < sizeof endings / sizeof *endings; e++) {
        const size_t ending = strlen(endings[e]);
        if (token->length < ending + KILN_SLIP_LEN ||
            memcmp(text + token->length - ending, endings[e], ending) != 0)
            continue;
        struct kiln_route_token base = *token;
        base.form = base.stem = kiln_map_hash(text, token->length - ending);
        if (!kiln_map_get(&router->phrase_of, kiln_route_tokens_phrase(&base, 1)))
            continue;
        *token = base;
        token->guessed = token->likened = true;
        return true;
    }
    return false;
}

/* As it is heard: "piksel", "klay", "grafics".  The length, 0 if that is no other word. */
static size_t sounds(const char *text, size_t len, char out[2 * WORD_MAX])
{
    size_t at = 0;
    bool other = false;
    for (size_t i = 0; i < len; i++) {
        const bool x = text[i] == 'k' && i + 1 < len && text[i + 1] == 's' && i > 0;
        const bool c = text[i] == 'k' && i == 0, ph = text[i] == 'f' && i > 0;
        out[at++] = x ? 'x' : c ? 'c' : ph ? 'p' : text[i];
        if (ph)
            out[at++] = 'h';
        i += x;
        other |= x || c || ph;
    }
    return other ? at : 0;
}

/* The word that a token stands for, or NULL. */
static const struct kiln_spoken *meant(const struct kiln_router *router,
                                       struct kiln_route_tokens *tokens, size_t i)
{
    char heard[2 * WORD_MAX];
    struct guess guess = {.router = router,
                          .text = tokens->letters + tokens->at[i].text,
                          .len = tokens->at[i].length,
                          .distance = ANOTHER_WORD};
    if (guess.len >= KILN_SLIP_LEN)
        look_around(&guess);
    if (!guess.word && guess.len >= KILN_SLIP_LEN &&
        (guess.len = sounds(guess.text, guess.len, heard)) > 0) {
        guess.text = heard;
        guess.distance = SLIP;
        try_guess(&guess, kiln_map_hash(heard, guess.len));
    }
    return guess.word && !guess.many ? guess.word : within_a_phrase(router, tokens, i);
}

void kiln_router_guess(struct kiln_router_reader *reader)
{
    const struct kiln_router *router = reader->router;
    struct kiln_route_tokens *tokens = &reader->tokens;
    for (size_t i = 0; i < tokens->count; i++) {
        struct kiln_route_token *token = &tokens->at[i];
        const bool known = kiln_lexicon_look_up(router->lexicon, token->form, &token->classes);
        if (known || token->length < KILN_TAIL_LEN || token->length > WORD_MAX ||
            (token->classes & KILN_WORD_ENGLISH) || kiln_map_get(&router->anchors, token->form) ||
            kiln_map_get(&router->words, token->stem))
            continue;
        const struct kiln_spoken *word = NULL;
        if (!is_likened(router, token, tokens->letters + token->text) &&
            (word = meant(router, tokens, i)) != NULL) {
            token->form = token->stem = word->form;
            token->guessed = true;
        }
        if (token->guessed)
            token->classes = kiln_lexicon_classes(router->lexicon, token->form);
    }
}
