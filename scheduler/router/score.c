/* score.c - the evidence for each LoRA and its probability; formula in router.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/router/index.h"
#include "scheduler/router/learn.h"
#include "scheduler/router/weights.h"
#include "schemas/room.h"
#include "schemas/words/marks.h"

#define B_HALF 4000       /* BM25F at which b is a half, in thousandths */
#define AGAIN 100         /* a word that was among the last ones counts no more */
#define INSIDE 900        /* what a phrase within a longer one of others is worth, thousandths */
#define DENIED_LEAST 1000 /* share and weight of a keyword that a denial bars */

const struct kiln_router_weights kiln_router_weights = {
    KILN_WEIGHT_BIAS, KILN_WEIGHT_T, KILN_WEIGHT_K, KILN_WEIGHT_B, KILN_WEIGHT_N};

int kiln_router_p(int z)
{
    return (int)lround(1000 / (1 + exp(-z / 1000.0)));
}

static double logit(double p)
{
    return log(p / (1 - p));
}

int kiln_learn_bias(struct kiln_ratings lora, struct kiln_ratings pool)
{
    const double most = KILN_LEARN_MOST / 1000.0, rated = (double)lora.rated;
    const double mean = ((double)pool.liked + 1) / ((double)pool.rated + 2);
    const double own = (KILN_LEARN_PRIOR * mean + (double)lora.liked) / (KILN_LEARN_PRIOR + rated);
    const double difference = fmin(fmax(logit(own) - logit(mean), -most), most);
    return (int)lround(1000 * difference * rated / (rated + KILN_LEARN_HALF));
}

static bool is_between(char c)
{
    return c == '-' || c == '_' || c == '.' || c == ' ';
}

/* "Z-Image", "ZImage" and "z_image" are one.  b: of that length. */
static bool same_part(const char *a, const char *b, size_t len)
{
    for (const char *end = b + len;; a++, b++) {
        while (is_between(*a))
            a++;
        while (b < end && is_between(*b))
            b++;
        const int x = *a >= 'A' && *a <= 'Z' ? *a | 0x20 : *a;
        const int y = b == end ? 0 : *b >= 'A' && *b <= 'Z' ? *b | 0x20 : *b;
        if (x != y || !x)
            return x == y;
    }
}

static bool same_name(const char *a, const char *b)
{
    return strcmp(a, b) == 0 || same_part(a, b, strlen(b));
}

/* An unknown licence allows nothing. */
static bool licensed(const struct kiln_router_lora *lora, const char *licences)
{
    if (!licences || !*licences)
        return true;
    for (const char *at = licences; *at;) {
        const size_t len = strcspn(at, ",");
        const bool empty = strspn(at, "-_. ") >= len; /* as between the commas of "MIT,,ISC" */
        if (!empty &&
            (same_part("commercial", at, len) ? lora->commercial == KILN_COMMERCIAL_YES
                                              : lora->licence && same_part(lora->licence, at, len)))
            return true;
        at += len + (at[len] == ',');
    }
    return false;
}

bool kiln_router_suits(const struct kiln_router_lora *lora, const struct kiln_router_pool *pool)
{
    const bool given = pool->variant && *pool->variant && *lora->variant;
    if (!lora->enabled || !licensed(lora, pool->licences) ||
        lora->type == (pool->video ? KILN_LORA_IMAGE : KILN_LORA_VIDEO) ||
        (lora->category == KILN_LORA_MOTION && !pool->video))
        return false;
    if (*lora->base && pool->base && *pool->base && !same_name(lora->base, pool->base))
        return false;
    if (given && !same_name(lora->variant, pool->variant) && !same_name(lora->variant, "any") &&
        !same_name(lora->variant, "unknown"))
        return false;
    return !*lora->tenant || (pool->tenant && strcmp(lora->tenant, pool->tenant) == 0);
}

/* Memory is for all LoRAs, so it does not fail. */
struct kiln_candidate *kiln_router_candidate(struct kiln_router_reader *reader, uint32_t lora,
                                             const struct kiln_router_pool *pool)
{
    if (!reader->candidate_of[lora]) {
        if (!kiln_router_suits(&reader->router->loras[lora], pool))
            return NULL;
        reader->candidates[reader->candidate_count++] =
            (struct kiln_candidate){.lora = lora, .phrase = UINT32_MAX};
        reader->candidate_of[lora] = (uint32_t)reader->candidate_count;
    }
    return &reader->candidates[reader->candidate_of[lora] - 1];
}

