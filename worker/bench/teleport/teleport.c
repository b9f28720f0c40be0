/* teleport.c - `kiln bench teleport`: the verb; see teleport.h. */
#include "worker/bench/teleport/teleport.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "storage/formats/card/model_card.h"
#include "worker/bench/bench.h"
#include "worker/bench/lora.h"
#include "worker/bench/measured/card.h"
#include "worker/verbs/verbs.h"

static const struct way {
    int32_t way, donors;
    const char *name;
} ways[KILN_TELEPORT_WAYS] = {
    {DIFFUSIONZ_LERP, 2, "lerp"}, {DIFFUSIONZ_SLERP, 2, "slerp"}, /* a tree of two is the same */
    {DIFFUSIONZ_LERP, 4, "lerp"}, {DIFFUSIONZ_SLERP, 4, "slerp"}, {DIFFUSIONZ_TREE, 4, "tree"},
};

static void add_combined(struct kiln_teleport_bench *bench, const struct way *way, int32_t depth)
{
    struct kiln_teleport_run *run = &bench->runs[bench->run_count++];
    *run = (struct kiln_teleport_run){
        .kind = KILN_TELEPORT_COMBINED, .depth = depth, .way = way->way, .donors = way->donors};
    snprintf(run->name, sizeof run->name, "%s %d, skip %d", way->name, way->donors, depth);
}

static void add_run(struct kiln_teleport_bench *bench, enum kiln_teleport_kind kind, int32_t depth)
{
    const int32_t left = bench->options.steps - depth;
    struct kiln_teleport_run *run = &bench->runs[bench->run_count++];
    *run = (struct kiln_teleport_run){.kind = kind, .depth = depth};
    if (kind == KILN_TELEPORT_SKIP)
        snprintf(run->name, sizeof run->name, "skip %d", depth);
    else if (kind == KILN_TELEPORT_FEWER)
        snprintf(run->name, sizeof run->name, "%d step%s", left, left == 1 ? "" : "s");
    else
        snprintf(run->name, sizeof run->name, "%s",
                 kind == KILN_TELEPORT_FULL    ? "full"
                 : kind == KILN_TELEPORT_AGAIN ? "again"
                                               : "donor");
}

static void add_coarse(struct kiln_teleport_bench *bench, const struct kiln_mode *mode)
{
    char steps[KILN_MODE_MAX];
    struct kiln_teleport_run *run = &bench->runs[bench->run_count++];
    *run = (struct kiln_teleport_run){.kind = KILN_TELEPORT_COARSE, .mode = *mode};
    snprintf(run->name, sizeof run->name, "coarse %.16s", kiln_mode_steps_text(mode, steps));
}

static void plan_runs(struct kiln_teleport_bench *bench)
{
    add_run(bench, KILN_TELEPORT_FULL, 0);
    add_run(bench, KILN_TELEPORT_AGAIN, 0);
    /* A coarse run costs half of an exact one or less: only deeper starts save anything. */
    bench->first_depth = bench->options.small ? bench->options.steps / 2 + 1 : 1;
    const struct kiln_mode *coarse = &bench->options.coarse;
    bench->end_depth =
        coarse->kind == KILN_MODE_COARSE ? (int32_t)coarse->small : bench->options.steps;
    if (!bench->options.small) /* whose pictures are of another size */
        add_run(bench, KILN_TELEPORT_DONOR, 0);
    for (int32_t depth = bench->first_depth; depth < bench->end_depth; depth++)
        add_run(bench, KILN_TELEPORT_SKIP, depth);
    for (int i = 0; i < KILN_TELEPORT_WAYS && bench->options.combine; i++)
        for (int32_t depth = 1; depth < bench->options.steps; depth++)
            add_combined(bench, &ways[i], depth);
    for (int i = 0; i < bench->options.mode_count; i++)
        add_coarse(bench, &bench->options.modes[i]);
    for (int32_t fewer = 1; fewer < bench->options.steps && !bench->options.no_fewer; fewer++)
        add_run(bench, KILN_TELEPORT_FEWER, fewer);
}

