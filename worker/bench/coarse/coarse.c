/* coarse.c - `kiln bench coarse`: renders and measures; see coarse.h.
 *
 * A table is gone through prompt by prompt, and all runs of a prompt follow one another: what else
 * the machine does meanwhile slows all of them alike.  A run's first batch in a table is rendered
 * twice and timed once, so that nothing that happens only once is in the times.
 */
#include "worker/bench/coarse/coarse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "pipeline/bench/detail.h"
#include "storage/formats/card/model_card.h"
#include "worker/bench/bench.h"
#include "worker/bench/measured/card.h"
#include "worker/verbs/verbs.h"

#define CHANNELS_MAX 64
#define LOW_SIZE (CHANNELS_MAX * KILN_LOW_CELLS * KILN_LOW_CELLS)

/* --- measuring -------------------------------------------------------------------------------- */

struct group {
    struct kiln_coarse *bench;
    struct kiln_coarse_table *table;
    size_t first, count; /* prompts that are rendered together */
    float *low;          /* [prompt][seed] of what a latent shows at large */
    int channels;
};

static int look(struct group *group, int run, size_t prompt, const DiffusionZOutput *output,
                struct kiln_error *err)
{
    struct kiln_coarse_table *table = group->table;
    const struct kiln_asked *asked = &group->bench->requests.items[prompt].asked;
    const struct kiln_picture_size size = kiln_coarse_size_of(table, &table->runs[run]);
    const int32_t width = (int32_t)size.width, height = (int32_t)size.height;
    struct kiln_seen seen;
    struct kiln_score score;
    int code = kiln_pictures_look(&group->bench->pictures, asked, output->rgb, width, height, &seen,
                                  &score, err);
    if (code)
        return code;
    for (int i = 0; i < KILN_ATTRIBUTES; i++) {
        kiln_coarse_column(table, run, KILN_OF_RIGHT)[prompt] += score.right[i];
        kiln_coarse_column(table, run, KILN_OF_ASKED)[prompt] += score.asked[i];
    }
    kiln_coarse_column(table, run, KILN_OF_WHOLE)[prompt] += kiln_score_whole(&score);
    kiln_coarse_column(table, run, KILN_OF_STYLED)[prompt] += seen.style == table->style;
    kiln_coarse_column(table, run, KILN_OF_PICTURES)[prompt] += 1;
    kiln_coarse_column(table, run, KILN_OF_SHARPNESS)[prompt] +=
        kiln_sharpness(output->rgb, width, height);
    return 0;
}

/* Item `at` of the group's pictures: all seeds of a prompt, then the next prompt. */
static size_t prompt_of(const struct group *group, size_t at)
{
    return group->first + at / (size_t)group->bench->options.seeds;
}

/* Renders pictures `at` and on of the group; returns their number, or 0 after an error. */
static int slice(struct group *group, int run, size_t at, bool measure, struct kiln_error *err)
{
    struct kiln_coarse *bench = group->bench;
    struct kiln_coarse_table *table = group->table;
    const size_t all = group->count * (size_t)bench->options.seeds;
    DiffusionZItem items[KILN_PICTURES_BATCH];
    DiffusionZOutput outputs[KILN_PICTURES_BATCH] = {0};
    char *prompts[KILN_PICTURES_BATCH] = {0};
    double steps_s, decode_s;
    int count = 0, code = 0;
    while (count < kiln_pictures_batch(bench->options.device) && at + (size_t)count < all) {
        const size_t i = at + (size_t)count;
        const struct kiln_request *request = &bench->requests.items[prompt_of(group, i)];
        if (asprintf(&prompts[count], "%s%s", request->prompt, table->suffix) < 0) {
            prompts[count] = NULL;
            code = kiln_fail(err, KILN_NO_MEMORY, "no memory for a prompt");
            break;
        }
        items[count] = (DiffusionZItem){
            .prompt = prompts[count],
            .seed = kiln_coarse_seed(request->seed, (int)(i % (size_t)bench->options.seeds)),
            .variety = table->runs[run].mode.variety,
        };
        count++;
    }
    code = code ? code
                : kiln_coarse_render(bench, table, &table->runs[run], items, count, outputs,
                                     &steps_s, &decode_s, err);
    for (int i = 0; i < count && code == 0 && measure; i++) {
        const size_t prompt = prompt_of(group, at + (size_t)i);
        code = look(group, run, prompt, &outputs[i], err);
        kiln_coarse_column(table, run, KILN_OF_STEPS_S)[prompt] += steps_s / count;
        kiln_coarse_column(table, run, KILN_OF_DECODE_S)[prompt] += decode_s / count;
        group->channels = outputs[i].latent_channels;
        kiln_low_pass(outputs[i].latent, group->channels, outputs[i].latent_height,
                      outputs[i].latent_width, group->low + (at + (size_t)i) * LOW_SIZE);
    }
    diffusionz_release_outputs(outputs, count);
    for (int i = 0; i < KILN_PICTURES_BATCH; i++)
        free(prompts[i]);
    return code ? 0 : count;
}

