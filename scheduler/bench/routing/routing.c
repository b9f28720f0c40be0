/* routing.c - `kiln bench routing`: how well prompts find their LoRAs, on labelled prompts
 * (tests/quality/routing), and what a route costs.
 *
 * Each row of the table fits its weights on dev.jsonl and is measured on another part, so that a
 * part of the evidence alone is as good as it can be.  The last row has the weights of the program.
 * With --embedder, rows follow that also use its vectors; those before them use words alone.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/bench/bench.h"
#include "scheduler/bench/routing/routing.h"
#include "scheduler/cli/lora/open.h"
#include "scheduler/embedding/loras.h"

#define JOBS 1000
#define SET_DEFAULT "tests/quality/routing"

struct variant {
    const char *name;
    unsigned parts; /* 0: the weights of the program */
};
static const struct variant variants[] = {{"trigger", KILN_PART_T},
                                          {"keywords", KILN_PART_K},
                                          {"bm25", KILN_PART_B},
                                          {"trigger+bm25", KILN_PART_T | KILN_PART_B},
                                          {"trigger+keywords", KILN_PART_T | KILN_PART_K},
                                          {"all", KILN_PART_ALL},
                                          {"shipped", 0}};
/* With an embedder: no words at all; the program's words, and meaning where they choose nothing. */
static const struct kiln_router_weights no_words = {.bias = -100000};
static const char *const parts[] = {"dev", "test", "sealed"};
static const size_t sizes[] = {100, 1000, 10000};

struct opened {
    char path[PATH_MAX];
    struct kiln_lexicon *lexicon;
    struct kiln_router *router;
    struct kiln_embedding_model *embedder; /* NULL: none */
    struct kiln_desk *desk;
    struct kiln_router *nearer; /* the same LoRAs with their vectors */
    struct kiln_lexicon *lexicon_of_nearer;
    struct kiln_routing_under_test words, meaning;
    struct kiln_routing_set sets[3];
};

static int open_set(const char *dir, struct opened *o, struct kiln_error *err)
{
    char path[PATH_MAX];
    snprintf(o->path, sizeof o->path, "%.*s/loras.json", PATH_MAX - 32, dir);
    int rc = kiln_loras_open(o->path, &o->lexicon, &o->router, err);
    for (int i = 0; i < 3 && !rc; i++) {
        snprintf(path, sizeof path, "%.*s/%s.jsonl", PATH_MAX - 32, dir, parts[i]);
        rc = kiln_routing_read(path, o->router, &o->sets[i], err);
    }
    o->words = (struct kiln_routing_under_test){.router = o->router,
                                                .pool = {.base = "z-image", .variant = "turbo"}};
    return rc;
}

