/* team.c - the route of a prompt: the best LoRA, then the best of what its words do not explain. */
#include <stdlib.h>
#include <string.h>

#include "scheduler/router/index.h"
#include "schemas/words/marks.h"

#define SUBJECTS_MAX 2
#define TEAM_MAX KILN_LORAS_MAX

struct team {
    uint32_t loras[TEAM_MAX];
    bool by_trigger[TEAM_MAX];
    bool missing[TEAM_MAX]; /* the trigger that shall be in the prompt */
    uint32_t count;
};

const char *kiln_route_why_name(enum kiln_route_why why)
{
    static const char *const names[] = {
        [KILN_ROUTE_CHOSEN] = "chosen",       [KILN_ROUTE_WEAK] = "weak",
        [KILN_ROUTE_BARRED] = "denied",       [KILN_ROUTE_STYLE] = "style taken",
        [KILN_ROUTE_FAMILY] = "family taken", [KILN_ROUTE_CATEGORY] = "enough of its kind",
        [KILN_ROUTE_FULL] = "three chosen",   [KILN_ROUTE_NAME_ONLY] = "name not written",
        [KILN_ROUTE_EXPLAINED] = "explained"};
    return names[why];
}

/* Whether the candidate may join; why not. */
static enum kiln_route_why may_join(const struct kiln_router *router, const struct team *team,
                                    const struct kiln_candidate *c)
{
    const struct kiln_router_lora *lora = &router->loras[c->lora];
    unsigned styles = 0, subjects = 0, effects = 0, motions = 0;
    bool styles_by_trigger = true, family = false;
    for (uint32_t i = 0; i < team->count; i++) {
        const struct kiln_router_lora *other = &router->loras[team->loras[i]];
        styles += other->category == KILN_LORA_STYLE;
        styles_by_trigger &= other->category != KILN_LORA_STYLE || team->by_trigger[i];
        subjects += other->category == KILN_LORA_SUBJECT || other->category == KILN_LORA_CHARACTER;
        effects += other->category == KILN_LORA_EFFECT;
        motions += other->category == KILN_LORA_MOTION;
        family |= *lora->family && strcmp(lora->family, other->family) == 0;
    }
    if (c->barred)
        return KILN_ROUTE_BARRED;
    if (lora->category == KILN_LORA_CHARACTER && c->t == 0 && c->k < 1000)
        return KILN_ROUTE_NAME_ONLY;
    if (c->z < (c->t >= 1000 ? KILN_Z_LEAST_TRIGGER : KILN_Z_LEAST))
        return KILN_ROUTE_WEAK;
    if (team->count == TEAM_MAX)
        return KILN_ROUTE_FULL;
    if (family)
        return KILN_ROUTE_FAMILY;
    switch (lora->category) {
    case KILN_LORA_STYLE:
        return styles == 0 || (styles == 1 && styles_by_trigger && c->t >= 1000) ? KILN_ROUTE_CHOSEN
                                                                                 : KILN_ROUTE_STYLE;
    case KILN_LORA_SUBJECT:
    case KILN_LORA_CHARACTER:
        return subjects < SUBJECTS_MAX ? KILN_ROUTE_CHOSEN : KILN_ROUTE_CATEGORY;
    case KILN_LORA_EFFECT:
        return effects == 0 ? KILN_ROUTE_CHOSEN : KILN_ROUTE_CATEGORY;
    default:
        return motions == 0 ? KILN_ROUTE_CHOSEN : KILN_ROUTE_CATEGORY;
    }
}

static bool in_team(const struct team *team, uint32_t lora)
{
    for (uint32_t i = 0; i < team->count; i++)
        if (team->loras[i] == lora)
            return true;
    return false;
}

static void show(const struct kiln_router *router, const struct kiln_candidate *c,
                 enum kiln_route_why why, struct kiln_route *route)
{
    if (route->shown_count == KILN_ROUTER_SHOWN)
        return;
    route->shown[route->shown_count++] = (struct kiln_route_candidate){
        .lora = c->lora,
        .p = why == KILN_ROUTE_BARRED ? 0 : kiln_router_p(c->z),
        .t = c->t,
        .k = c->k,
        .b = c->b,
        .n = c->n,
        .c = c->c,
        .m = c->m,
        .x = c->x,
        .by_meaning = c->by_meaning,
        .why = why,
        .by_trigger = c->by_trigger,
        .text = c->by_meaning || c->phrase == UINT32_MAX ? "" : router->phrases[c->phrase].text};
}

