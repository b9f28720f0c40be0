/* quality.c - `kiln bench quality`: renders, judges, counts; see quality.h.
 *
 * A batch has prompts of one size.  A model is loaded once for each dtype.
 */
#include "worker/bench/quality.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "schemas/clock.h"
#include "worker/bench/bench.h"
#include "worker/bench/pictures.h"
#include "worker/engine/batch_mode.h"
#include "worker/verbs/verbs.h"

#define STATUS_TOO_FEW 1 /* --at-least was not reached */

struct bench {
    struct kiln_quality_options options;
    char suffix[128];
    struct kiln_pictures pictures;
    int style, style_also; /* positions in the labels, or -1 */
    struct kiln_quality_row rows[KILN_QUALITY_ROWS_MAX];
    int row_count;
};

/* --- one batch -------------------------------------------------------------------------------- */

struct load {
    struct kiln_requests requests;
    size_t at, count; /* the batch: requests of one size */
    int32_t width, height;
    char *prompts[KILN_PICTURES_BATCH];
    DiffusionZItem items[KILN_PICTURES_BATCH];
    DiffusionZOutput outputs[KILN_PICTURES_BATCH];
};

static void size_of(const struct kiln_quality_row *row, const struct kiln_request *request,
                    int32_t *width, int32_t *height)
{
    *width = row->width ? row->width : request->width;
    *height = row->height ? row->height : request->height;
}

/* Takes the next requests of one size. */
static int fill(const struct bench *bench, const struct kiln_quality_row *row, struct load *load,
                struct kiln_error *err)
{
    const size_t most = (size_t)kiln_pictures_batch(bench->options.device);
    size_of(row, &load->requests.items[load->at], &load->width, &load->height);
    for (load->count = 0; load->count < most; load->count++) {
        size_t at = load->at + load->count;
        int32_t width = 0, height = 0;
        if (at < load->requests.count)
            size_of(row, &load->requests.items[at], &width, &height);
        if (width != load->width || height != load->height)
            break;
        const struct kiln_request *request = &load->requests.items[at];
        char **prompt = &load->prompts[load->count];
        if (asprintf(prompt, "%s%s", request->prompt, bench->suffix) < 0) {
            *prompt = NULL;
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for a prompt");
        }
        load->items[load->count] = (DiffusionZItem){
            .prompt = *prompt, .seed = request->seed, .variety = bench->options.mode.variety};
    }
    return 0;
}

static int render(struct bench *bench, struct kiln_quality_row *row, struct load *load,
                  struct kiln_error *err)
{
    const struct kiln_mode *mode = &bench->options.mode;
    DiffusionZBatch batch = {
        .items = load->items,
        .item_count = (int32_t)load->count,
        .width = load->width,
        .height = load->height,
        .num_steps = row->steps,
        .loras = bench->options.loras,
        .lora_count = bench->options.lora_count,
    };
    const struct kiln_picture_size size = {(uint32_t)load->width, (uint32_t)load->height};
    char steps[KILN_MODE_MAX];
    int code = kiln_coarse_check("--coarse", mode, size, (uint32_t)row->steps, err);
    if (code)
        return code;
    if (!kiln_batch_set_mode(&batch, mode, NULL, 0))
        return kiln_fail(err, KILN_BAD_INPUT, "--coarse %s: %dx%d is too small to halve",
                         kiln_mode_steps_text(mode, steps), load->width, load->height);
    double start = kiln_monotonic_ms();
    code = kiln_pictures_render(&bench->pictures, &batch, load->outputs, NULL, err);
    /* The first batch warms up, so it counts only if there is no other. */
    if (load->at > 0 || load->count == load->requests.count) {
        row->seconds += (kiln_monotonic_ms() - start) / 1e3;
        row->timed += (int64_t)load->count;
    }
    return code;
}

/* Two styles may come in either order. */
static bool shows_style(const struct bench *bench, const struct kiln_seen *seen)
{
    if (bench->style < 0)
        return true;
    if (bench->style_also < 0)
        return seen->style == bench->style;
    return (seen->style == bench->style && seen->style_next == bench->style_also) ||
           (seen->style == bench->style_also && seen->style_next == bench->style);
}

static int judge_one(struct bench *bench, struct kiln_quality_row *row, const struct load *load,
                     size_t i, struct kiln_error *err)
{
    const DiffusionZOutput *output = &load->outputs[i];
    struct kiln_quality_picture picture = {
        .request = &load->requests.items[load->at + i],
        .prompt = load->prompts[i],
        .number = load->at + i,
        .rgb = output->rgb,
        .width = load->width,
        .height = load->height,
    };
    int code = kiln_pictures_look(&bench->pictures, &picture.request->asked, output->rgb,
                                  load->width, load->height, &picture.seen, &picture.score, err);
    if (code)
        return code;
    kiln_tally_add(&row->tally, &picture.score);
    bool in_style = shows_style(bench, &picture.seen);
    row->in_style += in_style;
    if (!bench->options.failures || (in_style && kiln_score_whole(&picture.score)))
        return 0;
    return kiln_quality_failure(&bench->options, row, bench->pictures.labels, &picture, err);
}

/* --- rows ------------------------------------------------------------------------------------- */

static int open_model(struct bench *bench, int32_t dtype, struct kiln_error *err)
{
    const DiffusionZOptions options = {.model_path = bench->options.model,
                                       .device_id = bench->options.device,
                                       .dtype = dtype,
                                       .threads = bench->options.threads};
    return kiln_pictures_model(&bench->pictures, &options, err);
}

