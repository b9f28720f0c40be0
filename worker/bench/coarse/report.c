/* report.c - the tables of `kiln bench coarse`, as Markdown and as JSON; see coarse.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/bench/coarse/coarse.h"
#include "worker/engine/renderer.h"

#define SHARPNESS_UNIT 1e-4

void kiln_coarse_size_text(struct kiln_picture_size size, char out[24])
{
    snprintf(out, 24, "%ux%u", size.width, size.height);
}

void kiln_coarse_from_text(const struct kiln_coarse_table *table, int run,
                           char out[KILN_COARSE_FROM])
{
    const struct kiln_coarse_run *of = &table->runs[run];
    char small[24], smallest[24];
    out[0] = '\0';
    if (of->kind != KILN_RUN_COARSE && of->kind != KILN_RUN_DONOR && of->kind != KILN_RUN_ENLARGE)
        return;
    kiln_coarse_size_text(table->small, small);
    kiln_coarse_size_text(table->smallest, smallest);
    const bool third = of->mode.middle > 0;
    snprintf(out, KILN_COARSE_FROM, "%s%s%s", third ? smallest : "", third ? ", " : "", small);
}

/* --- a row ------------------------------------------------------------------------------------ */

#define NO_RUN -1
#define EXACT 0 /* the first run */

/* The estimate of sum(of run) / sum(by of run), or of the difference to run `beside`. */
static struct kiln_estimate share(const struct kiln_coarse_table *table, int run,
                                  enum kiln_coarse_measure of, enum kiln_coarse_measure by,
                                  int beside)
{
    const double *x = kiln_coarse_column(table, run, of);
    const double *reference = beside == NO_RUN ? NULL : kiln_coarse_column(table, beside, of);
    struct kiln_estimate estimate = {NAN, NAN};
    double *off = malloc(table->prompts * sizeof *off);
    for (size_t i = 0; off && i < table->prompts; i++)
        off[i] = x[i] - (reference ? reference[i] : 0);
    if (off)
        estimate = kiln_estimate_ratio(off, kiln_coarse_column(table, run, by), table->prompts);
    free(off);
    return estimate;
}

/* The estimate of sum(of run) / sum(of exact). */
static struct kiln_estimate of_exact(const struct kiln_coarse_table *table, int run,
                                     enum kiln_coarse_measure of)
{
    return kiln_estimate_ratio(kiln_coarse_column(table, run, of),
                               kiln_coarse_column(table, EXACT, of), table->prompts);
}

/* The run that an enlarged one begins from; NO_RUN for another run. */
static int donor_of(const struct kiln_coarse_table *table, int run)
{
    for (int i = 0; table->runs[run].kind == KILN_RUN_ENLARGE && i < run; i++)
        if (table->runs[i].kind == KILN_RUN_DONOR)
            return i;
    return NO_RUN;
}

/* The mean of a column over the prompts that have it. */
static struct kiln_estimate mean(const struct kiln_coarse_table *table, const double *column)
{
    struct kiln_estimate estimate = {NAN, NAN};
    double *one = malloc(table->prompts * sizeof *one);
    for (size_t i = 0; one && i < table->prompts; i++)
        one[i] = 1;
    if (one)
        estimate = kiln_estimate_ratio(column, one, table->prompts);
    free(one);
    return estimate;
}

static double sum(const double *column, size_t count)
{
    double all = 0;
    for (size_t i = 0; i < count; i++)
        all += isnan(column[i]) ? 0 : column[i];
    return all;
}