static void join(struct kiln_router_reader *reader, const struct kiln_candidate *c,
                 struct team *team)
{
    const struct kiln_router_lora *lora = &reader->router->loras[c->lora];
    const bool has = lora->trigger_mode == KILN_TRIGGER_ONE ? c->has_first : c->has_trigger;
    team->missing[team->count] =
        lora->triggers.count > 0 && lora->trigger_mode != KILN_TRIGGER_NEVER && !has;
    team->by_trigger[team->count] = c->t >= 1000;
    team->loras[team->count++] = c->lora;
    for (size_t h = 0; h < reader->hit_count; h++) {
        const struct kiln_hit *hit = &reader->hits[h];
        if (!hit->denied && kiln_router_has(reader->router, c->lora, hit->phrase))
            for (uint32_t i = hit->span.from; i < hit->span.to; i++)
                reader->tokens.at[i].used = true;
    }
    if (reader->router->meaning)
        kiln_router_use_segments(reader, c->lora, c->by_meaning);
}

/* The best candidates, in order. */
struct best {
    struct kiln_candidate at[KILN_ROUTER_SHOWN * 2];
    size_t count;
};

static void keep_best(const struct kiln_router_reader *reader, struct best *best)
{
    const size_t room = sizeof best->at / sizeof *best->at;
    for (size_t i = 0; i < reader->candidate_count; i++) {
        const struct kiln_candidate *c = &reader->candidates[i];
        if (best->count == room && !kiln_candidate_before(c, &best->at[room - 1]))
            continue;
        size_t at = best->count < room ? best->count++ : room - 1;
        for (; at > 0 && kiln_candidate_before(c, &best->at[at - 1]); at--)
            best->at[at] = best->at[at - 1];
        best->at[at] = *c;
    }
}

/* The first round's candidates that were not chosen, the most probable first. */
static void show_rest(const struct kiln_router *router, const struct best *best,
                      const struct team *team, struct kiln_route *route)
{
    for (size_t i = 0; i < best->count && route->shown_count < KILN_ROUTER_SHOWN; i++) {
        const struct kiln_candidate *c = &best->at[i];
        if (in_team(team, c->lora))
            continue;
        const enum kiln_route_why why = may_join(router, team, c);
        show(router, c, why == KILN_ROUTE_CHOSEN ? KILN_ROUTE_EXPLAINED : why, route);
    }
}

/* The best candidate that may join, or NULL. */
static const struct kiln_candidate *next_pick(const struct kiln_router_reader *reader,
                                              const struct team *team)
{
    const struct kiln_candidate *best = NULL;
    for (size_t i = 0; i < reader->candidate_count; i++) {
        const struct kiln_candidate *c = &reader->candidates[i];
        if (c->z >= KILN_Z_LEAST_TRIGGER && (!best || kiln_candidate_before(c, best)) &&
            !in_team(team, c->lora) && may_join(reader->router, team, c) == KILN_ROUTE_CHOSEN)
            best = c;
    }
    return best;
}

int kiln_router_route(struct kiln_router_reader *reader, const struct kiln_router_request *request,
                      struct kiln_route *ret, struct kiln_error *err)
{
    const struct kiln_router *router = reader->router;
    const struct kiln_router_weights *weights =
        request->weights ? request->weights : &kiln_router_weights;
    struct best best = {.count = 0};
    const struct kiln_candidate *pick;
    struct team team = {.count = 0};
    struct kiln_route route = {.count = 0};
    int rc = kiln_router_read(reader, request, err);
    rc = rc || !router->meaning ? rc : kiln_router_compare(reader, request, err);
    if (rc)
        return rc;
    do {
        kiln_router_score(reader, &request->pool, weights);
        if (team.count == 0)
            keep_best(reader, &best);
        pick = next_pick(reader, &team);
        if (pick) {
            show(router, pick, KILN_ROUTE_CHOSEN, &route);
            join(reader, pick, &team);
        }
    } while (pick && team.count < TEAM_MAX);
    show_rest(router, &best, &team, &route);
    route.count = team.count;
    for (uint32_t i = 0; i < team.count; i++)
        route.picks[i].lora = team.loras[i];
    route.tags = reader->tokens.tags;
    kiln_route_scales(router, &route);
    kiln_route_prompt(reader, request, team.missing, &route);
    rc = kiln_route_reason(router, &route, err);
    if (!rc)
        *ret = route;
    return rc;
}
