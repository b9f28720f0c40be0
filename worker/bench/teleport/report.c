/* report.c - the tables of `kiln bench teleport`, as Markdown and as JSON; see teleport.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/bench/teleport/teleport.h"
#include "worker/engine/renderer.h"

/* --- a row ------------------------------------------------------------------------------------ */

/* Runs from several donors have tables of their own (combined.c). */
static bool is_single(const struct kiln_teleport_bench *bench, int run)
{
    return bench->runs[run].kind != KILN_TELEPORT_COMBINED;
}

static bool has_pair(const struct kiln_teleport_bench *bench, int group, size_t pair)
{
    return group < 0 || bench->pairs.items[pair].group == group;
}

/* What a run lost or won: against the mean of the full runs of each pair, but again against full. A
 * donor with the target's own prompt is a full run as well, and makes the error smaller where
 * pictures are much like it. */
double kiln_teleport_difference(const struct kiln_teleport_bench *bench,
                                const struct kiln_teleport_table *table, int run,
                                enum kiln_teleport_measure measure, size_t pair)
{
    const int group = bench->pairs.items[pair].group;
    const bool same = bench->pairs.groups[group].class == KILN_REUSE_SAME_PROMPT;
    const enum kiln_teleport_kind kind = bench->runs[run].kind;
    double sum = 0, count = 0;
    for (int i = 0; i < bench->run_count; i++) {
        const enum kiln_teleport_kind other = bench->runs[i].kind;
        const double value = kiln_teleport_column(table, i, measure)[pair];
        const bool full = other == KILN_TELEPORT_FULL ||
                          (other == KILN_TELEPORT_AGAIN && kind != other) ||
                          (other == KILN_TELEPORT_DONOR && same &&
                           (kind == KILN_TELEPORT_SKIP || kind == KILN_TELEPORT_COMBINED));
        if (!full || isnan(value))
            continue;
        sum += value;
        count++;
    }
    return kind == KILN_TELEPORT_FULL || count == 0
               ? NAN
               : kiln_teleport_column(table, run, measure)[pair] - sum / count;
}

