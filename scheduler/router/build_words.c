/* build_words.c - the two indexes of single words in a snapshot: BM25F over a LoRA's texts, and the
 * words of phrases that are recognised with one misspelling.
 *
 * BM25F (Robertson, Zaragoza 2009, section 3.6): tf = sum over fields of
 * weight * count / (1 - b + b * length / usual length); impact = idf * tf / (k1 + tf).  The usual
 * lengths are constants and the idf is of the background, so that a LoRA more changes no score of
 * the others.
 */
#include <stdlib.h>
#include <string.h>

#include "scheduler/router/index.h"
#include "scheduler/router/word_lists.h"
#include "schemas/room.h"
#include "schemas/text/utf8.h"

#define K1 1200      /* thousandths, as all here */
#define LENGTH 300   /* b */
#define IDF_LEAST 50 /* tenths; more common words, in every twentieth text, are not indexed */

struct field {
    const char *const *texts;
    uint32_t count;
    uint32_t weight, usual; /* usual length, in words */
};

struct entry { /* a word of a LoRA */
    uint64_t stem;
    uint32_t lora, tf, idf;
};

struct entries {
    struct entry *at;
    size_t count, room;
};

static int no_memory(struct kiln_error *err)
{
    return kiln_fail(err, KILN_NO_MEMORY, "no memory for the index of LoRAs");
}

static int add_field(struct kiln_router *router, uint32_t lora, const struct field *field,
                     struct entries *entries, struct kiln_error *err)
{
    struct kiln_route_tokens tokens = {0};
    int rc = 0;
    for (uint32_t i = 0; i < field->count && !rc; i++) {
        size_t len = strnlen(field->texts[i], KILN_ROUTER_PROSE_MAX);
        len = kiln_utf8_whole(field->texts[i], len);
        rc = kiln_route_tokens_add(&tokens, field->texts[i], len, false, err);
    }
    const uint32_t norm =
        1000 - LENGTH + (uint32_t)(LENGTH * tokens.count / (field->usual ? field->usual : 1));
    for (size_t i = 0; i < tokens.count && !rc; i++) {
        const uint32_t idf = kiln_lexicon_idf(router->lexicon, tokens.at[i].form);
        if (idf < IDF_LEAST)
            continue;
        struct entry *at = kiln_room(entries->at, entries->count, &entries->room, sizeof *at);
        if (!at) {
            rc = no_memory(err);
            break;
        }
        entries->at = at;
        at[entries->count++] =
            (struct entry){tokens.at[i].stem, lora, field->weight * 1000 / norm, idf};
    }
    kiln_route_tokens_release(&tokens);
    return rc;
}

static int by_stem(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->stem != y->stem)
        return x->stem < y->stem ? -1 : 1;
    return x->lora == y->lora ? 0 : x->lora < y->lora ? -1 : 1;
}

static int add_postings(struct kiln_router *router, struct entries *entries, struct kiln_error *err)
{
    router->postings = calloc(entries->count * 2 + 1, sizeof *router->postings);
    if (!router->postings)
        return no_memory(err);
    if (entries->count > 0)
        qsort(entries->at, entries->count, sizeof *entries->at, by_stem);
    size_t at = 0;
    for (size_t i = 0; i < entries->count;) {
        const uint64_t stem = entries->at[i].stem;
        if (!kiln_map_put(&router->words, stem, (uint32_t)at))
            return no_memory(err);
        while (i < entries->count && entries->at[i].stem == stem) {
            const uint32_t lora = entries->at[i].lora, idf = entries->at[i].idf;
            uint64_t tf = 0;
            for (; i < entries->count && entries->at[i].stem == stem && entries->at[i].lora == lora;
                 i++)
                tf += entries->at[i].tf;
            router->postings[at++] =
                (struct kiln_posting){lora, (uint32_t)(idf * 100 * tf / (K1 + tf))};
        }
        router->postings[at++] = (struct kiln_posting){UINT32_MAX, 0};
    }
    return 0;
}

int kiln_router_build_words(struct kiln_router *router, struct kiln_error *err)
{
    struct entries entries = {0};
    int rc = 0;
    for (size_t i = 0; i < router->count && !rc; i++) {
        const struct kiln_router_lora *lora = &router->loras[i];
        const char *name = lora->name, *description = lora->description;
        const struct field fields[] = {
            {&name, 1, 2000, 2},
            {(const char *const *)lora->triggers.at, lora->triggers.count, 3000, 4},
            {(const char *const *)lora->positive.at, lora->positive.count, 2000, 6},
            {&description, description ? 1 : 0, 1000, 15},
            {(const char *const *)lora->examples.at, lora->examples.count, 500, 60}};
        for (size_t f = 0; f < sizeof fields / sizeof *fields && !rc; f++)
            rc = add_field(router, (uint32_t)i, &fields[f], &entries, err);
    }
    rc = rc ? rc : add_postings(router, &entries, err);
    free(entries.at);
    return rc;
}

/* --- misspelt words --------------------------------------------------------------------------- */