void kiln_coarse_row_fill(const struct kiln_coarse_table *t, int run, struct kiln_coarse_row *ret)
{
    const double *steps = kiln_coarse_column(t, run, KILN_OF_STEPS_S);
    const double *decode = kiln_coarse_column(t, run, KILN_OF_DECODE_S);
    struct kiln_estimate rest =
        kiln_estimate_ratio(decode, kiln_coarse_column(t, run, KILN_OF_PICTURES), t->prompts);
    *ret = (struct kiln_coarse_row){
        .pictures = (int64_t)sum(kiln_coarse_column(t, run, KILN_OF_PICTURES), t->prompts),
        .asked = sum(kiln_coarse_column(t, run, KILN_OF_ASKED), t->prompts),
        .attributes = share(t, run, KILN_OF_RIGHT, KILN_OF_ASKED, NO_RUN),
        .whole = share(t, run, KILN_OF_WHOLE, KILN_OF_PICTURES, NO_RUN),
        .style = share(t, run, KILN_OF_STYLED, KILN_OF_PICTURES, NO_RUN),
        .sharpness = share(t, run, KILN_OF_SHARPNESS, KILN_OF_PICTURES, NO_RUN),
        .spread = mean(t, kiln_coarse_column(t, run, KILN_OF_SPREAD)),
        .steps_s =
            kiln_estimate_ratio(steps, kiln_coarse_column(t, run, KILN_OF_PICTURES), t->prompts),
        .to_attributes = share(t, run, KILN_OF_RIGHT, KILN_OF_ASKED, EXACT),
        .to_whole = share(t, run, KILN_OF_WHOLE, KILN_OF_PICTURES, EXACT),
        .to_style = share(t, run, KILN_OF_STYLED, KILN_OF_PICTURES, EXACT),
        .of_sharpness = of_exact(t, run, KILN_OF_SHARPNESS),
        .of_spread = of_exact(t, run, KILN_OF_SPREAD),
        .faster = kiln_estimate_ratio(kiln_coarse_column(t, 0, KILN_OF_STEPS_S), steps, t->prompts),
    };
    for (size_t i = 0; i < t->prompts; i++)
        ret->prompts += !isnan(steps[i]);
    const struct kiln_estimate none = {NAN, NAN};
    const int donor = donor_of(t, run);
    ret->donor_attributes = ret->donor_whole = none;
    if (donor != NO_RUN) {
        ret->donor_attributes = share(t, run, KILN_OF_RIGHT, KILN_OF_ASKED, donor);
        ret->donor_whole = share(t, run, KILN_OF_WHOLE, KILN_OF_PICTURES, donor);
    }
    if (t->runs[run].kind == KILN_RUN_DONOR) /* of pictures of another size */
        ret->of_sharpness = none;
    ret->picture_s = (struct kiln_estimate){ret->steps_s.value + rest.value,
                                            hypot(ret->steps_s.error, rest.error)};
}

/* --- for people ------------------------------------------------------------------------------- */

void kiln_coarse_heading(const struct kiln_coarse *bench)
{
    const struct kiln_coarse_options *o = &bench->options;
    printf("model %s %s, device %s (%s), %s\n", diffusionz_model_name(bench->pictures.context),
           diffusionz_model_hash(bench->pictures.context), bench->at.device, bench->at.device_class,
           bench->at.date);
    printf("`%s`\n", o->command);
    printf("up to %zu prompts of %s, %d seed%s each, %d steps; the same in all rows\n\n",
           bench->requests.count, bench->prompts_name, o->seeds, o->seeds == 1 ? "" : "s",
           o->steps);
    puts("cost: forwards of the full size.  steps and picture: seconds a picture, without the "
         "text; faster: of the steps.");
    puts("sharpness: mean absolute Laplacian of the grey picture, x 1e-4.  spread: distance "
         "between seeds of a prompt, low-pass");
    puts("latents.  After each value its standard error over the prompts; comparisons with exact "
         "are of pairs.");
    if (o->enlarge_count > 0)
        puts("donor: the exact picture of the small size that an enlarged one begins from.");
}

static void print_row(const struct kiln_coarse_table *table, int run)
{
    const bool exact = run == 0;
    struct kiln_coarse_row row;
    char from[KILN_COARSE_FROM];
    kiln_coarse_row_fill(table, run, &row);
    kiln_coarse_from_text(table, run, from);
    printf("| %s | %s | %.2f |", table->runs[run].name, from, table->runs[run].cost);
    kiln_figure_print(row.steps_s, 1, 3, false);
    kiln_figure_print(exact ? (struct kiln_estimate){NAN, NAN} : row.faster, 1, 2, false);
    kiln_figure_print(row.picture_s, 1, 3, false);
    kiln_figure_print(row.attributes, 100, 1, false);
    kiln_figure_print(exact ? (struct kiln_estimate){NAN, NAN} : row.to_attributes, 100, 1, true);
    kiln_figure_print(row.whole, 100, 1, false);
    kiln_figure_print(exact ? (struct kiln_estimate){NAN, NAN} : row.to_whole, 100, 1, true);
    if (table->style >= 0) {
        kiln_figure_print(row.style, 100, 1, false);
        kiln_figure_print(exact ? (struct kiln_estimate){NAN, NAN} : row.to_style, 100, 1, true);
    }
    kiln_figure_print(row.sharpness, 1 / SHARPNESS_UNIT, 1, false);
    kiln_figure_print(exact ? (struct kiln_estimate){NAN, NAN} : row.of_sharpness, 100, 1, false);
    kiln_figure_print(row.spread, 1, 3, false);
    kiln_figure_print(exact ? (struct kiln_estimate){NAN, NAN} : row.of_spread, 100, 1, false);
    puts("");
}

/* Full runs at a size that the model renders badly are no measure of enlarged pictures: a second
 * table compares these with what they began from. */
static void print_donors(const struct kiln_coarse_table *table)
{
    struct kiln_coarse_row row;
    bool first = true;
    for (int run = 0; run < table->run_count; run++) {
        if (donor_of(table, run) == NO_RUN)
            continue;
        kiln_coarse_row_fill(table, run, &row);
        if (first)
            puts("\n| run | attributes to donor | whole to donor |\n| --- | --- | --- |");
        first = false;
        printf("| %s |", table->runs[run].name);
        kiln_figure_print(row.donor_attributes, 100, 1, true);
        kiln_figure_print(row.donor_whole, 100, 1, true);
        puts("");
    }
}