int kiln_teleport_row_fill(const struct kiln_teleport_bench *bench,
                           const struct kiln_teleport_table *table, int group, int run,
                           struct kiln_teleport_row *ret, struct kiln_error *err)
{
    enum {
        VALUE,
        ASKED,
        WHOLE,
        PICTURES,
        OFF_VALUE,
        OFF_WHOLE,
        TO_FULL,
        TO_DONOR,
        AGAIN,
        FEATURES,
        FEATURES_DONOR,
        STYLED,
        OFF_STYLED,
        COLUMNS
    };
    const enum kiln_teleport_kind kind = bench->runs[run].kind;
    double *all = malloc(COLUMNS * (table->pairs + 1) * sizeof *all), *at[COLUMNS];
    if (!all)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the results");
    for (int i = 0; i < COLUMNS; i++)
        at[i] = all + (size_t)i * table->pairs;
    *ret = (struct kiln_teleport_row){0};
    size_t n = 0;
    for (size_t i = 0; i < table->pairs; i++) {
        if (!has_pair(bench, group, i) ||
            isnan(kiln_teleport_column(table, run, KILN_TELEPORT_PICTURES)[i]))
            continue;
        at[VALUE][n] = kiln_teleport_column(table, run, KILN_TELEPORT_RIGHT)[i];
        at[ASKED][n] = kiln_teleport_column(table, run, KILN_TELEPORT_ASKED)[i];
        at[WHOLE][n] = kiln_teleport_column(table, run, KILN_TELEPORT_WHOLE)[i];
        at[PICTURES][n] = kiln_teleport_column(table, run, KILN_TELEPORT_PICTURES)[i];
        at[OFF_VALUE][n] = kiln_teleport_difference(bench, table, run, KILN_TELEPORT_RIGHT, i);
        at[OFF_WHOLE][n] = kiln_teleport_difference(bench, table, run, KILN_TELEPORT_WHOLE, i);
        at[TO_FULL][n] = kiln_teleport_column(table, run, KILN_TELEPORT_TO_FULL)[i];
        at[TO_DONOR][n] = kiln_teleport_column(table, run, KILN_TELEPORT_TO_DONOR)[i];
        at[AGAIN][n] = kiln_teleport_column(table, 1, KILN_TELEPORT_TO_FULL)[i];
        at[FEATURES][n] = kiln_teleport_column(table, run, KILN_TELEPORT_FEATURES)[i];
        at[FEATURES_DONOR][n] = kiln_teleport_column(table, run, KILN_TELEPORT_FEATURES_DONOR)[i];
        at[STYLED][n] = kiln_teleport_column(table, run, KILN_TELEPORT_STYLED)[i];
        at[OFF_STYLED][n] = kiln_teleport_difference(bench, table, run, KILN_TELEPORT_STYLED, i);
        ret->asked += at[ASKED][n];
        ret->pictures += at[PICTURES][n];
        n++;
    }
    const struct kiln_estimate none = {NAN, NAN};
    ret->pairs = n;
    ret->attributes = kiln_estimate_ratio(at[VALUE], at[ASKED], n);
    ret->whole = kiln_estimate_ratio(at[WHOLE], at[PICTURES], n);
    ret->to_attributes = kiln_estimate_ratio(at[OFF_VALUE], at[ASKED], n);
    ret->to_whole = kiln_estimate_ratio(at[OFF_WHOLE], at[PICTURES], n);
    ret->style = kiln_estimate_ratio(at[STYLED], at[PICTURES], n);
    ret->to_style = kiln_estimate_ratio(at[OFF_STYLED], at[PICTURES], n);
    ret->of_full = kind == KILN_TELEPORT_FULL || kind == KILN_TELEPORT_AGAIN
                       ? none
                       : kiln_estimate_ratio(at[TO_FULL], at[AGAIN], n);
    ret->of_donor =
        kind == KILN_TELEPORT_SKIP ? kiln_estimate_ratio(at[TO_DONOR], at[AGAIN], n) : none;
    ret->features =
        kind == KILN_TELEPORT_FULL ? none : kiln_estimate_ratio(at[FEATURES], at[PICTURES], n);
    ret->features_donor = kind == KILN_TELEPORT_SKIP
                              ? kiln_estimate_ratio(at[FEATURES_DONOR], at[PICTURES], n)
                              : none;
    free(all);
    return 0;
}

double kiln_teleport_cost(const struct kiln_teleport_bench *bench,
                          const struct kiln_teleport_run *run)
{
    const int32_t steps = bench->options.steps;
    struct kiln_mode mode = run->kind == KILN_TELEPORT_COARSE ? run->mode : bench->options.coarse;
    if (mode.kind == KILN_MODE_EXACT)
        return steps - run->depth;
    mode.step = (uint32_t)run->depth;
    mode.reused = run->depth > 0;
    return kiln_mode_forwards(&mode, (uint32_t)steps);
}

/* --- variety ---------------------------------------------------------------------------------- */

/* A combination of donors and uses over the pools of a class, as a share of full runs'. */
static struct kiln_estimate varied(const struct kiln_teleport_bench *bench,
                                   const struct kiln_teleport_table *table, int group,
                                   int32_t depth, int p, int u, bool spread)
{
    double value[KILN_TELEPORT_POOLS_EACH_MAX], full[KILN_TELEPORT_POOLS_EACH_MAX];
    size_t n = 0;
    for (size_t i = 0; i < table->pool_count && n < KILN_TELEPORT_POOLS_EACH_MAX; i++) {
        const struct kiln_teleport_pool *pool = &table->pools[i];
        if (!has_pair(bench, group, pool->pair) || !pool->has[0] || !pool->has[depth])
            continue;
        value[n] = spread ? pool->skip[depth].spread[p][u] : pool->skip[depth].near[p][u];
        full[n++] = spread ? pool->full.spread[p][u] : pool->full.near[p][u];
    }
    return kiln_estimate_ratio(value, full, n);
}