void kiln_misspelt_each(const char *text, size_t len, size_t from, unsigned letters,
                        void (*each)(void *arg, uint64_t hash), void *arg)
{
    char less[24];
    if (from >= len)
        return;
    memcpy(less, text, from);
    memcpy(less + from, text + from + 1, len - from - 1);
    for (size_t skip = from; skip < len; skip++) {
        each(arg, kiln_map_hash(less, len - 1));
        if (letters > 1)
            kiln_misspelt_each(less, len - 1, skip, letters - 1, each, arg);
        less[skip] = text[skip];
    }
}

struct misspelling {
    struct kiln_router *router;
    uint32_t number;
    bool failed;
};

static void add_misspelling(void *arg, uint64_t hash)
{
    struct misspelling *m = arg;
    struct kiln_router *router = m->router;
    struct kiln_near *near =
        kiln_room(router->near, router->near_count, &router->near_room, sizeof *near);
    uint32_t *first = near ? kiln_map_put(&router->misspelt, hash, UINT32_MAX) : NULL;
    if (near)
        router->near = near;
    if (!first) {
        m->failed = true;
    } else if (*first == UINT32_MAX || near[*first].word != m->number) {
        near[router->near_count] = (struct kiln_near){m->number, *first};
        *first = (uint32_t)router->near_count++;
    }
}

static int add_word(struct kiln_router *router, const struct kiln_route_token *token,
                    const char *text, size_t len, struct kiln_error *err)
{
    struct kiln_spoken *spoken =
        kiln_room(router->spoken, router->spoken_count, &router->spoken_room, sizeof *spoken);
    if (!spoken)
        return no_memory(err);
    router->spoken = spoken;
    struct misspelling m = {router, (uint32_t)router->spoken_count++, false};
    struct kiln_spoken *word = &spoken[m.number];
    *word = (struct kiln_spoken){.form = token->form, .lowest = UINT32_MAX};
    memcpy(word->text, text, len);
    add_misspelling(&m, kiln_map_hash(text, len));
    if (len >= KILN_TAIL_LEN)
        kiln_misspelt_each(word->text, len, 1, 1, add_misspelling, &m);
    return m.failed ? no_memory(err) : 0;
}

/* A new word of phrases, and as it is spelt in Britain: that may be misspelt, too. */
static int add_spellings(struct kiln_router *router, const struct kiln_route_token *token,
                         const char *text, struct kiln_error *err)
{
    char british[sizeof router->spoken->text + 2];
    int rc = add_word(router, token, text, token->length, err);
    const size_t len = kiln_route_british(text, token->length, british);
    return rc || !len || len >= sizeof router->spoken->text
               ? rc
               : add_word(router, token, british, len, err);
}

/* Words of phrases are kept as hashes, so the texts are read once more.  seen: form -> number in
 * spoken. */
static int add_spoken(struct kiln_router *router, const struct kiln_phrase *phrase,
                      const struct kiln_route_tokens *tokens, struct kiln_map *seen,
                      struct kiln_error *err)
{
    for (size_t i = 0; i < tokens->count; i++) {
        const struct kiln_route_token *token = &tokens->at[i];
        if (token->length < KILN_TAIL_LEN || token->length >= sizeof router->spoken->text)
            continue;
        const uint32_t fresh = (uint32_t)router->spoken_count;
        const uint32_t *number = kiln_map_put(seen, token->form, fresh);
        if (!number)
            return no_memory(err);
        const uint32_t at = *number;
        int rc = at == fresh ? add_spellings(router, token, tokens->letters + token->text, err) : 0;
        if (rc)
            return rc;
        for (uint32_t w = at; w < router->spoken_count; w++) { /* both spellings */
            struct kiln_spoken *word = &router->spoken[w];
            if (word->form != token->form)
                break;
            word->alone |= phrase->count == 1;
            for (uint32_t u = phrase->use; u < phrase->use + phrase->use_count; u++) {
                const uint32_t lora = router->uses[u].lora;
                word->lowest = lora < word->lowest ? lora : word->lowest;
                word->highest = lora > word->highest ? lora : word->highest;
            }
        }
    }
    return 0;
}

int kiln_router_build_misspelt(struct kiln_router *router, struct kiln_error *err)
{
    struct kiln_map seen = {0};
    struct kiln_route_tokens tokens = {0};
    int rc = 0;
    for (size_t i = 0; i < router->phrase_count && !rc; i++) {
        const char *text = router->phrases[i].text;
        kiln_route_tokens_clear(&tokens);
        rc = kiln_route_tokens_add(&tokens, text, strlen(text), false, err);
        if (router->phrases[i].joined)
            (void)kiln_route_tokens_join(&tokens);
        rc = rc ? rc : add_spoken(router, &router->phrases[i], &tokens, &seen, err);
    }
    for (size_t w = 0; w < router->spoken_count && !rc; w++) {
        const struct kiln_spoken *word = &router->spoken[w];
        const size_t len = strlen(word->text);
        struct misspelling m = {router, (uint32_t)w, false};
        if (word->alone && len >= KILN_TWICE_LEN)
            kiln_misspelt_each(word->text, len, 1, 2, add_misspelling, &m);
        rc = m.failed ? no_memory(err) : 0;
    }
    kiln_route_tokens_release(&tokens);
    kiln_map_release(&seen);
    return rc;
}
