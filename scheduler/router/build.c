/* build.c - the registry becomes a snapshot: its phrases with those of the lexicon, each once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/router/index.h"
#include "scheduler/router/lora_file.h"
#include "scheduler/router/word_lists.h"
#include "schemas/names.h"
#include "schemas/room.h"

#define NARROWER 700 /* weight of the phrases of a narrower concept */

static int no_memory(struct kiln_error *err)
{
    return kiln_fail(err, KILN_NO_MEMORY, "no memory for the index of LoRAs");
}

/* The number of the phrase with these words, which is added if it is new. */
static int intern(struct kiln_router *router, const struct kiln_route_token *words, size_t count,
                  const char *text, uint32_t *ret, struct kiln_error *err)
{
    count = count < KILN_PHRASE_WORDS ? count : KILN_PHRASE_WORDS;
    uint32_t *number = kiln_map_put(&router->phrase_of, kiln_route_tokens_phrase(words, count),
                                    (uint32_t)router->phrase_count);
    if (!number)
        return no_memory(err);
    *ret = *number;
    if (*number < router->phrase_count)
        return 0;
    struct kiln_phrase *phrases =
        kiln_room(router->phrases, router->phrase_count, &router->phrase_room, sizeof *phrases);
    if (!phrases)
        return no_memory(err);
    router->phrases = phrases;
    struct kiln_phrase *phrase = &phrases[router->phrase_count++];
    *phrase = (struct kiln_phrase){
        .text = text, .count = (uint8_t)count, .empty = true, .as_one = UINT32_MAX};
    unsigned idf[KILN_PHRASE_WORDS], sum = 0, best = 0, shared = 0;
    for (size_t i = 0; i < count; i++) {
        phrase->forms[i] = words[i].form;
        idf[i] = kiln_lexicon_idf(router->lexicon, words[i].form);
        const unsigned classes = kiln_lexicon_classes(router->lexicon, words[i].form);
        phrase->empty &= (classes & (KILN_WORD_SMALL | KILN_WORD_PRAISE)) != 0;
        sum += idf[i];
        if (idf[i] > best) {
            best = idf[i];
            phrase->anchor = (uint8_t)i;
        }
    }
    for (size_t i = 0; i < count; i++) {
        phrase->shares[i] = (uint16_t)(idf[i] * 1000 / sum);
        shared += phrase->shares[i];
    }
    phrase->shares[phrase->anchor] = (uint16_t)(phrase->shares[phrase->anchor] + 1000 - shared);
    phrase->denies = count > 1 && (words[0].form == kiln_map_hash("no", 2) ||
                                   words[0].form == kiln_map_hash("without", 7));
    phrase->common = count == 1 && kiln_lexicon_common(router->lexicon, words[0].form);
    return 0;
}

static int add_use(struct kiln_router *router, struct kiln_use use, struct kiln_error *err)
{
    struct kiln_use *uses =
        kiln_room(router->uses, router->use_count, &router->use_room, sizeof *uses);
    if (!uses)
        return no_memory(err);
    router->uses = uses;
    uses[router->use_count++] = use;
    return 0;
}

/* The two words of a phrase as one, "crosshatching" for "cross hatching", unless that is a common
 * word.  As a keyword even of a trigger, since the trigger itself is not in the prompt. */
static int add_joined(struct kiln_router *router, struct kiln_route_tokens *tokens,
                      const char *text, struct kiln_use use, struct kiln_error *err)
{
    if (!kiln_route_tokens_join(tokens) || kiln_lexicon_common(router->lexicon, tokens->at[0].form))
        return 0;
    const size_t before = router->phrase_count;
    const uint32_t of = use.phrase;
    int rc = intern(router, tokens->at, 1, text, &use.phrase, err);
    if (!rc)
        router->phrases[of].as_one = use.phrase;
    if (!rc && router->phrase_count > before)
        router->phrases[use.phrase].joined = true;
    if (use.role == KILN_ROLE_TRIGGER)
        use.role = KILN_ROLE_KEYWORD;
    use.first = false;
    return rc ? rc : add_use(router, use, err);
}