static int run_row(struct bench *bench, struct kiln_quality_row *row, struct kiln_error *err)
{
    struct load load = {0};
    int code = kiln_requests_read(row->path, bench->pictures.labels, bench->options.count,
                                  &load.requests, err);
    code = code ? code : open_model(bench, row->dtype, err);
    while (!code && load.at < load.requests.count) {
        kiln_quality_progress(row, load.at, load.requests.count);
        code = fill(bench, row, &load, err);
        code = code ? code : render(bench, row, &load, err);
        for (size_t i = 0; i < load.count && !code; i++)
            code = judge_one(bench, row, &load, i, err);
        diffusionz_release_outputs(load.outputs, (int32_t)load.count);
        for (size_t i = 0; i < KILN_PICTURES_BATCH; i++) {
            free(load.prompts[i]);
            load.prompts[i] = NULL;
        }
        load.at += load.count;
    }
    kiln_quality_progress(row, 0, 0);
    kiln_requests_release(&load.requests);
    return code;
}

static int run_rows(struct bench *bench, struct kiln_error *err)
{
    int code = open_model(bench, bench->rows[0].dtype, err);
    if (!code)
        kiln_quality_heading(&bench->options, diffusionz_model_name(bench->pictures.context),
                             diffusionz_model_hash(bench->pictures.context));
    for (int i = 0; i < bench->row_count && !code; i++) {
        code = run_row(bench, &bench->rows[i], err);
        if (!code)
            kiln_quality_print(&bench->options, &bench->rows[i]);
    }
    if (!code && bench->options.json)
        kiln_quality_json(&bench->options, diffusionz_model_name(bench->pictures.context),
                          diffusionz_model_hash(bench->pictures.context), bench->rows,
                          bench->row_count);
    return code;
}

/* --- the verb --------------------------------------------------------------------------------- */

/* --style A or A,B; words: what names them in a prompt. */
static int read_styles(struct bench *bench, char *words, size_t size, struct kiln_error *err)
{
    const struct kiln_label_list *styles = &bench->pictures.labels->styles;
    const char *at = bench->options.style;
    int *const found[] = {&bench->style, &bench->style_also};
    for (int i = 0; at && i < 2; i++) {
        const size_t len = strcspn(at, ","), used = strlen(words);
        char name[KILN_LABEL_MAX] = "", suffix[64];
        if (len < sizeof name)
            memcpy(name, at, len);
        *found[i] = kiln_pictures_style(&bench->pictures, name, suffix);
        if (*found[i] < 0 || (i && bench->style_also == bench->style))
            break;
        snprintf(words + used, size - used, "%s", suffix);
        at = at[len] ? at + len + 1 : NULL;
    }
    if (!at)
        return 0;
    char known[256] = "";
    size_t put = 0;
    for (int i = 0; i < styles->count && put < sizeof known; i++)
        put += (size_t)snprintf(known + put, sizeof known - put, "%s%s", i ? ", " : "; it knows ",
                                styles->names[i]);
    return kiln_fail(err, KILN_BAD_INPUT, "--style %s: one or two styles of the judge%s",
                     bench->options.style, known);
}

static int open_bench(struct bench *bench, struct kiln_error *err)
{
    const struct kiln_quality_options *o = &bench->options;
    char words[128] = "";
    bench->style = bench->style_also = -1;
    bench->row_count = kiln_quality_plan(o, bench->rows, err);
    if (!bench->row_count)
        return err->code;
    int code = kiln_pictures_judge(&bench->pictures, o->judge, o->device, err);
    if (code)
        return code;
    code = read_styles(bench, words, sizeof words, err);
    if (code)
        return code;
    snprintf(bench->suffix, sizeof bench->suffix, "%s", o->suffix ? o->suffix : words);
    if (o->failures && mkdir(o->failures, 0777) != 0 && errno != EEXIST)
        return kiln_fail(err, KILN_IO, "make directory %s: %s", o->failures, strerror(errno));
    return 0;
}

/* Whether every row reaches --at-least; prints those that do not. */
static bool enough(const struct bench *bench)
{
    bool all = true;
    for (int i = 0; i < bench->row_count && bench->options.at_least > 0; i++) {
        double rate = 100 * kiln_tally_rate(&bench->rows[i].tally);
        if (rate >= bench->options.at_least)
            continue;
        fprintf(stderr, "kiln bench quality: %s: %.1f %% of the attributes are right, not %g %%\n",
                bench->rows[i].list, rate, bench->options.at_least);
        all = false;
    }
    return all;
}

int kiln_bench_quality(int argc, char **argv)
{
    struct kiln_error err;
    struct bench *bench = calloc(1, sizeof *bench);
    if (!bench)
        return EX_OSERR;
    int status = EX_OK;
    if (kiln_quality_options_read(argc, argv, &bench->options, &err)) {
        fprintf(stderr, "kiln bench quality: %s\n", err.text);
        status = EX_USAGE;
    } else if (bench->options.help) {
        fputs(kiln_quality_usage, stdout);
    } else if (open_bench(bench, &err) || run_rows(bench, &err)) {
        status = kiln_verb_fail("bench quality", &err);
    } else if (!enough(bench)) {
        status = STATUS_TOO_FEW;
    }
    kiln_pictures_close(&bench->pictures);
    free(bench);
    return status;
}
