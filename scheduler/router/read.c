/* read.c - a reader, and what a request says: its words, and the phrases of the registry in them.
 *
 * The words are the prompt's, marked; the style's, which are a clause of their own; the negative
 * prompt's, all denied.
 *
 * A phrase is looked for around its rarest word: word for word, or its words in any order with up
 * to two others between them, or most of a phrase of three words and more.  One word alone never
 * stands for a longer phrase: "oil" is no oil painting.
 */
#include <stdlib.h>
#include <string.h>

#include "scheduler/router/index.h"
#include "schemas/words/marks.h"

#define BETWEEN 2  /* other words within a phrase */
#define LOOSE 900  /* what a phrase is worth with others between, thousandths */
#define NEARLY 900 /* share of what only words like "style" are missing from */

struct kiln_router_reader *kiln_router_reader_new(const struct kiln_router *router)
{
    struct kiln_router_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return NULL;
    reader->router = router;
    reader->candidate_of = calloc(router->count + 1, sizeof *reader->candidate_of);
    reader->candidates = calloc(router->count + 1, sizeof *reader->candidates);
    reader->prompt = malloc(KILN_PROMPT_MAX + 1);
    if (reader->candidate_of && reader->candidates && reader->prompt &&
        kiln_router_meaning_room(reader))
        return reader;
    kiln_router_reader_free(reader);
    return NULL;
}

void kiln_router_reader_free(struct kiln_router_reader *reader)
{
    if (!reader)
        return;
    kiln_route_tokens_release(&reader->tokens);
    free(reader->candidate_of);
    free(reader->candidates);
    free(reader->prompt);
    free(reader->cosines);
    free(reader->products);
    free(reader);
}

/* --- phrases ---------------------------------------------------------------------------------- */

bool kiln_router_word_for_word(const struct kiln_route_tokens *tokens, size_t i,
                               const struct kiln_phrase *phrase, struct kiln_span *ret,
                               bool *ret_guessed)
{
    if (i < phrase->anchor || i - phrase->anchor + phrase->count > tokens->count)
        return false;
    const struct kiln_route_token *at = tokens->at + (i - phrase->anchor);
    *ret_guessed = false;
    for (size_t w = 0; w < phrase->count; w++) {
        if (at[w].form != phrase->forms[w] || at[w].clause != tokens->at[i].clause ||
            at[w].mark != tokens->at[i].mark)
            return false;
        *ret_guessed |= at[w].guessed;
    }
    *ret = (struct kiln_span){(uint32_t)(i - phrase->anchor),
                              (uint32_t)(i - phrase->anchor + phrase->count)};
    return true;
}

/* Which words the prompt has, about: a bit a word. */
#define PRESENT_BITS 1024
struct present {
    uint64_t bits[PRESENT_BITS / 64];
};

static inline bool is_present(const struct present *present, uint32_t form)
{
    return present->bits[form % PRESENT_BITS / 64] >> (form % 64) & 1;
}

/* The share of the phrase's words around its anchor at i, 0 for too little. */
static uint16_t around(const struct kiln_route_tokens *tokens, const struct present *present,
                       size_t i, const struct kiln_phrase *phrase, struct kiln_span *ret,
                       bool *ret_part)
{
    const size_t reach = phrase->count + BETWEEN - 1u;
    const size_t low = i > reach ? i - reach : 0;
    const size_t high = i + reach < tokens->count ? i + reach : tokens->count - 1;
    size_t from = i, to = i;
    unsigned found = 1, content = 1, share = phrase->shares[phrase->anchor];
    bool turned = false; /* a word stands on the other side of the anchor */
    for (size_t w = 0; w < phrase->count; w++) {
        if (w == phrase->anchor)
            continue;
        size_t t = is_present(present, (uint32_t)phrase->forms[w]) ? low : high + 1;
        for (; t <= high; t++) {
            const struct kiln_route_token *token = &tokens->at[t];
            if (t != i && token->form == phrase->forms[w] &&
                token->clause == tokens->at[i].clause && token->mark == tokens->at[i].mark)
                break;
        }
        if (t > high && (phrase->grouped || phrase->bare))
            return 0;
        if (t > high)
            continue;
        from = t < from ? t : from;
        to = t > to ? t : to;
        turned |= (t < i) != (w < phrase->anchor);
        share += phrase->shares[w];
        content += phrase->shares[w] >= KILN_CONTENT;
        found++;
    }
    if (found < 2 || to - from > reach ||
        (found < phrase->count && (turned || content < 2 || share < KILN_PART_LEAST)))
        return 0;
    *ret = (struct kiln_span){(uint32_t)from, (uint32_t)to + 1};
    /* "A sheet of stickers" is a sticker sheet, "an artist selling watercolors" no such artist. */
    const bool of = to - from == 2 && tokens->at[from + 1].length == 2 &&
                    memcmp(tokens->letters + tokens->at[from + 1].text, "of", 2) == 0;
    *ret_part = found < phrase->count || (turned && to - from + 1 > phrase->count && !of);
    return (uint16_t)(to - from + 1 > phrase->count ? share * LOOSE / 1000 : share);
}

/* "watercolor" within "opaque watercolor" is less than the longer phrase, and one within a
 * thing is a thing. */