/* Adds one text of a LoRA; *ret_concept: the concept of the lexicon that has it, or -1. */
static int add_text(struct kiln_router *router, const char *text, bool grouped, struct kiln_use use,
                    int32_t *ret_concept, struct kiln_error *err)
{
    struct kiln_route_tokens tokens = {0};
    int rc = kiln_route_tokens_add(&tokens, text, strlen(text), false, err);
    *ret_concept = -1;
    if (!rc && tokens.count > 0) {
        const size_t before = router->phrase_count;
        rc = intern(router, tokens.at, tokens.count, text, &use.phrase, err);
        struct kiln_phrase *phrase = rc ? NULL : &router->phrases[use.phrase];
        if (phrase)
            phrase->grouped = grouped && (phrase->grouped || router->phrase_count > before);
        if (phrase && phrase->joined) {
            phrase->text = text;
            phrase->joined = false;
        }
        rc = rc ? rc : add_use(router, use, err);
        *ret_concept =
            kiln_lexicon_find(router->lexicon, kiln_route_tokens_phrase(tokens.at, tokens.count));
        rc = rc || grouped ? rc : add_joined(router, &tokens, text, use, err);
    }
    kiln_route_tokens_release(&tokens);
    return rc;
}

/* Adds a use of a phrase of the lexicon, which is likely there of another LoRA. */
static int add_known(struct kiln_router *router, const struct kiln_lexicon_phrase *phrase,
                     struct kiln_use use, struct kiln_error *err)
{
    int32_t same;
    const uint32_t *number = kiln_map_get(&router->phrase_of, phrase->hash);
    const struct kiln_phrase *known = number ? &router->phrases[*number] : NULL;
    if (!known || known->joined || known->grouped != phrase->grouped)
        return add_text(router, phrase->text, phrase->grouped, use, &same, err);
    const uint32_t as_one = known->as_one;
    use.phrase = *number;
    int rc = add_use(router, use, err);
    if (rc || as_one == UINT32_MAX)
        return rc;
    use.phrase = as_one;
    return add_use(router, use, err);
}

static int add_concept(struct kiln_router *router, uint32_t lora, int32_t number, uint16_t weight,
                       enum kiln_role role, struct kiln_error *err)
{
    const struct kiln_concept *concept = kiln_lexicon_concept(router->lexicon, number);
    int rc = 0;
    for (size_t i = 0; i < concept->count && !rc; i++)
        rc = add_known(router, &concept->phrases[i],
                       (struct kiln_use){.lora = lora,
                                         .weight = weight,
                                         .role = (uint8_t)role,
                                         .bare = concept->phrases[i].bare},
                       err);
    return rc;
}

/* What the lexicon knows of a concept that the LoRA names: its other phrases, those of the concepts
 * below it, and what it excludes. */
static int expand(struct kiln_router *router, uint32_t lora, int32_t number, struct kiln_error *err)
{
    int rc = add_concept(router, lora, number, 1000, KILN_ROLE_KEYWORD, err);
    const struct kiln_concept *concept = kiln_lexicon_concept(router->lexicon, number);
    for (uint32_t i = 0; i < concept->antonym_count && !rc; i++)
        rc = add_concept(router, lora, concept->antonyms[i], 1000, KILN_ROLE_ANTONYM, err);
    for (size_t i = 0; i < kiln_lexicon_count(router->lexicon) && !rc; i++)
        if (kiln_lexicon_concept(router->lexicon, (int32_t)i)->parent == number)
            rc = add_concept(router, lora, (int32_t)i, NARROWER, KILN_ROLE_KEYWORD, err);
    return rc;
}

#define CONCEPTS 16 /* of one LoRA that are expanded: fifty synonyms shall not win */

static int add_lora(struct kiln_router *router, uint32_t number, struct kiln_error *err)
{
    const struct kiln_router_lora *lora = &router->loras[number];
    const struct {
        const struct kiln_texts *texts;
        enum kiln_role role;
    } lists[] = {{&lora->triggers, KILN_ROLE_TRIGGER},
                 {&lora->positive, KILN_ROLE_KEYWORD},
                 {&lora->negative, KILN_ROLE_NEGATIVE}};
    int32_t concepts[CONCEPTS];
    size_t count = 0;
    int rc = 0;
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (uint32_t i = 0; i < lists[l].texts->count && !rc; i++) {
            int32_t named;
            rc = add_text(router, lists[l].texts->at[i], false,
                          (struct kiln_use){.lora = number,
                                            .weight = 1000,
                                            .role = (uint8_t)lists[l].role,
                                            .first = i == 0},
                          &named, err);
            bool known = named < 0 || lists[l].role == KILN_ROLE_NEGATIVE;
            for (size_t c = 0; c < count; c++)
                known |= concepts[c] == named;
            if (!rc && !known && count < CONCEPTS && lora->category != KILN_LORA_CHARACTER) {
                concepts[count++] = named;
                rc = expand(router, number, named, err);
            }
        }
    return rc;
}