static size_t pools_of(const struct kiln_teleport_bench *bench,
                       const struct kiln_teleport_table *table, int group)
{
    size_t count = 0;
    for (size_t i = 0; i < table->pool_count; i++)
        count += has_pair(bench, group, table->pools[i].pair) && table->pools[i].has[0];
    return count;
}

int kiln_teleport_found(const struct kiln_teleport_bench *bench, struct kiln_teleport_finding **ret,
                        size_t *ret_count, struct kiln_error *err)
{
    const int32_t steps = bench->options.steps;
    const size_t most = (size_t)bench->table_count * KILN_REUSE_CLASS_COUNT * (size_t)steps;
    struct kiln_teleport_finding *found = calloc(most, sizeof *found);
    size_t count = 0;
    int code = found ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for the results");
    for (int t = 0; t < bench->table_count; t++)
        for (int g = 0; g < KILN_REUSE_CLASS_COUNT - 1; g++)
            for (int run = 0; run < bench->run_count && code == 0; run++) {
                const struct kiln_teleport_table *table = &bench->tables[t];
                struct kiln_teleport_row row;
                if (bench->runs[run].kind != KILN_TELEPORT_SKIP)
                    continue;
                code = kiln_teleport_row_fill(bench, table, g, run, &row, err);
                struct kiln_teleport_finding *to = &found[count++];
                *to = (struct kiln_teleport_finding){.class = bench->pairs.groups[g].class,
                                                     .depth = (uint32_t)bench->runs[run].depth,
                                                     .size = table->size,
                                                     .dtype = kiln_dtype_names[table->dtype],
                                                     .with_lora = bench->options.lora_count > 0,
                                                     .style = row.to_style,
                                                     .pairs = row.pairs,
                                                     .asked = row.asked,
                                                     .pictures = row.pictures,
                                                     .attributes = row.to_attributes,
                                                     .whole = row.to_whole};
                code = code ? code : kiln_teleport_bounds(bench, table, g, run, to->change, err);
                for (int p = 0; p < KILN_TELEPORT_POOLS; p++)
                    for (int u = 0; u < KILN_TELEPORT_USES; u++)
                        to->near[p][u] =
                            varied(bench, table, g, bench->runs[run].depth, p, u, false);
            }
    if (code) {
        free(found);
        return code;
    }
    *ret = found;
    *ret_count = count;
    return 0;
}

/* --- for people ------------------------------------------------------------------------------- */

void kiln_teleport_heading(const struct kiln_teleport_bench *bench)
{
    const struct kiln_teleport_options *o = &bench->options;
    printf("model %s %s, device %s (%s), %s\n", bench->pictures.name, bench->pictures.hash,
           bench->at.device, bench->at.device_class, bench->at.date);
    printf("`%s`\n", o->command);
    char coarse[KILN_MODE_MAX], donors[KILN_MODE_MAX];
    printf("pairs of %s, %d seed%s each, %d steps in full\n\n", bench->pairs_name, o->seeds,
           o->seeds == 1 ? "" : "s", o->steps);
    if (o->coarse.kind == KILN_MODE_COARSE)
        printf("All runs are coarse first, %s; those from donors leave out their first small "
               "steps.\n\n",
               kiln_mode_steps_text(&o->coarse, coarse));
    kiln_mode_text(&o->donors, donors);
    if (!kiln_mode_same(&o->donors, &o->coarse))
        printf("Mode of the donors: %s.\n\n", kiln_mode_shown(donors));
    if (o->lora_count)
        printf("All runs are with the LoRA %s:%g, and prompts end with \"%s\".\n\n",
               bench->lora_name, (double)o->lora.weight, bench->suffix);
    puts("A pair belongs to the class that the guard gives it; \"refused\" ones never are hits.  "
         "again: a full run with");
    puts(
        "another seed, the noise floor.  donor: its own picture, by what the target asks.  skip N: "
        "from the donor's latent,");
    puts("N steps skipped.  Values have their standard error over the pairs.");
    for (int i = bench->first_depth - 1; i < o->soften_count; i++)
        if (o->soften[i])
            printf("For skip %d donors are flattened in cells of %u x %u values.\n", i + 1,
                   o->soften[i], o->soften[i]);
}