static void close_set(struct opened *o)
{
    for (int i = 0; i < 3; i++)
        kiln_routing_release(&o->sets[i]);
    kiln_router_free(o->router);
    kiln_router_free(o->nearer);
    kiln_desk_close(o->desk);
    kiln_embedding_model_close(o->embedder);
    kiln_lexicon_free(o->lexicon_of_nearer);
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

/* The weights of one row of the table: fitted on dev.jsonl, or those of the program. */
static int print_variant(const struct kiln_bench *bench, const struct opened *o,
                         const struct kiln_routing_under_test *of, const struct variant *variant,
                         struct kiln_error *err)
{
    struct kiln_router_weights weights = kiln_router_weights;
    int rc = variant->parts ? kiln_routing_fit(of, &o->sets[0], variant->parts, &weights, err) : 0;
    for (int part = 0; part < 3 && !rc; part++) {
        struct kiln_routing_result result;
        rc = kiln_routing_measure(of, &o->sets[part], &weights, &result, err);
        if (!rc)
            print_row(bench, parts[part], variant->name, &result);
    }
    return rc;
}

/* The same with an embedder behind such words. */
static int print_meaning(const struct kiln_bench *bench, const struct opened *o, const char *name,
                         const struct kiln_router_weights *words, struct kiln_error *err)
{
    const struct kiln_routing_under_test *of = &o->meaning;
    int rc = kiln_routing_fit_meaning(of, &o->sets[0], words, &of->router->meaning->weights, err);
    for (int part = 0; part < 3 && !rc; part++) {
        struct kiln_routing_result result;
        rc = kiln_routing_measure(of, &o->sets[part], words, &result, err);
        if (!rc)
            print_row(bench, parts[part], name, &result);
    }
    return rc;
}

static int print_table(const struct kiln_bench *bench, const struct opened *o,
                       struct kiln_error *err)
{
    int rc = 0;
    if (!bench->cli->json)
        printf("%-6s %-16s %5s  %15s  %19s %5s %5s %5s  %11s  %11s  %14s  %5s %5s\n", "part",
               "evidence", "trig", "meaning [95 %]", "its F1 [95 %]", "para", "team", "other",
               "plain [to]", "hard [to]", "risk 50/70/90", "AURC", "ECE");
    for (size_t v = 0; v < sizeof variants / sizeof *variants && !rc; v++)
        rc = print_variant(bench, o, &o->words, &variants[v], err);
    if (rc || !o->embedder)
        return rc;
    rc = print_meaning(bench, o, "embedder", &no_words, err);
    return rc ? rc : print_meaning(bench, o, "words+embedder", &kiln_router_weights, err);
}

static int print_costs(const struct kiln_bench *bench, const struct opened *o,
                       const struct kiln_routing_under_test *of, struct kiln_error *err)
{
    const char *by = of->embedder ? bench->embedder : "none";
    const size_t size_count = of->embedder ? 2 : sizeof sizes / sizeof *sizes;
    double changed, us, build_ms;
    size_t found, labels;
    int rc = kiln_routing_sets(of, o->sets, 3, JOBS, &found, &labels, err);
    if (rc)
        return rc;
    if (bench->cli->json)
        (void)kiln_print_json(bench->cli,
                              json_pack("{s:s, s:s, s:I, s:I, s:I}", "bench", "routing", "embedder",
                                        by, "jobs", (json_int_t)JOBS, "sets", (json_int_t)found,
                                        "sets_of_labels", (json_int_t)labels));
    else
        printf("embedder %s: %d jobs drawn from all prompts have %zu LoRA sets; their labels ask "
               "for %zu\n",
               by, JOBS, found, labels);
    rc = kiln_routing_one_more(o->path, o->lexicon, of, &o->sets[1], &changed, err);
    if (rc)
        return rc;
    if (bench->cli->json)
        (void)kiln_print_json(bench->cli, json_pack("{s:s, s:s, s:f}", "bench", "routing",
                                                    "embedder", by, "changed_by_one", changed));
    else
        printf("one more LoRA changes %.2f %% of the routes that do not ask for it\n",
               100 * changed);
    for (size_t i = 0; i < size_count && !rc; i++) {
        rc =
            kiln_routing_speed(o->path, o->lexicon, of, &o->sets[1], sizes[i], &us, &build_ms, err);
        if (!rc && bench->cli->json)
            (void)kiln_print_json(bench->cli,
                                  json_pack("{s:s, s:s, s:I, s:f, s:f}", "bench", "routing",
                                            "embedder", by, "loras", (json_int_t)sizes[i], "us", us,
                                            "build_ms", build_ms));
        else if (!rc)
            printf("%6zu LoRAs: %7.1f us a prompt of 35 words%s; the snapshot is built in %.0f "
                   "ms\n",
                   sizes[i], us, of->embedder ? ", its vectors ready" : "", build_ms);
    }
    return rc;
}

static int write_weights(const struct opened *o, const char *path, struct kiln_error *err)
{
    struct kiln_router_weights w;
    if (o->embedder) {
        const struct kiln_meaning_weights *fitted = &o->nearer->meaning->weights;
        int unfit = kiln_embedding_weights_check(fitted, "the fit", err);
        return unfit ? unfit
                     : kiln_embedding_weights_write(path, kiln_embedding_model_recipe(o->embedder),
                                                    fitted, err);
    }
    int rc = kiln_routing_fit(&o->words, &o->sets[0], KILN_PART_ALL, &w, err);
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

/* A second snapshot of the same LoRAs, with vectors, and weights that are fitted for them. */
static int open_meaning(const struct kiln_bench *bench, struct opened *o, struct kiln_error *err)
{
    struct kiln_lexicon *same = NULL;
    int rc = kiln_routing_embedder(
        bench->embedder, kiln_config_text(bench->cli->config, KILN_KEY_MODEL), &o->embedder, err);
    rc = rc ? rc : kiln_loras_open(o->path, &same, &o->nearer, err);
    o->lexicon_of_nearer = same;
    rc = rc ? rc : kiln_embedding_loras(o->embedder, o->nearer, NULL, NULL, NULL, err);
    rc = rc ? rc : kiln_desk_open(o->embedder, &o->desk, err);
    o->meaning = (struct kiln_routing_under_test){
        .router = o->nearer, .embedder = o->embedder, .desk = o->desk, .pool = o->words.pool};
    return rc ? rc
              : kiln_routing_fit_meaning(&o->meaning, &o->sets[0], &kiln_router_weights,
                                         &o->nearer->meaning->weights, err);
}

static int run(const struct kiln_bench *bench, const struct opened *o, struct kiln_error *err)
{
    const struct kiln_routing_under_test *of = o->embedder ? &o->meaning : &o->words;
    if (bench->fit)
        return write_weights(o, bench->fit, err);
    if (bench->wrong) {
        int part = 0;
        while (part < 2 && strcmp(parts[part], bench->wrong) != 0)
            part++;
        return kiln_routing_print_wrong(of, &o->sets[part], err);
    }
    int rc = print_table(bench, o, err);
    rc = rc ? rc : print_costs(bench, o, &o->words, err);
    return rc || !o->embedder ? rc : print_costs(bench, o, &o->meaning, err);
}

int kiln_bench_routing(struct kiln_bench *bench, struct kiln_error *err)
{
    static struct opened o;
    int rc = open_set(bench->set ? bench->set : SET_DEFAULT, &o, err);
    if (!rc && bench->embedder && strcmp(bench->embedder, "none") != 0)
        rc = open_meaning(bench, &o, err);
    rc = rc ? rc : run(bench, &o, err);
    close_set(&o);
    return rc;
}