static void find_longer(struct kiln_router_reader *reader)
{
    uint32_t most = 0; /* words of one that may be around others */
    bool scene = false;
    for (size_t i = 0; i < reader->hit_count; i++) {
        const struct kiln_hit *hit = &reader->hits[i];
        const uint32_t length = hit->span.to - hit->span.from;
        most = hit->exact && !hit->denied && length > most ? length : most;
        scene |= hit->scene;
    }
    for (size_t i = 0; i < reader->hit_count; i++) {
        struct kiln_hit *hit = &reader->hits[i];
        uint32_t longest = hit->span.to - hit->span.from;
        hit->inside = UINT32_MAX;
        if (longest >= most && !scene)
            continue;
        for (size_t j = 0; j < reader->hit_count; j++) {
            const struct kiln_hit *other = &reader->hits[j];
            const uint32_t length = other->span.to - other->span.from;
            if (other->scene && kiln_spans_meet(hit->span, other->span))
                hit->look = KILN_THING;
            if (!other->exact || other->denied || length <= longest ||
                other->span.from > hit->span.from || other->span.to < hit->span.to)
                continue;
            longest = length;
            hit->inside = other->phrase;
            hit->look = other->look == KILN_THING ? KILN_THING : hit->look;
        }
    }
}

static bool often(const struct kiln_router_reader *reader, uint32_t phrase)
{
    unsigned times = 0;
    for (size_t i = reader->hit_count; i-- > 0 && times < KILN_REPEATS_MAX;)
        times += reader->hits[i].phrase == phrase;
    return times == KILN_REPEATS_MAX;
}

static void find(struct kiln_router_reader *reader)
{
    const struct kiln_router *router = reader->router;
    const struct kiln_route_tokens *tokens = &reader->tokens;
    struct present present = {{0}};
    for (size_t i = 0; i < tokens->count; i++)
        present.bits[tokens->at[i].form % PRESENT_BITS / 64] |= 1ull << tokens->at[i].form % 64;
    reader->hit_count = 0;
    kiln_router_find_orders(reader);
    for (size_t i = 0; i < tokens->count; i++) {
        const struct kiln_route_token *token = &tokens->at[i];
        const uint32_t *list =
            token->mark > KILN_MARK_NEGATED ? NULL : kiln_map_get(&router->anchors, token->form);
        for (const struct kiln_anchored *p = list ? router->anchor_list + *list : NULL;
             p && p->phrase != KILN_LIST_END; p++) {
            if (p->other && !is_present(&present, p->other)) /* as of most phrases */
                continue;
            const struct kiln_phrase *phrase = &router->phrases[p->phrase];
            struct kiln_hit hit = {.phrase = p->phrase,
                                   .denied = token->mark == KILN_MARK_NEGATED && !phrase->denies};
            bool guessed = false, part = false;
            if (kiln_router_word_for_word(tokens, i, phrase, &hit.span, &guessed)) {
                hit.exact = !guessed;
                hit.share = guessed ? LOOSE : 1000;
            } else if (phrase->count > 1 && !kiln_phrase_is_compound(router, phrase) &&
                       (phrase->text[0] < '0' || phrase->text[0] > '9')) {
                hit.share = around(tokens, &present, i, phrase, &hit.span, &part);
            }
            if (hit.share == 0 || reader->hit_count == KILN_HITS_MAX || often(reader, p->phrase))
                continue;
            kiln_router_judge(reader, part, &hit);
            reader->hits[reader->hit_count++] = hit;
        }
    }
    find_longer(reader);
}

/* --- requests --------------------------------------------------------------------------------- */

int kiln_router_read(struct kiln_router_reader *reader, const struct kiln_router_request *request,
                     struct kiln_error *err)
{
    const size_t len = strnlen(request->prompt, KILN_PROMPT_MAX + 1);
    const char *negative = request->negative_prompt, *style = request->style;
    const size_t negative_len = negative ? strnlen(negative, KILN_PROMPT_MAX + 1) : 0;
    if (len > KILN_PROMPT_MAX || negative_len > KILN_PROMPT_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "the prompt has over %d bytes", KILN_PROMPT_MAX);
    struct kiln_route_tokens *tokens = &reader->tokens;
    kiln_route_tokens_clear(tokens);
    tokens->keep_clean = reader->router->meaning != NULL;
    int rc = kiln_route_tokens_add(tokens, request->prompt, len, true, err);
    if (!rc && style && *style)
        rc = kiln_route_tokens_add(tokens, style, strlen(style), false, err);
    const size_t wanted = tokens->count;
    tokens->keep_clean = false;
    if (!rc && negative_len > 0)
        rc = kiln_route_tokens_add(tokens, negative, negative_len, false, err);
    if (rc)
        return rc;
    for (size_t i = wanted; i < tokens->count; i++)
        tokens->at[i].mark = KILN_MARK_NEGATED;
    kiln_router_guess(reader);
    find(reader);
    kiln_router_split(reader);
    return 0;
}

int kiln_router_segments(struct kiln_router_reader *reader,
                         const struct kiln_router_request *request,
                         const char *ret[KILN_MEANING_SEGMENTS], size_t *ret_count,
                         struct kiln_error *err)
{
    *ret_count = 0;
    int rc = reader->router->meaning ? kiln_router_read(reader, request, err) : 0;
    for (size_t i = 0; i < reader->segment_count && !rc; i++)
        ret[(*ret_count)++] = reader->segments[i].text;
    return rc;
}