/* Whether a run has a column: those from several donors have none, nor coarse runs without results,
 * for which the model names no small size. */
static bool is_shown(const struct kiln_teleport_bench *bench,
                     const struct kiln_teleport_table *table, int run)
{
    const double *pictures = kiln_teleport_column(table, run, KILN_TELEPORT_PICTURES);
    bool shown = bench->runs[run].kind != KILN_TELEPORT_COARSE;
    for (size_t i = 0; i < table->pairs && !shown; i++)
        shown = !isnan(pictures[i]);
    return shown && is_single(bench, run);
}

enum grid { GRID_WHOLE, GRID_ATTRIBUTES, GRID_STYLE, GRID_FEATURES };

static void print_cell(const struct kiln_teleport_row *row, enum grid grid)
{
    const struct kiln_estimate cells[] = {row->whole, row->attributes, row->style, row->features};
    kiln_figure_print(cells[grid], grid == GRID_FEATURES ? 1 : 100, grid == GRID_FEATURES ? 3 : 1,
                      false);
}

/* One value of all groups and runs as a table: rows are groups, columns runs. */
static int print_grid(const struct kiln_teleport_bench *bench,
                      const struct kiln_teleport_table *table, enum grid grid,
                      struct kiln_error *err)
{
    static const char *const titles[] = {
        "Whole prompts right, %", "Attributes right, %", "In the LoRA's style, %",
        "Distance to the full run of the same seed, by features of the VAE decoder; again: between "
        "two full runs, the noise\nfloor"};
    struct kiln_teleport_row row;
    int code = kiln_teleport_row_fill(bench, table, -1, 1, &row, err);
    if (code || (grid == GRID_FEATURES && isnan(row.features.value)) ||
        (grid == GRID_STYLE && isnan(row.style.value)))
        return code; /* records of before features were measured; no style */
    printf("\n%s\n\n| pairs | n |", titles[grid]);
    for (int run = 0; run < bench->run_count; run++)
        if (is_shown(bench, table, run))
            printf(" %s |", bench->runs[run].name);
    printf("\n| --- | --- |");
    for (int run = 0; run < bench->run_count; run++)
        if (is_shown(bench, table, run))
            printf(" --- |");
    puts("");
    for (int g = -1; g < bench->pairs.group_count && code == 0; g++) {
        code = kiln_teleport_row_fill(bench, table, g, 0, &row, err);
        if (code || row.pairs == 0)
            continue;
        printf("| %s | %zu |", g < 0 ? "all" : bench->pairs.groups[g].name, row.pairs);
        for (int run = 0; run < bench->run_count && code == 0; run++) {
            if (!is_shown(bench, table, run))
                continue;
            code = kiln_teleport_row_fill(bench, table, g, run, &row, err);
            if (code == 0)
                print_cell(&row, grid);
        }
        puts("");
    }
    return code;
}

