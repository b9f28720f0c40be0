/* drawn.c - what follows from a team: scales, the prompt with its triggers, the reason. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/router/index.h"
#include "schemas/text/text.h"
#include "schemas/text/utf8.h"

#define STEP 5       /* hundredths: few distinct scales, so that jobs share a LoRA set */
#define TEXT_SIZE 48 /* of a phrase in the reason, which is cut to it */

static int hundredths(double scale)
{
    return (int)lround(scale * 100);
}

/* Each recommended scale times 1, 0.8, 0.65 by the size of the team, the sum of their magnitudes at
 * most 1.2 for two and 1.5 for three, in steps of 0.05.  A LoRA's own limits come last and win over
 * all of these.  The probability does not enter: above the recommended scale the judge sees fewer
 * styles and more faults, and of two, 0.6 each show best (scripts/bench/lora_scales.py and
 * RESULTS.md). */
void kiln_route_scales(const struct kiln_router *router, struct kiln_route *route)
{
    static const int shares[] = {0, 100, 80, 65}, caps[] = {0, 0, 120, 150};
    int scales[KILN_LORAS_MAX], sum = 0;
    for (uint32_t i = 0; i < route->count; i++) {
        const struct kiln_router_lora *lora = &router->loras[route->picks[i].lora];
        scales[i] = hundredths(lora->scale) * shares[route->count] / 100;
        sum += scales[i] < 0 ? -scales[i] : scales[i];
    }
    for (uint32_t i = 0; i < route->count; i++) {
        int scale = scales[i];
        if (caps[route->count] && sum > caps[route->count])
            scale = scale * caps[route->count] / sum;
        const int sign = scale < 0 ? -1 : 1, size = scale * sign;
        /* Alone it is as its LoRA says; in a team it is rounded down, never to nothing. */
        int rounded = route->count == 1 ? size : size / STEP * STEP;
        rounded = rounded < STEP && route->count > 1 ? STEP : rounded;
        const struct kiln_router_lora *lora = &router->loras[route->picks[i].lora];
        route->picks[i].scale = fmin(fmax(sign * rounded / 100.0, lora->min), lora->max);
    }
}

static bool contains(const char *list, const char *trigger)
{
    const char *at = strstr(list, trigger);
    return at && (at == list || at[-1] == ' ') && strncmp(at + strlen(trigger), ", ", 2) == 0;
}

/* In front of the prompt, the first LoRA's trigger first; in front, nothing is within quotes. */
void kiln_route_prompt(struct kiln_router_reader *reader, const struct kiln_router_request *request,
                       const bool missing[KILN_LORAS_MAX], struct kiln_route *route)
{
    const char *prompt = request->prompt;
    size_t at = 0;
    const size_t len = strlen(prompt);
    reader->prompt[0] = '\0';
    for (uint32_t i = 0; i < route->count; i++) {
        if (!missing[i])
            continue;
        const char *trigger = reader->router->loras[route->picks[i].lora].triggers.at[0];
        if (contains(reader->prompt, trigger))
            continue;
        if (at + strlen(trigger) + 2 + len + request->around > KILN_PROMPT_MAX) {
            route->trigger_dropped = true;
            continue;
        }
        at += (size_t)snprintf(reader->prompt + at, KILN_PROMPT_MAX + 1 - at, "%s, ", trigger);
    }
    memcpy(reader->prompt + at, prompt, len + 1);
    route->prompt = reader->prompt;
}

/* One entry of the reason. */
static void add_entry(const struct kiln_router *router, const struct kiln_route_candidate *c,
                      struct kiln_text *out)
{
    const char *name = router->loras[c->lora].name;
    const int hundredths = (c->p + 5) / 10;
    const char p[] = {',',
                      (char)('0' + hundredths / 100),
                      '.',
                      (char)('0' + hundredths / 10 % 10),
                      (char)('0' + hundredths % 10),
                      ','};
    const bool chosen = c->why == KILN_ROUTE_CHOSEN;
    const char *lead = !chosen         ? kiln_route_why_name(c->why)
                       : c->by_trigger ? "trigger "
                       : c->by_meaning ? "meaning"
                       : c->text[0]    ? ""
                                       : "words";
    char words[64];
    kiln_utf8_copy(words, sizeof words, lead);
    if (chosen)
        kiln_utf8_copy(words + strlen(lead), TEXT_SIZE, c->text);
    kiln_text_puts(out, "[");
    kiln_text_json(out, name, strlen(name));
    kiln_text_add(out, p, sizeof p);
    kiln_text_json(out, words, strlen(words));
    kiln_text_puts(out, "]");
}

int kiln_route_reason(const struct kiln_router *router, struct kiln_route *route,
                      struct kiln_error *err)
{
    static const char end[] = "]}";
    struct kiln_text out = {0};
    kiln_text_puts(&out, "{\"v\":");
    kiln_text_u64(&out, router->version);
    kiln_text_puts(&out, ",\"r\":");
    kiln_text_u64(&out, KILN_ROUTER_ID);
    if (router->meaning) {
        kiln_text_puts(&out, ",\"e\":\"");
        kiln_text_puts(&out, router->meaning->id);
        kiln_text_puts(&out, "\"");
    }
    kiln_text_puts(&out, ",\"p\":[");
    const size_t head = out.len;
    for (uint32_t i = 0; i < route->shown_count; i++) {
        const struct kiln_route_candidate *c = &route->shown[i];
        const size_t before = out.len;
        if (c->why == KILN_ROUTE_WEAK || c->why == KILN_ROUTE_NAME_ONLY ||
            c->why == KILN_ROUTE_EXPLAINED)
            continue;
        if (before > head)
            kiln_text_puts(&out, ",");
        add_entry(router, c, &out);
        if (out.len + strlen(end) > KILN_ROUTER_REASON_MAX)
            out.len = before; /* it is left out */
    }
    kiln_text_add(&out, end, sizeof end); /* with its NUL */
    if (!out.failed)
        memcpy(route->reason, out.at, out.len);
    const bool failed = out.failed;
    kiln_text_release(&out);
    return failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for the reason of a route") : 0;
}