static bool used_up(const struct kiln_route_tokens *tokens, struct kiln_span span)
{
    for (uint32_t i = span.from; i < span.to; i++)
        if (tokens->at[i].used)
            return true;
    return false;
}

/* Where the LoRAs' negative phrases stand: "clay pot" for "clay". */
static void find_covers(struct kiln_router_reader *reader)
{
    reader->cover_count = 0;
    for (size_t h = 0; h < reader->hit_count; h++) {
        const struct kiln_hit *hit = &reader->hits[h];
        const struct kiln_phrase *phrase = &reader->router->phrases[hit->phrase];
        for (uint32_t u = 0; u < phrase->use_count && hit->exact && !hit->denied; u++) {
            const struct kiln_use *use = &reader->router->uses[phrase->use + u];
            if (use->role == KILN_ROLE_NEGATIVE && reader->cover_count < KILN_HITS_MAX)
                reader->covers[reader->cover_count++] = (struct kiln_cover){use->lora, hit->span};
        }
    }
}

static bool covered(const struct kiln_router_reader *reader, uint32_t lora, struct kiln_span span)
{
    for (size_t i = 0; i < reader->cover_count; i++)
        if (reader->covers[i].lora == lora && kiln_spans_meet(reader->covers[i].span, span))
            return true;
    return false;
}

bool kiln_router_has(const struct kiln_router *router, uint32_t lora, uint32_t number)
{
    const struct kiln_phrase *phrase = &router->phrases[number];
    uint32_t low = phrase->use, high = phrase->use + phrase->use_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (router->uses[middle].lora < lora)
            low = middle + 1;
        else
            high = middle;
    }
    return low < phrase->use + phrase->use_count && router->uses[low].lora == lora &&
           router->uses[low].role <= KILN_ROLE_KEYWORD;
}

/* What one hit says of one LoRA that has its phrase as a trigger or a keyword. */
static void weigh(struct kiln_router_reader *reader, const struct kiln_hit *hit,
                  const struct kiln_use *use, const struct kiln_router_pool *pool)
{
    const struct kiln_router *router = reader->router;
    const struct kiln_phrase *phrase = &router->phrases[hit->phrase];
    const bool trigger = use->role == KILN_ROLE_TRIGGER;
    if (use->bare && !hit->denied && !hit->certain)
        return;
    struct kiln_candidate *c = kiln_router_candidate(reader, use->lora, pool);
    if (!c)
        return;
    if (trigger && hit->exact && !hit->denied && !hit->scene) {
        c->has_trigger = true;
        c->has_first |= use->first;
    }
    if (phrase->empty)
        return;
    if (hit->denied) {
        c->barred |= hit->exact && (trigger || use->weight * hit->share >= DENIED_LEAST * 1000);
        return;
    }
    const enum kiln_lora_category category = router->loras[use->lora].category;
    const bool look = category == KILN_LORA_STYLE || category == KILN_LORA_EFFECT;
    const bool strong = trigger && hit->exact && phrase->count > 1 && !hit->scene;
    int asks = !look || strong ? 1000 : hit->look;
    if (asks == 0 || (!strong && covered(reader, use->lora, hit->span))) {
        c->thing = true;
        return;
    }
    if (hit->inside != UINT32_MAX && !kiln_router_has(router, use->lora, hit->inside))
        asks = asks * INSIDE / 1000;
    const int share = hit->share * hit->share / 1000 * hit->share / 1000;
    const int k = use->weight * share / 1000 * asks / 1000, t = trigger && hit->exact ? asks : 0;
    const bool better = t > c->t || (c->t == 0 && t == 0 && k > c->k) || c->phrase == UINT32_MAX;
    if (better) {
        c->phrase = hit->phrase;
        c->by_trigger = t > 0;
    }
    c->t = t > c->t ? t : c->t;
    c->k = k > c->k ? k : c->k;
}

