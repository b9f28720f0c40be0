/* plan.c - which tables and runs `kiln bench coarse` has; see coarse.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/limits.h"
#include "worker/bench/coarse/coarse.h"
#include "worker/bench/lora.h"

static struct kiln_coarse_run *add(struct kiln_coarse_table *table, enum kiln_coarse_kind kind,
                                   int32_t steps, double cost)
{
    struct kiln_coarse_run *run = &table->runs[table->run_count++];
    *run = (struct kiln_coarse_run){.kind = kind, .steps = steps, .cost = cost};
    return run;
}

/* The share of a large forward that one of a smaller size costs. */
static double share(const struct kiln_coarse_table *table, struct kiln_picture_size size)
{
    return (double)size.width * size.height / ((double)table->size.width * table->size.height);
}

/* Of a coarse run, in forwards of the large size. */
static double cost_of(const struct kiln_coarse_table *table, const struct kiln_mode *mode)
{
    const double small = share(table, table->small);
    if (mode->middle == 0)
        return small * mode->small + mode->full;
    return share(table, table->smallest) * mode->small + small * mode->middle + mode->full;
}

/* Fewer steps at about the cost of the coarse runs: the most that cost no more, and one more. */
static void add_fewer(struct kiln_coarse_table *table, int32_t steps, int coarse_from,
                      int coarse_to)
{
    for (int32_t fewer = steps - 1; fewer > 0; fewer--)
        for (int i = coarse_from; i < coarse_to; i++) {
            const int32_t below = (int32_t)floor(table->runs[i].cost + 1e-9);
            if (fewer != below && fewer != below + 1)
                continue;
            struct kiln_coarse_run *run = add(table, KILN_RUN_FEWER, fewer, fewer);
            snprintf(run->name, sizeof run->name, "%d step%s", fewer, fewer == 1 ? "" : "s");
            break;
        }
}

static void fill_runs(const struct kiln_coarse_options *o, struct kiln_coarse_table *table)
{
    snprintf(add(table, KILN_RUN_EXACT, o->steps, o->steps)->name, sizeof table->runs[0].name,
             "exact");
    for (int i = 0; i < o->mode_count; i++) {
        const struct kiln_mode *mode = &o->modes[i];
        struct kiln_coarse_run *run = add(table, KILN_RUN_COARSE, o->steps, cost_of(table, mode));
        char steps[KILN_MODE_MAX];
        run->mode = *mode;
        snprintf(run->name, sizeof run->name, "%.31s", kiln_mode_steps_text(mode, steps));
    }
    const int coarse_to = table->run_count;
    if (table->lora < 0 && o->enlarge_count > 0 && !o->sheet)
        snprintf(add(table, KILN_RUN_DONOR, o->steps, share(table, table->small) * o->steps)->name,
                 sizeof table->runs[0].name, "donor");
    for (int i = 0; table->lora < 0 && i < o->enlarge_count; i++) {
        struct kiln_coarse_run *run = add(table, KILN_RUN_ENLARGE, o->steps,
                                          share(table, table->small) * o->steps + o->enlarge[i]);
        run->mode = (struct kiln_mode){.kind = KILN_MODE_START_STEP,
                                       .step = (uint32_t)(o->steps - o->enlarge[i])};
        snprintf(run->name, sizeof run->name, "enlarge %d", o->enlarge[i]);
    }
    for (int i = 0; i < o->variety_count; i++) {
        struct kiln_coarse_run *run = add(table, KILN_RUN_VARIETY, o->steps, o->steps);
        run->mode = (struct kiln_mode){.kind = KILN_MODE_EXACT, .variety = o->varieties[i]};
        snprintf(run->name, sizeof run->name, "variety %g", o->varieties[i]);
    }
    if (table->lora < 0 && !o->no_fewer)
        add_fewer(table, o->steps, 1, coarse_to);
}

static int fill_table(struct kiln_coarse *bench, struct kiln_coarse_table *table,
                      struct kiln_error *err)
{
    const struct kiln_coarse_options *o = &bench->options;
    char size[24];
    kiln_coarse_size_text(table->size, size);
    if (!kiln_coarse_size(table->size, o->small, (size_t)o->small_count, &table->small))
        return kiln_fail(err, KILN_BAD_INPUT,
                         o->small_count ? "--sizes %s: no size of --small suits it"
                                        : "--sizes %s: too small to halve",
                         size);
    for (int i = 0; i < o->mode_count; i++) {
        struct kiln_picture_size middle;
        if (o->modes[i].middle > 0 &&
            !kiln_coarse_sizes(&o->modes[i], table->size, o->small, (size_t)o->small_count,
                               &table->smallest, &middle))
            return kiln_fail(err, KILN_BAD_INPUT,
                             "--sizes %s: no size of --small suits the third level of --modes",
                             size);
    }
    table->style = -1;
    if (table->lora >= 0 && bench->pictures.labels)
        table->style =
            kiln_pictures_style(&bench->pictures, bench->lora_name[table->lora], table->suffix);
    fill_runs(o, table);
    table->prompts = bench->requests.count;
    if (o->sheet)
        return 0;
    const size_t values = (size_t)table->run_count * KILN_MEASURES * table->prompts;
    table->values = malloc(values * sizeof *table->values);
    if (!table->values)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the results");
    for (size_t i = 0; i < values; i++)
        table->values[i] = NAN;
    return 0;
}

/* A model is loaded for each dtype, and a LoRA for each of its tables: sizes come last. */
int kiln_coarse_plan(struct kiln_coarse *bench, struct kiln_error *err)
{
    const struct kiln_coarse_options *o = &bench->options;
    int code = 0;
    for (int i = 0; i < o->lora_count && code == 0; i++)
        code =
            kiln_bench_lora_identify(&o->loras[i], bench->lora_name[i], bench->lora_hash[i], err);
    if (code)
        return code;
    bench->tables = calloc(KILN_COARSE_TABLES_MAX, sizeof *bench->tables);
    if (!bench->tables)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the tables");
    for (int d = 0; d < o->dtype_count; d++)
        for (int l = -1; l < o->lora_count; l++)
            for (int s = 0; s < o->size_count && code == 0; s++) {
                struct kiln_coarse_table *table = &bench->tables[bench->table_count++];
                table->dtype = o->dtypes[d];
                table->lora = l;
                table->size = (struct kiln_picture_size){(uint32_t)o->sizes[s].width,
                                                         (uint32_t)o->sizes[s].height};
                code = fill_table(bench, table, err);
            }
    return code;
}
