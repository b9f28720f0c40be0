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
#include <unistd.h>

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
#define VARIANTS (sizeof variants / sizeof *variants)
/* With an embedder: no words at all; the program's words, and meaning where they choose nothing. */
static const struct kiln_router_weights no_words = {.bias = -100000};
/* LoRA sets are counted on the first three, whose prompts are such as people write. */
enum { WRITTEN = 3, PARTS };
static const char *const parts[PARTS] = {"dev", "test", "sealed", "named"};
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
    struct kiln_routing_set sets[PARTS];
};

static int open_set(const char *dir, struct opened *o, struct kiln_error *err)
{
    char path[PATH_MAX];
    snprintf(o->path, sizeof o->path, "%.*s/loras.json", PATH_MAX - 32, dir);
    int rc = kiln_loras_open(o->path, &o->lexicon, &o->router, err);
    for (int i = 0; i < PARTS && !rc; i++) {
        snprintf(path, sizeof path, "%.*s/%s.jsonl", PATH_MAX - 32, dir, parts[i]);
        rc = kiln_routing_read(path, o->router, &o->sets[i], err);
    }
    o->words = (struct kiln_routing_under_test){.router = o->router,
                                                .pool = {.base = "z-image", .variant = "turbo"}};
    return rc;
}

static void close_set(struct opened *o)
{
    for (int i = 0; i < PARTS; i++)
        kiln_routing_release(&o->sets[i]);
    kiln_router_free(o->router);
    kiln_router_free(o->nearer);
    kiln_desk_close(o->desk);
    kiln_embedding_model_close(o->embedder);
    kiln_lexicon_free(o->lexicon_of_nearer);
    kiln_lexicon_free(o->lexicon);
}

struct table {
    struct kiln_routing_row at[(VARIANTS + 2) * PARTS];
    size_t count;
};

/* The weights of one row of the table: fitted on dev.jsonl, or those of the program. */
static int add_variant(const struct opened *o, const struct kiln_routing_under_test *of,
                       const struct variant *variant, struct table *table, struct kiln_error *err)
{
    struct kiln_router_weights weights = kiln_router_weights;
    int rc = variant->parts ? kiln_routing_fit(of, &o->sets[0], variant->parts, &weights, err) : 0;
    for (int part = 0; part < PARTS && !rc; part++) {
        struct kiln_routing_row *row = &table->at[table->count++];
        *row = (struct kiln_routing_row){.part = parts[part], .evidence = variant->name};
        rc = kiln_routing_measure(of, &o->sets[part], &weights, &row->result, err);
    }
    return rc;
}

/* The same with an embedder behind such words. */
static int add_meaning(const struct opened *o, const char *name,
                       const struct kiln_router_weights *words, struct table *table,
                       struct kiln_error *err)
{
    const struct kiln_routing_under_test *of = &o->meaning;
    int rc = kiln_routing_fit_meaning(of, &o->sets[0], words, &of->router->meaning->weights, err);
    for (int part = 0; part < PARTS && !rc; part++) {
        struct kiln_routing_row *row = &table->at[table->count++];
        *row = (struct kiln_routing_row){.part = parts[part], .evidence = name};
        rc = kiln_routing_measure(of, &o->sets[part], words, &row->result, err);
    }
    return rc;
}

static int print_table(const struct kiln_bench *bench, const struct opened *o,
                       struct kiln_error *err)
{
    static struct table table;
    int rc = 0;
    for (size_t v = 0; v < VARIANTS && !rc; v++)
        rc = add_variant(o, &o->words, &variants[v], &table, err);
    if (!rc && o->embedder)
        rc = add_meaning(o, "embedder", &no_words, &table, err);
    if (!rc && o->embedder)
        rc = add_meaning(o, "words+embedder", &kiln_router_weights, &table, err);
    if (!rc)
        kiln_routing_print(bench->cli, table.at, table.count);
    return rc;
}

static int print_costs(const struct kiln_bench *bench, const struct opened *o,
                       const struct kiln_routing_under_test *of, struct kiln_error *err)
{
    const char *by = of->embedder ? bench->embedder : "none";
    const size_t size_count = of->embedder ? 2 : sizeof sizes / sizeof *sizes;
    double changed, us, build_ms;
    size_t found, labels;
    int rc = kiln_routing_sets(of, o->sets, WRITTEN, JOBS, &found, &labels, err);
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
        while (part < PARTS && strcmp(parts[part], bench->wrong) != 0)
            part++;
        if (part == PARTS)
            return kiln_fail(err, KILN_BAD_INPUT, "--wrong: dev, test, sealed or named, not '%s'",
                             bench->wrong);
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
    if (rc && !bench->set && access(SET_DEFAULT, F_OK) != 0)
        rc =
            kiln_fail(err, KILN_NOT_FOUND,
                      "there is no " SET_DEFAULT " in this directory; name the labelled prompts of "
                      "Kiln's sources: --set-dir DIR/" SET_DEFAULT);
    if (!rc && bench->embedder && strcmp(bench->embedder, "none") != 0)
        rc = open_meaning(bench, &o, err);
    rc = rc ? rc : run(bench, &o, err);
    close_set(&o);
    return rc;
}