static int print_hits(const struct kiln_teleport_bench *bench,
                      const struct kiln_teleport_table *table, struct kiln_error *err)
{
    struct kiln_teleport_row row;
    int code = 0;
    puts(
        "\nHits against full runs: differences in points to the mean of the full runs of a pair (a "
        "donor with the same prompt\nis one); distance of low-pass latents to the full run of the "
        "same seed and to the donor, % of that between two full runs;\nthe same distances by "
        "features of the VAE decoder, as they are\n");
    const bool styled = bench->style >= 0;
    printf("| class | run | cost | n | attributes | whole |%s to full run, %% | to donor, %% | "
           "features, to full run | features, to donor |\n",
           styled ? " style |" : "");
    printf("| --- | --- | --- | --- | --- | --- |%s --- | --- | --- | --- |\n",
           styled ? " --- |" : "");
    for (int g = 0; g < KILN_REUSE_CLASS_COUNT - 1; g++)
        for (int run = 1; run < bench->run_count; run++) {
            const struct kiln_teleport_run *how = &bench->runs[run];
            if (!is_single(bench, run))
                continue;
            code = kiln_teleport_row_fill(bench, table, g, run, &row, err);
            if (code)
                return code;
            if (row.pairs == 0)
                continue;
            printf("| %s | %s | %g | %zu |", bench->pairs.groups[g].name, how->name,
                   kiln_teleport_cost(bench, how), row.pairs);
            kiln_figure_print(row.to_attributes, 100, 2, true);
            kiln_figure_print(row.to_whole, 100, 2, true);
            if (styled)
                kiln_figure_print(row.to_style, 100, 2, true);
            kiln_figure_print(row.of_full, 100, 0, false);
            kiln_figure_print(row.of_donor, 100, 0, false);
            kiln_figure_print(row.features, 1, 3, false);
            kiln_figure_print(row.features_donor, 1, 3, false);
            puts("");
        }
    return 0;
}

static void print_variety(const struct kiln_teleport_bench *bench,
                          const struct kiln_teleport_table *table)
{
    if (table->pool_count == 0)
        return;
    puts("\nVariety, % of full runs': distance of low-pass latents to the nearest other picture, "
         "donors included, for pools of\nD donors each used U times (D x U); and the mean distance "
         "between the pictures of such a pool, each donor used twice\n");
    printf("| class | pools | run |");
    for (int p = 0; p < KILN_TELEPORT_POOLS; p++)
        for (int u = 0; u < KILN_TELEPORT_USES; u++)
            printf(" %u x %u |", kiln_teleport_donors[p], kiln_teleport_uses[u]);
    for (int p = 0; p < KILN_TELEPORT_POOLS; p++)
        printf(" mean, %u |", kiln_teleport_donors[p]);
    printf("\n| --- | --- | --- |");
    for (int i = 0; i < KILN_TELEPORT_POOLS * (KILN_TELEPORT_USES + 1); i++)
        printf(" --- |");
    puts("");
    for (int g = 0; g < KILN_REUSE_CLASS_COUNT - 1; g++)
        for (int32_t depth = bench->first_depth;
             depth < bench->end_depth && pools_of(bench, table, g); depth++) {
            printf("| %s | %zu | skip %d |", bench->pairs.groups[g].name, pools_of(bench, table, g),
                   depth);
            for (int p = 0; p < KILN_TELEPORT_POOLS; p++)
                for (int u = 0; u < KILN_TELEPORT_USES; u++)
                    kiln_figure_print(varied(bench, table, g, depth, p, u, false), 100, 0, false);
            for (int p = 0; p < KILN_TELEPORT_POOLS; p++)
                kiln_figure_print(varied(bench, table, g, depth, p, 1, true), 100, 0, false);
            puts("");
        }
}

int kiln_teleport_print(const struct kiln_teleport_bench *bench,
                        const struct kiln_teleport_table *table, struct kiln_error *err)
{
    printf("\n### %ux%u, %s\n", table->size.width, table->size.height,
           kiln_dtype_names[table->dtype]);
    if (bench->options.small)
        printf("\nDonors are of %ux%u, enlarged.\n", table->donor.width, table->donor.height);
    int code = print_grid(bench, table, GRID_WHOLE, err);
    code = code ? code : print_grid(bench, table, GRID_ATTRIBUTES, err);
    code = code ? code : print_grid(bench, table, GRID_STYLE, err);
    code = code ? code : print_grid(bench, table, GRID_FEATURES, err);
    code = code ? code : print_hits(bench, table, err);
    if (code == 0)
        print_variety(bench, table);
    fflush(stdout);
    return code;
}