/* The mean distance of the seeds of a prompt. */
static double spread_of(struct group *group, size_t at)
{
    const int seeds = group->bench->options.seeds;
    const size_t one = (size_t)group->channels * KILN_LOW_CELLS * KILN_LOW_CELLS;
    float *low = group->low + at * (size_t)seeds * LOW_SIZE;
    for (int i = 1; i < seeds; i++) /* one behind the other */
        memmove(low + (size_t)i * one, low + (size_t)i * LOW_SIZE, one * sizeof *low);
    return kiln_low_spread(low, seeds, group->channels);
}

static bool measured(const struct group *group, int run)
{
    for (size_t i = 0; i < group->count; i++)
        if (isnan(kiln_coarse_column(group->table, run, KILN_OF_PICTURES)[group->first + i]))
            return false;
    return true;
}

static int run_group(struct group *group, int run, bool warm, struct kiln_error *err)
{
    struct kiln_coarse_table *table = group->table;
    const size_t all = group->count * (size_t)group->bench->options.seeds;
    int code = 0;
    if (!warm && slice(group, run, 0, false, err) == 0)
        return err->code;
    for (int m = 0; m < KILN_MEASURES; m++)
        for (size_t i = 0; i < group->count; i++)
            kiln_coarse_column(table, run, (enum kiln_coarse_measure)m)[group->first + i] = 0;
    for (size_t at = 0; at < all;) {
        const int count = slice(group, run, at, true, err);
        if (count == 0)
            return err->code;
        at += (size_t)count;
    }
    for (size_t i = 0; i < group->count && code == 0; i++) {
        kiln_coarse_column(table, run, KILN_OF_SPREAD)[group->first + i] = spread_of(group, i);
        code = kiln_coarse_record(group->bench, table, run, group->first + i, err);
    }
    return code;
}

static int run_table(struct kiln_coarse *bench, struct kiln_coarse_table *table,
                     struct kiln_error *err)
{
    const int seeds = bench->options.seeds, batch = kiln_pictures_batch(bench->options.device);
    const size_t together = seeds < batch ? (size_t)(batch / seeds) : 1;
    bool warm[KILN_COARSE_RUNS_MAX] = {false};
    struct group group = {.bench = bench, .table = table};
    group.low = malloc(together * (size_t)seeds * LOW_SIZE * sizeof *group.low);
    if (!group.low)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to compare latents");
    int code = kiln_coarse_model(bench, table->dtype, err);
    for (; group.first < table->prompts && code == 0; group.first += group.count) {
        const size_t left = table->prompts - group.first;
        group.count = left < together ? left : together;
        kiln_coarse_progress(table, group.first, table->prompts);
        for (int run = 0; run < table->run_count && code == 0; run++) {
            if (measured(&group, run))
                continue;
            code = run_group(&group, run, warm[run], err);
            warm[run] = true;
        }
    }
    kiln_coarse_progress(table, 0, 0);
    free(group.low);
    return code;
}

/* --- the verb --------------------------------------------------------------------------------- */

static int read_prompts(struct kiln_coarse *bench, struct kiln_error *err)
{
    const struct kiln_coarse_options *o = &bench->options;
    char held[4096];
    snprintf(held, sizeof held, "%s/held.jsonl", o->lists ? o->lists : "");
    const char *path = o->prompts ? o->prompts : held, *slash = strrchr(path, '/');
    int code = kiln_pictures_judge(&bench->pictures, o->judge, o->device, err);
    code = code ? code
                : kiln_requests_read(path, bench->pictures.labels, o->count, &bench->requests, err);
    if (code == 0 && !kiln_file_hash(path, UINT64_MAX, bench->prompts_hash))
        code = kiln_fail(err, KILN_IO, "%s: the file cannot be read", path);
    slash = o->prompts ? slash : "/held.jsonl";
    bench->prompts_name = slash ? slash + 1 : path;
    return code;
}

static int open_bench(struct kiln_coarse *bench, struct kiln_error *err)
{
    const struct kiln_coarse_options *o = &bench->options;
    json_t *card = NULL;
    kiln_measured_now(o->device, &bench->at);
    int code = o->write ? kiln_measured_card_read(o->model, &card, err) : 0;
    json_decref(card);
    code = code || o->sheet ? code : read_prompts(bench, err);
    code = code ? code : kiln_coarse_plan(bench, err);
    /* A report needs only the model's name and hash, so it takes what this device has. */
    return code ? code
                : kiln_coarse_model(bench, o->report ? DIFFUSIONZ_AUTO : bench->tables[0].dtype,
                                    err);
}