/* The pools are the first pairs of the accepted groups. */
static int plan_table(struct kiln_teleport_bench *bench, struct kiln_teleport_table *table,
                      struct kiln_bench_size size, int32_t dtype, struct kiln_error *err)
{
    const struct kiln_model_card *card = &bench->pictures.card;
    const struct kiln_teleport_pairs *pairs = &bench->pairs;
    table->dtype = dtype;
    table->size = (struct kiln_picture_size){(uint32_t)size.width, (uint32_t)size.height};
    table->donor = table->size;
    if (bench->options.small &&
        !kiln_coarse_size(table->size, card->coarse_sizes, card->coarse_size_count, &table->donor))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "--small: " KILN_MODEL_CARD " names no small size for %ux%u",
                         table->size.width, table->size.height);
    table->pairs = pairs->count;
    const size_t values = (size_t)bench->run_count * KILN_TELEPORT_MEASURES * pairs->count;
    table->values = malloc(values * sizeof *table->values);
    table->pools = calloc(pairs->count, sizeof *table->pools);
    if (!table->values || !table->pools)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the results");
    for (size_t i = 0; i < values; i++)
        table->values[i] = NAN;
    for (size_t i = 0; i < pairs->count; i++)
        if (pairs->groups[pairs->items[i].group].class != KILN_REUSE_NONE &&
            (uint64_t)pairs->items[i].rank < bench->options.pools)
            table->pools[table->pool_count++].pair = i;
    return 0;
}

static int read_pairs(struct kiln_teleport_bench *bench, struct kiln_error *err)
{
    const struct kiln_teleport_options *o = &bench->options;
    char demo[4096];
    snprintf(demo, sizeof demo, "%s/reuse/demo.tsv", o->lists ? o->lists : "");
    const char *path = o->pairs ? o->pairs : demo, *slash = strrchr(path, '/');
    bench->pairs_name = o->pairs ? (slash ? slash + 1 : path) : "demo.tsv";
    int code = kiln_teleport_pairs_read(o, path, bench->pictures.labels, bench->suffix,
                                        &bench->pairs, err);
    if (code == 0 && !kiln_file_hash(path, UINT64_MAX, bench->pairs_hash))
        code = kiln_fail(err, KILN_IO, "%s: the file cannot be read", path);
    return code;
}

static int identify_lora(struct kiln_teleport_bench *bench, struct kiln_error *err)
{
    bench->style = -1;
    if (!bench->options.lora_count)
        return 0;
    int code =
        kiln_bench_lora_identify(&bench->options.lora, bench->lora_name, bench->lora_hash, err);
    if (code == 0)
        bench->style = kiln_pictures_style(&bench->pictures, bench->lora_name, bench->suffix);
    return code;
}

/* Nothing is loaded for a report, which renders nothing, nor twice. */
static int open_model(struct kiln_teleport_bench *bench, int32_t dtype, struct kiln_error *err)
{
    const struct kiln_teleport_options *o = &bench->options;
    const DiffusionZOptions model = {
        .model_path = o->model, .device_id = o->device, .dtype = dtype, .threads = o->threads};
    return o->report ? 0 : kiln_pictures_model(&bench->pictures, &model, err);
}