static void weigh_hits(struct kiln_router_reader *reader, const struct kiln_router_pool *pool)
{
    const struct kiln_router *router = reader->router;
    for (int round = 0; round < 2; round++) /* exclusions matter to candidates alone */
        for (size_t h = 0; h < reader->hit_count; h++) {
            const struct kiln_hit *hit = &reader->hits[h];
            const struct kiln_phrase *phrase = &router->phrases[hit->phrase];
            if (used_up(&reader->tokens, hit->span))
                continue;
            for (uint32_t u = 0; u < phrase->use_count; u++) {
                const struct kiln_use *use = &router->uses[phrase->use + u];
                if (round == 0 && use->role <= KILN_ROLE_KEYWORD)
                    weigh(reader, hit, use, pool);
                else if (round == 1 && use->role == KILN_ROLE_ANTONYM && !hit->denied &&
                         reader->candidate_of[use->lora])
                    reader->candidates[reader->candidate_of[use->lora] - 1].n = 1000;
            }
        }
}

/* Whether the token's word counts: once, and where it is wanted. */
static bool counts(const struct kiln_route_tokens *tokens, size_t i)
{
    const struct kiln_route_token *token = &tokens->at[i];
    if (token->mark != KILN_MARK_NONE || token->used)
        return false;
    for (size_t j = i > AGAIN ? i - AGAIN : 0; j < i; j++)
        if (tokens->at[j].stem == token->stem && tokens->at[j].mark == KILN_MARK_NONE)
            return false;
    return true;
}

/* BM25F: of the candidates, and where words alone may be enough, of every LoRA that shares a word
 * with the prompt. */
static void add_words(struct kiln_router_reader *reader, const struct kiln_router_pool *pool,
                      bool all)
{
    const struct kiln_router *router = reader->router;
    for (size_t i = 0; i < reader->tokens.count && (all || reader->candidate_count > 0); i++) {
        const uint32_t *list = kiln_map_get(&router->words, reader->tokens.at[i].stem);
        const struct kiln_posting *p = list ? router->postings + *list : NULL;
        while (p && p->lora != UINT32_MAX && !all && !reader->candidate_of[p->lora])
            p++;
        if (!p || p->lora == UINT32_MAX || !counts(&reader->tokens, i))
            continue; /* nobody's word that matters, or one that does not count */
        for (; p->lora != UINT32_MAX; p++)
            if (all || reader->candidate_of[p->lora]) {
                struct kiln_candidate *c = kiln_router_candidate(reader, p->lora, pool);
                if (c)
                    c->b += (int)p->impact;
            }
    }
    for (size_t i = 0; i < reader->candidate_count; i++) {
        struct kiln_candidate *c = &reader->candidates[i];
        c->b = (int)(1000LL * c->b / (c->b + B_HALF));
    }
}

/* Who wrote a trigger wants that LoRA first, whatever else the prompt speaks of. */
bool kiln_candidate_before(const struct kiln_candidate *a, const struct kiln_candidate *b)
{
    if ((a->t >= 1000) != (b->t >= 1000))
        return a->t >= 1000;
    return a->z != b->z ? a->z > b->z : a->lora < b->lora; /* which is by name */
}

/* Whether one of the candidates may be chosen by its words. */
static bool words_choose(const struct kiln_router_reader *reader)
{
    for (size_t i = 0; i < reader->candidate_count; i++) {
        const struct kiln_candidate *c = &reader->candidates[i];
        if (!c->barred && c->z >= (c->t >= 1000 ? KILN_Z_LEAST_TRIGGER : KILN_Z_LEAST))
            return true;
    }
    return false;
}

void kiln_router_score(struct kiln_router_reader *reader, const struct kiln_router_pool *pool,
                       const struct kiln_router_weights *w)
{
    reader->candidate_count = 0;
    find_covers(reader);
    weigh_hits(reader, pool);
    add_words(reader, pool, w->bias + w->b >= KILN_Z_LEAST_TRIGGER);
    for (size_t i = 0; i < reader->candidate_count; i++) {
        struct kiln_candidate *c = &reader->candidates[i];
        c->k = c->k > c->t ? c->k : 0; /* a trigger is a phrase too, and counts once */
        c->z = w->bias + (int)(((int64_t)w->t * c->t + (int64_t)w->k * c->k + (int64_t)w->b * c->b +
                                (int64_t)w->n * c->n) /
                               1000);
        if (c->t == 0)
            c->z += reader->router->loras[c->lora].bias;
    }
    if (reader->router->meaning && !words_choose(reader))
        kiln_router_add_meaning(reader, pool);
    for (size_t i = 0; i < reader->candidate_count; i++)
        reader->candidate_of[reader->candidates[i].lora] = 0;
}
