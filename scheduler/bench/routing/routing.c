/* routing.c - `kiln bench routing`: how well prompts find their LoRAs, on labelled prompts
 * (tests/quality/routing), and what a route costs.
 *
 * Each row of the table fits its weights on dev.jsonl and is measured on another part, so that a
 * part of the evidence alone is as good as it can be.  The last row has the weights of the program.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/bench/bench.h"
#include "scheduler/bench/routing/routing.h"
#include "scheduler/cli/lora/open.h"

#define JOBS 1000
#define SET_DEFAULT "tests/quality/routing"

struct variant {
    const char *name;
    unsigned parts;
};
static const struct variant variants[] = {{"trigger", KILN_PART_T},
                                          {"keywords", KILN_PART_K},
                                          {"bm25", KILN_PART_B},
                                          {"trigger+bm25", KILN_PART_T | KILN_PART_B},
                                          {"trigger+keywords", KILN_PART_T | KILN_PART_K},
                                          {"all", KILN_PART_ALL}};
static const char *const parts[] = {"dev", "test", "sealed"};
static const size_t sizes[] = {100, 1000, 10000};

struct opened {
    char path[PATH_MAX];
    struct kiln_lexicon *lexicon;
    struct kiln_router *router;
    struct kiln_router_pool pool;
    struct kiln_routing_set sets[3];
};

static int open_set(const char *dir, struct opened *o, struct kiln_error *err)
{
    char path[PATH_MAX];
    o->pool = (struct kiln_router_pool){.base = "z-image", .variant = "turbo"};
    snprintf(o->path, sizeof o->path, "%.*s/loras.json", PATH_MAX - 32, dir);
    int rc = kiln_loras_open(o->path, &o->lexicon, &o->router, err);
    for (int i = 0; i < 3 && !rc; i++) {
        snprintf(path, sizeof path, "%.*s/%s.jsonl", PATH_MAX - 32, dir, parts[i]);
        rc = kiln_routing_read(path, o->router, &o->sets[i], err);
    }
    return rc;
}

static void close_set(struct opened *o)
{
    for (int i = 0; i < 3; i++)
        kiln_routing_release(&o->sets[i]);
    kiln_router_free(o->router);
    kiln_lexicon_free(o->lexicon);
}

static json_t *share_json(const struct kiln_routing_share *s)
{
    return json_pack("{s:f, s:f, s:f, s:I}", "value", s->value, "low", s->low, "high", s->high,
                     "prompts", (json_int_t)s->count);
}

static void print_row(const struct kiln_bench *bench, const char *part, const char *name,
                      const struct kiln_routing_result *r)
{
    const struct kiln_routing_share *top = &r->top[KILN_ROUTING_MEANING],
                                    *f1 = &r->f1[KILN_ROUTING_MEANING],
                                    *plain = &r->none[KILN_ROUTING_PLAIN],
                                    *hard = &r->none[KILN_ROUTING_HARD];
    if (!bench->cli->json) {
        printf("%-6s %-16s %5.1f  %5.1f [%3.0f-%3.0f]  %5.3f [%5.3f-%5.3f] %5.1f %5.3f %5.1f  "
               "%4.1f [%4.1f]  %4.1f [%4.1f]  %4.1f/%.1f/%.1f  %.3f %.3f\n",
               part, name, 100 * r->top[KILN_ROUTING_TRIGGER].value, 100 * top->value,
               100 * top->low, 100 * top->high, f1->value, f1->low, f1->high,
               100 * r->top[KILN_ROUTING_PARA].value, r->f1[KILN_ROUTING_TEAM].value,
               100 * r->top[KILN_ROUTING_SCRIPT].value, 100 * plain->value, 100 * plain->high,
               100 * hard->value, 100 * hard->high, 100 * r->risk[0], 100 * r->risk[1],
               100 * r->risk[2], r->aurc, r->ece);
        return;
    }
    json_t *kinds = json_object();
    for (int k = 0; k < KILN_ROUTING_KINDS; k++)
        (void)json_object_set_new(kinds, kiln_routing_kinds[k],
                                  json_pack("{s:o, s:o, s:o}", "top1", share_json(&r->top[k]), "f1",
                                            share_json(&r->f1[k]), "false",
                                            share_json(&r->none[k])));
    (void)kiln_print_json(
        bench->cli, json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:[f,f,f], s:f, s:f}", "bench",
                              "routing", "part", part, "evidence", name, "kinds", kinds, "top1",
                              share_json(&r->top_all), "f1", share_json(&r->f1_all), "risk",
                              r->risk[0], r->risk[1], r->risk[2], "aurc", r->aurc, "ece", r->ece));
}

static int print_table(const struct kiln_bench *bench, const struct opened *o,
                       struct kiln_error *err)
{
    const size_t rows = sizeof variants / sizeof *variants;
    int rc = 0;
    if (!bench->cli->json)
        printf("%-6s %-16s %5s  %15s  %19s %5s %5s %5s  %11s  %11s  %14s  %5s %5s\n", "part",
               "evidence", "trig", "meaning [95 %]", "its F1 [95 %]", "para", "team", "other",
               "plain [to]", "hard [to]", "risk 50/70/90", "AURC", "ECE");
    for (int part = 0; part < 3 && !rc; part++)
        for (size_t v = 0; v <= rows && !rc; v++) {
            struct kiln_router_weights weights = kiln_router_weights;
            struct kiln_routing_result result;
            if (v < rows)
                rc = kiln_routing_fit(o->router, &o->pool, &o->sets[0], variants[v].parts, &weights,
                                      err);
            rc = rc ? rc
                    : kiln_routing_measure(o->router, &o->pool, &o->sets[part], &weights, &result,
                                           err);
            if (!rc)
                print_row(bench, parts[part], v < rows ? variants[v].name : "shipped", &result);
        }
    return rc;
}

static int print_costs(const struct kiln_bench *bench, const struct opened *o,
                       struct kiln_error *err)
{
    double changed, us, build_ms;
    size_t found, labels;
    int rc = kiln_routing_sets(o->router, &o->pool, o->sets, 3, JOBS, &found, &labels, err);
    if (rc)
        return rc;
    if (bench->cli->json)
        (void)kiln_print_json(bench->cli,
                              json_pack("{s:s, s:I, s:I, s:I}", "bench", "routing", "jobs",
                                        (json_int_t)JOBS, "sets", (json_int_t)found,
                                        "sets_of_labels", (json_int_t)labels));
    else
        printf("%d jobs drawn from all prompts have %zu LoRA sets; their labels ask for %zu\n",
               JOBS, found, labels);
    rc = kiln_routing_one_more(o->path, o->lexicon, &o->pool, &o->sets[1], &changed, err);
    if (rc)
        return rc;
    if (bench->cli->json)
        (void)kiln_print_json(
            bench->cli, json_pack("{s:s, s:f}", "bench", "routing", "changed_by_one", changed));
    else
        printf("one more LoRA changes %.2f %% of the routes that do not ask for it\n",
               100 * changed);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !rc; i++) {
        rc = kiln_routing_speed(o->path, o->lexicon, &o->pool, &o->sets[1], sizes[i], &us,
                                &build_ms, err);
        if (!rc && bench->cli->json)
            (void)kiln_print_json(bench->cli,
                                  json_pack("{s:s, s:I, s:f, s:f}", "bench", "routing", "loras",
                                            (json_int_t)sizes[i], "us", us, "build_ms", build_ms));
        else if (!rc)
            printf("%6zu LoRAs: %7.1f us a prompt of 35 words; the snapshot is built in %.0f ms\n",
                   sizes[i], us, build_ms);
    }
    return rc;
}

static int write_weights(const struct opened *o, const char *path, struct kiln_error *err)
{
    struct kiln_router_weights w;
    int rc = kiln_routing_fit(o->router, &o->pool, &o->sets[0], KILN_PART_ALL, &w, err);
    FILE *file = rc ? NULL : fopen(path, "we");
    if (!file)
        return rc ? rc : kiln_fail(err, KILN_IO, "write %s: %m", path);
    fprintf(file,
            "/* weights.h - fitted on tests/quality/routing/dev.jsonl by `kiln bench routing --fit "
            "FILE`. */\n#ifndef KILN_ROUTER_WEIGHTS_H\n#define KILN_ROUTER_WEIGHTS_H\n\n"
            "#define KILN_WEIGHT_BIAS %d\n#define KILN_WEIGHT_T %d\n#define KILN_WEIGHT_K %d\n"
            "#define KILN_WEIGHT_B %d\n#define KILN_WEIGHT_N %d\n\n#endif\n",
            w.bias, w.t, w.k, w.b, w.n);
    return fclose(file) == 0 ? 0 : kiln_fail(err, KILN_IO, "write %s: %m", path);
}

int kiln_bench_routing(struct kiln_bench *bench, struct kiln_error *err)
{
    static struct opened o;
    int rc = open_set(bench->set ? bench->set : SET_DEFAULT, &o, err);
    if (!rc && bench->fit)
        rc = write_weights(&o, bench->fit, err);
    else if (!rc && bench->wrong) {
        int part = 0;
        while (part < 2 && strcmp(parts[part], bench->wrong) != 0)
            part++;
        rc = kiln_routing_print_wrong(o.router, &o.pool, &o.sets[part], err);
    } else if (!rc) {
        rc = print_table(bench, &o, err);
        rc = rc ? rc : print_costs(bench, &o, err);
    }
    close_set(&o);
    return rc;
}
