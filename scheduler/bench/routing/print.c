/* print.c - the tables of `kiln bench routing`: how well each part of the evidence finds LoRAs, and
 * the risk at thresholds. */
#include <stdio.h>

#include "scheduler/bench/routing/routing.h"

static json_t *share_json(const struct kiln_routing_share *s)
{
    return json_pack("{s:f, s:f, s:f, s:I}", "value", s->value, "low", s->low, "high", s->high,
                     "prompts", (json_int_t)s->count);
}

static void print_json(const struct kiln_cli *cli, const struct kiln_routing_row *row)
{
    const struct kiln_routing_result *r = &row->result;
    json_t *kinds = json_object(), *thresholds = json_array();
    for (int k = 0; k < KILN_ROUTING_KINDS; k++)
        (void)json_object_set_new(kinds, kiln_routing_kinds[k],
                                  json_pack("{s:o, s:o, s:o}", "top1", share_json(&r->top[k]), "f1",
                                            share_json(&r->f1[k]), "false",
                                            share_json(&r->none[k])));
    for (int t = 0; t < KILN_ROUTING_THRESHOLDS; t++)
        (void)json_array_append_new(thresholds, json_pack("{s:f, s:o, s:o}", "p",
                                                          kiln_routing_thresholds[t] / 1000.0,
                                                          "routed", share_json(&r->routed[t]),
                                                          "wrong", share_json(&r->wrong[t])));
    (void)kiln_print_json(
        cli, json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:[f,f,f], s:f, s:f}",
                       "bench", "routing", "part", row->part, "evidence", row->evidence, "kinds",
                       kinds, "top1", share_json(&r->top_all), "f1", share_json(&r->f1_all),
                       "quoted", share_json(&r->unwanted[KILN_ROUTING_QUOTED]), "denied",
                       share_json(&r->unwanted[KILN_ROUTING_DENIED]), "thresholds", thresholds,
                       "risk", r->risk[0], r->risk[1], r->risk[2], "aurc", r->aurc, "ece", r->ece));
}

/* A share in percent, and one limit of its interval, each in its width; "-" of no prompts. */
static void print_share(const struct kiln_routing_share *s, bool limit)
{
    char text[32] = "-";
    if (s->count > 0 && limit)
        snprintf(text, sizeof text, "%.1f [%.1f]", 100 * s->value, 100 * s->high);
    else if (s->count > 0)
        snprintf(text, sizeof text, "%.1f", 100 * s->value);
    printf(limit ? " %11s" : " %6s", text);
}

static void print_row(const struct kiln_routing_row *row)
{
    const struct kiln_routing_result *r = &row->result;
    const struct kiln_routing_share *top = &r->top[KILN_ROUTING_MEANING],
                                    *f1 = &r->f1[KILN_ROUTING_MEANING],
                                    *team = &r->f1[KILN_ROUTING_TEAM];
    char meaning[64] = "-", its[64] = "-", teams[16] = "-";
    if (top->count > 0)
        snprintf(meaning, sizeof meaning, "%.1f [%.0f-%.0f]", 100 * top->value, 100 * top->low,
                 100 * top->high);
    if (f1->count > 0)
        snprintf(its, sizeof its, "%.3f [%.3f-%.3f]", f1->value, f1->low, f1->high);
    if (team->count > 0)
        snprintf(teams, sizeof teams, "%.3f", team->value);
    printf("%-6s %-16s", row->part, row->evidence);
    print_share(&r->top[KILN_ROUTING_TRIGGER], false);
    printf(" %15s %19s", meaning, its);
    print_share(&r->top[KILN_ROUTING_PARA], false);
    printf(" %5s", teams);
    print_share(&r->top[KILN_ROUTING_SCRIPT], false);
    print_share(&r->none[KILN_ROUTING_PLAIN], true);
    print_share(&r->none[KILN_ROUTING_HARD], true);
    print_share(&r->unwanted[KILN_ROUTING_QUOTED], true);
    print_share(&r->unwanted[KILN_ROUTING_DENIED], true);
    printf("\n");
}

/* Shares of all prompts that get a LoRA at each threshold of p, and of those the wrong ones. */
static void print_risk(const struct kiln_routing_row *row)
{
    const struct kiln_routing_result *r = &row->result;
    printf("%-6s %-16s", row->part, row->evidence);
    for (int t = 0; t < KILN_ROUTING_THRESHOLDS; t++) {
        char text[64];
        const struct kiln_routing_share *wrong = &r->wrong[t];
        int len = snprintf(text, sizeof text, "%.1f / ", 100 * r->routed[t].value);
        if (wrong->count > 0)
            snprintf(text + len, sizeof text - (size_t)len, "%.1f [%.1f-%.1f]", 100 * wrong->value,
                     100 * wrong->low, 100 * wrong->high);
        else
            snprintf(text + len, sizeof text - (size_t)len, "-");
        printf(" %23s", text);
    }
    printf("  %4.1f/%4.1f/%4.1f  %.3f %.3f\n", 100 * r->risk[0], 100 * r->risk[1], 100 * r->risk[2],
           r->aurc, r->ece);
}

void kiln_routing_print(const struct kiln_cli *cli, const struct kiln_routing_row *rows,
                        size_t count)
{
    for (size_t i = 0; i < count && cli->json; i++)
        print_json(cli, &rows[i]);
    if (cli->json)
        return;
    printf("%-6s %-16s %6s %15s %19s %6s %5s %6s %11s %11s %11s %11s\n", "part", "evidence", "trig",
           "meaning [95 %]", "its F1 [95 %]", "para", "team", "other", "plain [to]", "hard [to]",
           "quoted [to]", "denied [to]");
    for (size_t i = 0; i < count; i++)
        print_row(&rows[i]);
    printf("\n%-6s %-16s", "part", "routed / wrong");
    for (int t = 0; t < KILN_ROUTING_THRESHOLDS; t++) {
        char text[32];
        snprintf(text, sizeof text, "p >= %.1f [95 %%]", kiln_routing_thresholds[t] / 1000.0);
        printf(" %23s", text);
    }
    printf("  risk 50/70/90    AURC   ECE\n");
    for (size_t i = 0; i < count; i++)
        if (rows[i].result.top_all.count > 0) /* some of its prompts want a LoRA */
            print_risk(&rows[i]);
    printf("\n");
}