void kiln_teleport_progress(const struct kiln_teleport_table *table, const char *what, size_t done,
                            size_t total)
{
    if (!isatty(STDERR_FILENO))
        return;
    fputs("\r\033[K", stderr);
    if (total)
        fprintf(stderr, "%ux%u: %zu of %zu %s", table->size.width, table->size.height, done, total,
                what);
    fflush(stderr);
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* A group at a size: its runs in their order. */
static json_t *group_json(const struct kiln_teleport_bench *bench,
                          const struct kiln_teleport_table *table, int group)
{
    struct kiln_error unused;
    struct kiln_teleport_row row;
    size_t pairs = 0;
    json_t *attributes = json_array(), *whole = json_array(), *runs = json_array();
    json_t *features = json_array();
    for (int run = 0; run < bench->run_count; run++) {
        if (!is_single(bench, run) ||
            kiln_teleport_row_fill(bench, table, group, run, &row, &unused) || row.pairs == 0)
            continue;
        pairs = pairs > row.pairs ? pairs : row.pairs;
        json_array_append_new(runs, json_string(bench->runs[run].name));
        json_array_append_new(attributes, kiln_figure_pair(row.attributes));
        json_array_append_new(whole, kiln_figure_pair(row.whole));
        json_array_append_new(features, kiln_figure_pair(row.features));
    }
    return json_pack("{s:o, s:s, s:s, s:I, s:o, s:o, s:o, s:o}", "size",
                     json_sprintf("%ux%u", table->size.width, table->size.height), "dtype",
                     kiln_dtype_names[table->dtype], "pairs", bench->pairs.groups[group].name, "n",
                     (json_int_t)pairs, "runs", runs, "attributes", attributes, "whole", whole,
                     "features", features);
}

/* Variety of a class at a size and depth, by donors and then by uses. */
static json_t *pool_json(const struct kiln_teleport_bench *bench,
                         const struct kiln_teleport_table *table, int group, int32_t depth)
{
    json_t *near = json_array(), *spread = json_array();
    for (int p = 0; p < KILN_TELEPORT_POOLS; p++)
        for (int u = 0; u < KILN_TELEPORT_USES; u++) {
            json_array_append_new(
                near, kiln_figure_pair(varied(bench, table, group, depth, p, u, false)));
            json_array_append_new(spread,
                                  kiln_figure_pair(varied(bench, table, group, depth, p, u, true)));
        }
    return json_pack("{s:o, s:s, s:s, s:i, s:I, s:o, s:o}", "size",
                     json_sprintf("%ux%u", table->size.width, table->size.height), "dtype",
                     kiln_dtype_names[table->dtype], "class", bench->pairs.groups[group].name,
                     "depth", depth, "pools", (json_int_t)pools_of(bench, table, group), "near",
                     near, "spread", spread);
}

json_t *kiln_teleport_json(const struct kiln_teleport_bench *bench)
{
    json_t *rows = json_array();
    for (int t = 0; t < bench->table_count; t++) {
        const struct kiln_teleport_table *table = &bench->tables[t];
        for (int g = 0; g < bench->pairs.group_count; g++) {
            if (bench->pairs.groups[g].pairs > 0)
                json_array_append_new(rows, group_json(bench, table, g));
            for (int32_t depth = bench->first_depth;
                 depth < bench->end_depth && pools_of(bench, table, g); depth++)
                json_array_append_new(rows, pool_json(bench, table, g, depth));
        }
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:o}", "command", bench->options.command,
                     "date", bench->at.date, "device", bench->at.device_class, "model",
                     bench->pictures.name, "hash", bench->pictures.hash, "pairs", bench->pairs_name,
                     "seeds", bench->options.seeds, "rows", rows);
}
