/* more.c - what another LoRA changes, and what a route costs among many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/bench/routing/routing.h"
#include "scheduler/embedding/loras.h"
#include "scheduler/router/lora_file.h"
#include "schemas/clock.h"
#include "storage/formats/user_file.h"

#define WORDS 35    /* of a prompt whose time is taken */
#define ROUNDS 5    /* the fastest one counts: other programs only slow it down */
#define PROMPTS 400 /* of a round */

static int read_loras(const char *path, struct kiln_router_lora **ret, size_t *ret_count,
                      struct kiln_error *err)
{
    char *text = NULL;
    size_t len;
    int rc = kiln_user_file_read(path, KILN_LORA_FILE_MAX, &text, &len, err);
    rc = rc ? rc : kiln_lora_file_read(text, len, path, ret, ret_count, err);
    free(text);
    return rc;
}

/* Appends the names and scales of a route; whether `name` is among them. */
static bool describe(const struct kiln_router *router, const struct kiln_route *route,
                     const char *name, char *out, size_t size)
{
    bool there = false;
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < route->count; i++) {
        const char *picked = kiln_router_lora(router, route->picks[i].lora)->name;
        at += (size_t)snprintf(out + at, size - at, "%s:%.4g+", picked, route->picks[i].scale);
        there |= strcmp(picked, name) == 0;
    }
    return there;
}

/* The vectors of its LoRAs, if there is an embedder; the weights are those of the router under
 * test.
 */
static int add_vectors(const struct kiln_routing_under_test *of, struct kiln_router *router,
                       struct kiln_embedding_loras *known, struct kiln_error *err)
{
    int rc = of->embedder ? kiln_embedding_loras(of->embedder, router, known, NULL, NULL, err) : 0;
    if (!rc && of->embedder)
        router->meaning->weights = of->router->meaning->weights;
    return rc;
}

/* The registry without LoRA `left_out`; SIZE_MAX leaves all in. */
static int build(const char *path, const struct kiln_lexicon *lexicon, size_t left_out,
                 char name[KILN_NAME_MAX + 1], struct kiln_router **ret, struct kiln_error *err)
{
    struct kiln_router_lora *loras;
    size_t count;
    int rc = read_loras(path, &loras, &count, err);
    if (rc)
        return rc;
    if (left_out < count) {
        snprintf(name, KILN_NAME_MAX + 1, "%s", loras[left_out].name);
        kiln_router_lora_release(&loras[left_out]);
        loras[left_out] = loras[--count];
    }
    return kiln_router_build(loras, count, 1, lexicon, ret, err);
}

int kiln_routing_one_more(const char *path, const struct kiln_lexicon *lexicon,
                          const struct kiln_routing_under_test *of,
                          const struct kiln_routing_set *set, double *ret_share,
                          struct kiln_error *err)
{
    struct kiln_embedding_loras *known = kiln_embedding_loras_new();
    struct kiln_routing_under_test whole = *of, fewer = *of;
    struct kiln_routing_reader with = {0};
    struct kiln_router *all = NULL;
    char name[KILN_NAME_MAX + 1] = "";
    size_t changed = 0, routes = 0;
    int rc = build(path, lexicon, SIZE_MAX, name, &all, err);
    whole.router = all;
    rc = rc ? rc : add_vectors(of, all, known, err);
    rc = rc ? rc : kiln_routing_reader_open(&whole, &with, err);
    for (size_t left = 0; !rc && left < kiln_router_count(all); left++) {
        struct kiln_router *router = NULL;
        struct kiln_routing_reader without = {0};
        rc = build(path, lexicon, left, name, &router, err);
        fewer.router = router;
        rc = rc ? rc : add_vectors(of, router, known, err);
        rc = rc ? rc : kiln_routing_reader_open(&fewer, &without, err);
        for (size_t i = 0; i < set->count && !rc; i++) {
            struct kiln_router_request request;
            struct kiln_route a, b;
            char before[512], after[512];
            rc = kiln_routing_request(&without, set->at[i].prompt, &request, err);
            rc = rc ? rc : kiln_router_route(without.reader, &request, &a, err);
            rc = rc ? rc : kiln_routing_request(&with, set->at[i].prompt, &request, err);
            rc = rc ? rc : kiln_router_route(with.reader, &request, &b, err);
            if (rc)
                break;
            (void)describe(router, &a, name, before, sizeof before);
            /* A prompt that asks for the new LoRA should change. */
            bool asked = false;
            for (size_t l = 0; l < kiln_router_count(all); l++)
                if (strcmp(kiln_router_lora(all, l)->name, name) == 0)
                    asked = kiln_routing_wanted(&set->at[i], (uint32_t)l) ||
                            kiln_routing_in(&set->at[i].may, (uint32_t)l);
            (void)describe(all, &b, name, after, sizeof after);
            if (!asked) {
                routes++;
                changed += strcmp(before, after) != 0;
            }
        }
        kiln_routing_reader_release(&without);
        kiln_router_free(router);
    }
    kiln_routing_reader_release(&with);
    kiln_router_free(all);
    kiln_embedding_loras_free(known);
    *ret_share = routes ? (double)changed / (double)routes : 0;
    return rc;
}