/* Whether a run of this kind has a result: without one a card would say that nothing holds. */
static bool any(const struct kiln_coarse *bench, enum kiln_coarse_kind kind)
{
    struct kiln_coarse_row row;
    for (int i = 0; i < bench->table_count; i++)
        for (int run = 0; run < bench->tables[i].run_count; run++) {
            kiln_coarse_row_fill(&bench->tables[i], run, &row);
            if (bench->tables[i].runs[run].kind == kind && row.prompts > 0)
                return true;
        }
    return false;
}

static int print_json(const json_t *card, json_t *variety, struct kiln_error *err)
{
    json_t *all = json_copy((json_t *)card);
    if (variety)
        json_object_set(all, "variety", variety);
    const bool good =
        json_dumpf(all, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6)) == 0 && putchar('\n') != EOF;
    json_decref(all);
    return good ? 0 : kiln_fail(err, KILN_IO, "write the results");
}

/* What follows from the tables: prints it, and writes it into kiln.json, which is now `whole`. */
static int conclude(struct kiln_coarse *bench, const json_t *whole, struct kiln_error *err)
{
    const struct kiln_coarse_options *o = &bench->options;
    const bool coarse = any(bench, KILN_RUN_COARSE), varied = any(bench, KILN_RUN_VARIETY);
    if (o->write && !coarse && !varied)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "--write: no coarse run and no variety was measured, so " KILN_MODEL_CARD
                         " of the model stays as it is");
    json_t *card = kiln_coarse_card(bench, json_object_get(whole, "coarse"));
    json_t *variety = varied ? kiln_coarse_variety(bench, json_object_get(whole, "variety")) : NULL;
    int code = card && (variety || !varied)
                   ? 0
                   : kiln_fail(err, KILN_NO_MEMORY, "no memory for the results");
    if (code == 0 && o->json)
        code = print_json(card, variety, err);
    if (code == 0 && !o->json && o->mode_count > 0)
        kiln_coarse_card_print(card, stdout);
    if (code == 0 && !o->json && variety)
        kiln_coarse_variety_print(variety, stdout);
    if (code == 0 && o->write && coarse)
        code = kiln_measured_card_write(o->model, "coarse", card, err);
    if (code == 0 && o->write && varied)
        code = kiln_measured_card_write(o->model, "variety", variety, err);
    json_decref(card);
    json_decref(variety);
    return code;
}

static int run_tables(struct kiln_coarse *bench, struct kiln_error *err)
{
    const struct kiln_coarse_options *o = &bench->options;
    int code = kiln_coarse_records_open(bench, err);
    if (code == 0 && !o->json)
        kiln_coarse_heading(bench);
    for (int i = 0; i < bench->table_count && code == 0; i++) {
        code = o->report ? 0 : run_table(bench, &bench->tables[i], err);
        if (code == 0 && !o->json)
            kiln_coarse_print(bench, &bench->tables[i]);
    }
    json_t *whole = NULL;
    code = code || !o->write ? code : kiln_measured_card_read(o->model, &whole, err);
    code = code ? code : conclude(bench, whole, err);
    json_decref(whole);
    return code;
}

static void close_bench(struct kiln_coarse *bench)
{
    for (int i = 0; i < bench->table_count; i++)
        free(bench->tables[i].values);
    free(bench->tables);
    kiln_requests_release(&bench->requests);
    kiln_pictures_close(&bench->pictures);
    kiln_records_close(&bench->records);
    free(bench);
}

int kiln_bench_coarse(int argc, char **argv)
{
    struct kiln_error err;
    int status = EX_OK;
    struct kiln_coarse *bench = calloc(1, sizeof *bench);
    if (!bench)
        return EX_OSERR;
    int code = kiln_coarse_options_read(argc, argv, &bench->options, &err);
    if (code) {
        fprintf(stderr, "kiln bench coarse: %s\n", err.text);
        status = code == KILN_NOT_FOUND ? EX_NOINPUT : EX_USAGE;
    } else if (bench->options.help) {
        fputs(kiln_coarse_usage, stdout);
    } else {
        code = open_bench(bench, &err);
        if (code == 0)
            code = bench->options.sheet ? kiln_coarse_sheet(bench, &err) : run_tables(bench, &err);
        status = code ? kiln_verb_fail("bench coarse", &err) : EX_OK;
    }
    close_bench(bench);
    return status;
}