static int by_phrase(const void *a, const void *b)
{
    const struct kiln_use *x = a, *y = b;
    if (x->phrase != y->phrase)
        return x->phrase < y->phrase ? -1 : 1;
    if (x->lora != y->lora)
        return x->lora < y->lora ? -1 : 1;
    if (x->role != y->role)
        return x->role < y->role ? -1 : 1;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    if (x->bare != y->bare)
        return x->bare ? 1 : -1;
    return x->first == y->first ? 0 : x->first ? -1 : 1;
}

/* One use for each role of a phrase and LoRA, the heaviest; a phrase that a LoRA has itself is no
 * exclusion of it. */
static void sort_uses(struct kiln_router *router)
{
    size_t kept = 0;
    if (router->use_count > 0)
        qsort(router->uses, router->use_count, sizeof *router->uses, by_phrase);
    for (size_t i = 0; i < router->use_count; i++) {
        const struct kiln_use *use = &router->uses[i],
                              *last = kept ? &router->uses[kept - 1] : NULL;
        const bool same = last && last->phrase == use->phrase && last->lora == use->lora;
        if (same && (last->role == use->role || use->role == KILN_ROLE_ANTONYM))
            continue;
        router->uses[kept++] = *use;
    }
    router->use_count = kept;
    for (size_t i = kept; i-- > 0;) {
        struct kiln_phrase *phrase = &router->phrases[router->uses[i].phrase];
        phrase->use = (uint32_t)i;
        phrase->use_count++;
        phrase->bare |= router->uses[i].bare;
    }
}

/* The rarest word beside the anchor, if no part of the phrase without it counts (read.c), else 0.
 */
static uint32_t other_word(const struct kiln_phrase *phrase)
{
    size_t other = phrase->anchor, content = 0;
    for (size_t i = 0; i < phrase->count; i++) {
        content += phrase->shares[i] >= KILN_CONTENT;
        if (i != phrase->anchor &&
            (other == phrase->anchor || phrase->shares[i] > phrase->shares[other]))
            other = i;
    }
    const bool needed = phrase->count == 2 || phrase->grouped || phrase->bare || content <= 2 ||
                        1000 - phrase->shares[other] < KILN_PART_LEAST;
    return phrase->count > 1 && needed ? (uint32_t)phrase->forms[other] : 0;
}

/* Lists of phrases by their anchors, one behind the other. */
static int build_anchors(struct kiln_router *router, struct kiln_error *err)
{
    uint32_t *next = calloc(router->phrase_count + 1, sizeof *next);
    router->anchor_list = calloc(router->phrase_count * 2 + 1, sizeof *router->anchor_list);
    int rc = next && router->anchor_list ? 0 : no_memory(err);
    for (size_t i = router->phrase_count; i-- > 0 && !rc;) { /* chained first */
        const struct kiln_phrase *phrase = &router->phrases[i];
        uint32_t *head =
            kiln_map_put(&router->anchors, phrase->forms[phrase->anchor], KILN_LIST_END);
        if (!head)
            rc = no_memory(err);
        else {
            next[i] = *head;
            *head = (uint32_t)i;
        }
    }
    size_t at = 0;
    for (size_t i = 0; i < router->anchors.size && !rc; i++) {
        if (!router->anchors.keys[i])
            continue;
        const uint32_t first = (uint32_t)at;
        for (uint32_t p = router->anchors.values[i]; p != KILN_LIST_END; p = next[p])
            router->anchor_list[at++] = (struct kiln_anchored){p, other_word(&router->phrases[p])};
        router->anchor_list[at++] = (struct kiln_anchored){KILN_LIST_END, 0};
        router->anchors.values[i] = first;
    }
    free(next);
    return rc;
}

/* --- checks ----------------------------------------------------------------------------------- */

static int check_texts(const struct kiln_router_lora *lora, const char *what,
                       const struct kiln_texts *texts, size_t max, struct kiln_error *err)
{
    if (texts->count > KILN_ROUTER_TEXTS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "LoRA '%s' has %u %s; at most %d", lora->name,
                         texts->count, what, KILN_ROUTER_TEXTS_MAX);
    for (uint32_t i = 0; i < texts->count; i++) {
        const char *text = texts->at[i];
        if (strlen(text) > max)
            return kiln_fail(err, KILN_BAD_INPUT, "LoRA '%s', %s %u: %zu bytes; at most %zu",
                             lora->name, what, i + 1, strlen(text), max);
        const int steering = kiln_lora_text_steers(text);
        if (steering >= 0)
            return kiln_fail(err, KILN_BAD_INPUT, "LoRA '%s', %s %u: the control character U+%04X",
                             lora->name, what, i + 1, (unsigned)steering);
    }
    return 0;
}