static int open_bench(struct kiln_teleport_bench *bench, struct kiln_error *err)
{
    const struct kiln_teleport_options *o = &bench->options;
    json_t *card = NULL;
    kiln_measured_now(o->device, &bench->at);
    int code = o->write ? kiln_measured_card_read(o->model, &card, err) : 0;
    json_decref(card);
    code = code ? code : kiln_pictures_identify(&bench->pictures, o->model, err);
    code = code ? code : kiln_pictures_judge(&bench->pictures, o->judge, o->device, err);
    code = code ? code : identify_lora(bench, err);
    code = code ? code : read_pairs(bench, err);
    plan_runs(bench);
    for (int d = 0; d < o->dtype_count; d++) /* for each of which a model is loaded */
        for (int i = 0; i < o->size_count && code == 0; i++)
            code = plan_table(bench, &bench->tables[bench->table_count++], o->sizes[i],
                              o->dtypes[d], err);
    code = code ? code : open_model(bench, o->dtypes[0], err);
    return code ? code : kiln_teleport_records_open(bench, err);
}

static int print_card(const struct kiln_teleport_bench *bench, const json_t *card,
                      struct kiln_error *err)
{
    if (!bench->options.json) {
        kiln_teleport_card_print(card);
        return 0;
    }
    const bool good = json_dumpf(card, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6)) == 0 &&
                      putchar('\n') != EOF;
    return good ? 0 : kiln_fail(err, KILN_IO, "write the results");
}

static int print_table(const struct kiln_teleport_bench *bench,
                       const struct kiln_teleport_table *table, struct kiln_error *err)
{
    int code = kiln_teleport_print(bench, table, err);
    code = code ? code : kiln_teleport_print_combined(bench, table, err);
    code = code ? code : kiln_teleport_print_changes(bench, table, err);
    fflush(stdout);
    return code;
}

static int run_bench(struct kiln_teleport_bench *bench, struct kiln_error *err)
{
    const struct kiln_teleport_options *o = &bench->options;
    json_t *card = NULL;
    int code = 0;
    if (!o->json)
        kiln_teleport_heading(bench);
    for (int i = 0; i < bench->table_count && code == 0; i++) {
        struct kiln_teleport_table *table = &bench->tables[i];
        code = open_model(bench, table->dtype, err);
        code = code || o->report ? code : kiln_teleport_fill(bench, table, err);
        code = code || o->report ? code : kiln_teleport_fill_pools(bench, table, err);
        if (code == 0 && !o->json)
            code = print_table(bench, table, err);
    }
    code = code ? code : kiln_teleport_card(bench, &card, err);
    if (code == 0 && o->fit) {
        json_t *gate = NULL;
        code = kiln_teleport_fit(bench, &gate, err);
        if (code == 0 && json_object_set_new(card, "gate", gate) != 0)
            code = kiln_fail(err, KILN_NO_MEMORY, "no memory for the results");
    }
    if (code == 0 && o->extend) {
        code = kiln_teleport_extend(bench, card, err);
        json_decref(card);
        return code;
    }
    code = code ? code : print_card(bench, card, err);
    if (code == 0 && o->write)
        code = kiln_teleport_card_write(bench, card, err);
    json_decref(card);
    return code;
}

static void close_bench(struct kiln_teleport_bench *bench)
{
    for (int i = 0; i < bench->table_count; i++) {
        free(bench->tables[i].values);
        free(bench->tables[i].pools);
    }
    kiln_teleport_pairs_release(&bench->pairs);
    kiln_pictures_close(&bench->pictures);
    kiln_records_close(&bench->records);
    free(bench);
}

int kiln_bench_teleport(int argc, char **argv)
{
    struct kiln_error err;
    int status = EX_OK;
    struct kiln_teleport_bench *bench = calloc(1, sizeof *bench);
    if (!bench)
        return EX_OSERR;
    int code = kiln_teleport_options_read(argc, argv, &bench->options, &err);
    if (code) {
        fprintf(stderr, "kiln bench teleport: %s\n", err.text);
        status = EX_USAGE;
    } else if (bench->options.help) {
        fputs(kiln_teleport_usage, stdout);
    } else {
        code = open_bench(bench, &err);
        code = code ? code : run_bench(bench, &err);
        status = code ? kiln_verb_fail("bench teleport", &err) : EX_OK;
    }
    close_bench(bench);
    return status;
}