/* --- time ------------------------------------------------------------------------------------- */

static char *text_of(const char *text)
{
    char *copy = strdup(text ? text : "");
    return copy;
}

static bool add_one(struct kiln_texts *texts, const char *text)
{
    texts->at = calloc(1, sizeof *texts->at);
    if (texts->at && (texts->at[0] = text_of(text)))
        texts->count = 1;
    return texts->count == 1;
}

/* The file's LoRAs, and made-up ones that share the lexicon's concepts in turn. */
static int many(const char *path, const struct kiln_lexicon *lexicon, size_t count,
                struct kiln_router_lora **ret, size_t *ret_count, struct kiln_error *err)
{
    struct kiln_router_lora *loras;
    size_t have;
    int rc = read_loras(path, &loras, &have, err);
    if (rc)
        return rc;
    struct kiln_router_lora *larger = realloc(loras, (count + have) * sizeof *larger);
    bool fine = larger != NULL;
    for (loras = larger ? larger : loras; fine && have < count; have++) {
        const struct kiln_concept *concept =
            kiln_lexicon_concept(lexicon, (int32_t)(have % kiln_lexicon_count(lexicon)));
        struct kiln_router_lora *lora = &loras[have];
        char trigger[64], prose[400];
        *lora = (struct kiln_router_lora){.enabled = true, .scale = 0.8, .min = -4, .max = 4};
        snprintf(lora->name, sizeof lora->name, "made-%zu", have);
        snprintf(trigger, sizeof trigger, "mdlr%zu style", have);
        snprintf(prose, sizeof prose,
                 "%s, %s, number %zu, with soft edges, warm light and old paper",
                 concept->phrases[0].text, concept->phrases[concept->count - 1].text, have);
        lora->description = text_of(prose);
        fine = lora->description && add_one(&lora->triggers, trigger) &&
               add_one(&lora->positive, concept->phrases[have % concept->count].text);
    }
    if (!fine)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for LoRAs"); /* the bench ends */
    *ret = loras;
    *ret_count = have;
    return 0;
}

/* Prompts of the set, joined until they have WORDS words. */
static void join_prompts(const struct kiln_routing_set *set, size_t number, char *out, size_t size)
{
    size_t words = 0, at = 0;
    for (size_t i = number * 7; words < WORDS; i++) {
        const char *prompt = set->at[i % set->count].prompt;
        if (at + strlen(prompt) + 3 > size)
            return;
        at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", prompt);
        words++;
        for (const char *c = prompt; *c; c++)
            words += *c == ' ';
    }
}

int kiln_routing_speed(const char *path, const struct kiln_lexicon *lexicon,
                       const struct kiln_routing_under_test *of, const struct kiln_routing_set *set,
                       size_t count, double *ret_us, double *ret_build_ms, struct kiln_error *err)
{
    struct kiln_routing_under_test among = *of;
    struct kiln_routing_reader reader = {0};
    struct kiln_router_lora *loras = NULL;
    struct kiln_router *router = NULL;
    size_t have = 0;
    char(*prompts)[1024] = calloc(PROMPTS, sizeof *prompts);
    int rc = prompts ? many(path, lexicon, count, &loras, &have, err)
                     : kiln_fail(err, KILN_NO_MEMORY, "no memory for prompts");
    double start = kiln_ms_of(CLOCK_THREAD_CPUTIME_ID);
    rc = rc ? rc : kiln_router_build(loras, have, 1, lexicon, &router, err);
    *ret_build_ms = kiln_ms_of(CLOCK_THREAD_CPUTIME_ID) - start;
    among.router = router;
    rc = rc ? rc : add_vectors(of, router, NULL, err);
    rc = rc ? rc : kiln_routing_reader_open(&among, &reader, err);
    for (size_t i = 0; i < PROMPTS && !rc; i++)
        join_prompts(set, i, prompts[i], sizeof *prompts);
    *ret_us = 0;
    for (int round = 0; round < ROUNDS && !rc; round++) {
        double ms = 0;
        for (size_t i = 0; i < PROMPTS && !rc; i++) {
            struct kiln_router_request request;
            struct kiln_route route;
            rc = kiln_routing_request(&reader, prompts[i], &request, err);
            start = kiln_ms_of(CLOCK_THREAD_CPUTIME_ID);
            rc = rc ? rc : kiln_router_route(reader.reader, &request, &route, err);
            ms += kiln_ms_of(CLOCK_THREAD_CPUTIME_ID) - start;
        }
        const double us = ms * 1000 / PROMPTS;
        *ret_us = round == 0 || us < *ret_us ? us : *ret_us;
    }
    free(prompts);
    kiln_routing_reader_release(&reader);
    kiln_router_free(router);
    return rc;
}