static int check(const struct kiln_router_lora *lora, struct kiln_error *err)
{
    if (!kiln_name_valid(lora->name, strlen(lora->name), KILN_NAME_MAX))
        return kiln_fail(err, KILN_BAD_INPUT, "the name of a LoRA must be %s", KILN_NAME_RULE);
    if (!(isfinite(lora->scale) && isfinite(lora->min) && isfinite(lora->max) &&
          lora->min <= lora->scale && lora->scale <= lora->max && fabs(lora->scale) <= 4 &&
          lora->scale != 0))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "LoRA '%s': scale %g must be from %g to %g, and not 0", lora->name,
                         lora->scale, fmax(lora->min, -4), fmin(lora->max, 4));
    int rc = check_texts(lora, "triggers", &lora->triggers, KILN_ROUTER_TEXT_MAX, err);
    rc = rc ? rc : check_texts(lora, "positive", &lora->positive, KILN_ROUTER_TEXT_MAX, err);
    rc = rc ? rc : check_texts(lora, "negative", &lora->negative, KILN_ROUTER_TEXT_MAX, err);
    return rc ? rc : check_texts(lora, "examples", &lora->examples, KILN_ROUTER_PROSE_MAX, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct kiln_router_lora *)a)->name,
                  ((const struct kiln_router_lora *)b)->name);
}

int kiln_router_build(struct kiln_router_lora *loras, size_t count, uint64_t version,
                      const struct kiln_lexicon *lexicon, struct kiln_router **ret,
                      struct kiln_error *err)
{
    struct kiln_router *router = calloc(1, sizeof *router);
    if (!router) {
        for (size_t i = 0; i < count; i++)
            kiln_router_lora_release(&loras[i]);
        free(loras);
        return no_memory(err);
    }
    *router = (struct kiln_router){
        .version = version, .lexicon = lexicon, .loras = loras, .count = count};
    int rc =
        count <= KILN_ROUTER_LORAS_MAX
            ? 0
            : kiln_fail(err, KILN_BAD_INPUT, "%zu LoRAs; at most %d", count, KILN_ROUTER_LORAS_MAX);
    /* Ties go by name, and the answer must not depend on the order of a file. */
    if (count > 0)
        qsort(loras, count, sizeof *loras, by_name);
    for (size_t i = 0; i < count && !rc; i++) {
        rc = check(&loras[i], err);
        if (!rc && i > 0 && strcmp(loras[i - 1].name, loras[i].name) == 0)
            rc = kiln_fail(err, KILN_BAD_INPUT, "LoRA '%s' is there twice", loras[i].name);
        rc = rc ? rc : add_lora(router, (uint32_t)i, err);
    }
    if (!rc)
        sort_uses(router);
    rc = rc ? rc : build_anchors(router, err);
    rc = rc ? rc : kiln_router_build_words(router, err);
    rc = rc ? rc : kiln_router_build_misspelt(router, err);
    if (rc) {
        kiln_router_free(router);
        return rc;
    }
    *ret = router;
    return 0;
}

static void texts_release(struct kiln_texts *texts)
{
    for (uint32_t i = 0; i < texts->count; i++)
        free(texts->at[i]);
    free(texts->at);
    *texts = (struct kiln_texts){0};
}

void kiln_router_lora_release(struct kiln_router_lora *lora)
{
    texts_release(&lora->triggers);
    texts_release(&lora->positive);
    texts_release(&lora->negative);
    texts_release(&lora->examples);
    free(lora->description);
    free(lora->licence);
    lora->description = lora->licence = NULL;
}

void kiln_router_free(struct kiln_router *router)
{
    if (!router)
        return;
    for (size_t i = 0; i < router->count; i++)
        kiln_router_lora_release(&router->loras[i]);
    free(router->loras);
    free(router->phrases);
    free(router->uses);
    free(router->anchor_list);
    free(router->postings);
    free(router->spoken);
    free(router->near);
    kiln_meaning_free(router->meaning);
    kiln_map_release(&router->phrase_of);
    kiln_map_release(&router->anchors);
    kiln_map_release(&router->words);
    kiln_map_release(&router->misspelt);
    free(router);
}

uint64_t kiln_router_version(const struct kiln_router *router)
{
    return router->version;
}

size_t kiln_router_count(const struct kiln_router *router)
{
    return router->count;
}

const struct kiln_router_lora *kiln_router_lora(const struct kiln_router *router, size_t i)
{
    return &router->loras[i];
}