void kiln_coarse_print(const struct kiln_coarse *bench, const struct kiln_coarse_table *table)
{
    struct kiln_coarse_row exact;
    char size[24];
    kiln_coarse_size_text(table->size, size);
    kiln_coarse_row_fill(table, 0, &exact);
    printf("\n### %s, %s", size, kiln_dtype_names[table->dtype]);
    if (table->lora >= 0)
        printf(", LoRA %s:%g", bench->lora_name[table->lora],
               (double)bench->options.loras[table->lora].weight);
    printf(", %lld pictures a row\n\n", (long long)exact.pictures);
    printf("| run | from | cost | steps, s | faster | picture, s | attributes, %% | to exact | "
           "whole, %% | to exact |%s sharpness | of exact, %% | spread | of exact, %% |\n",
           table->style >= 0 ? " style, % | to exact |" : "");
    printf("|%s --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- "
           "|\n",
           table->style >= 0 ? " --- | --- |" : "");
    for (int run = 0; run < table->run_count; run++)
        print_row(table, run);
    print_donors(table);
    fflush(stdout);
}

void kiln_coarse_progress(const struct kiln_coarse_table *table, size_t done, size_t total)
{
    char size[24];
    if (!isatty(STDERR_FILENO))
        return;
    fputs("\r\033[K", stderr);
    kiln_coarse_size_text(table->size, size);
    if (total)
        fprintf(stderr, "%s, %s%s: %zu of %zu prompts", size, kiln_dtype_names[table->dtype],
                table->lora >= 0 ? ", with a LoRA" : "", done, total);
    fflush(stderr);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *row_json(const struct kiln_coarse *bench, const struct kiln_coarse_table *table,
                        int run)
{
    struct kiln_coarse_row row;
    char size[24], from[KILN_COARSE_FROM];
    kiln_coarse_row_fill(table, run, &row);
    kiln_coarse_size_text(table->size, size);
    kiln_coarse_from_text(table, run, from);
    json_t *value = json_pack(
        "{s:s, s:s, s:s, s:s?, s:s?, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "size", size,
        "dtype", kiln_dtype_names[table->dtype], "run", table->runs[run].name, "from",
        from[0] ? from : NULL, "lora", table->lora >= 0 ? bench->lora_name[table->lora] : NULL,
        "cost", kiln_figure_json(table->runs[run].cost), "pictures", (json_int_t)row.pictures,
        "attributes", kiln_figure_pair(row.attributes), "whole", kiln_figure_pair(row.whole),
        "sharpness", kiln_figure_pair(row.sharpness), "spread", kiln_figure_pair(row.spread),
        "steps_s", kiln_figure_pair(row.steps_s), "picture_s", kiln_figure_pair(row.picture_s));
    if (table->style >= 0)
        json_object_set_new(value, "style", kiln_figure_pair(row.style));
    if (run == 0)
        return value;
    json_object_set_new(value, "attributes_to_exact", kiln_figure_pair(row.to_attributes));
    json_object_set_new(value, "whole_to_exact", kiln_figure_pair(row.to_whole));
    if (table->style >= 0)
        json_object_set_new(value, "style_to_exact", kiln_figure_pair(row.to_style));
    json_object_set_new(value, "sharpness_of_exact", kiln_figure_pair(row.of_sharpness));
    json_object_set_new(value, "spread_of_exact", kiln_figure_pair(row.of_spread));
    json_object_set_new(value, "faster", kiln_figure_pair(row.faster));
    if (donor_of(table, run) != NO_RUN)
        json_object_update_new(value,
                               json_pack("{s:o, s:o}", "attributes_to_donor",
                                         kiln_figure_pair(row.donor_attributes), "whole_to_donor",
                                         kiln_figure_pair(row.donor_whole)));
    return value;
}

json_t *kiln_coarse_json(const struct kiln_coarse *bench, enum kiln_coarse_kind about)
{
    json_t *rows = json_array();
    for (int i = 0; i < bench->table_count; i++)
        for (int run = 0; run < bench->tables[i].run_count; run++) {
            const enum kiln_coarse_kind kind = bench->tables[i].runs[run].kind;
            if (kind == KILN_RUN_EXACT || (kind == KILN_RUN_VARIETY) == (about == KILN_RUN_VARIETY))
                json_array_append_new(rows, row_json(bench, &bench->tables[i], run));
        }
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:o}", "command", bench->options.command, "date",
        bench->at.date, "device", bench->at.device_class, "model",
        diffusionz_model_name(bench->pictures.context), "hash",
        diffusionz_model_hash(bench->pictures.context), "prompts", bench->prompts_name,
        "prompt_count", (int)bench->requests.count, "seeds", bench->options.seeds, "rows", rows);
}
