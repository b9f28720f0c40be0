/* quality_report.c - the table of `kiln bench quality`, for people and as JSON; see quality.h. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "worker/bench/quality.h"
#include "worker/engine/renderer.h"

#define SIZE_TEXT 24

static const char *device_text(const struct kiln_quality_options *options, char out[SIZE_TEXT])
{
    snprintf(out, SIZE_TEXT, options->device < 0 ? "cpu" : "cuda:%d", options->device);
    return out;
}

static const char *size_text(const struct kiln_quality_row *row, char out[SIZE_TEXT])
{
    if (row->width)
        snprintf(out, SIZE_TEXT, "%dx%d", row->width, row->height);
    else
        snprintf(out, SIZE_TEXT, "as listed");
    return out;
}

/* In percent; NaN of nothing. */
static double percent(int64_t part, int64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : NAN;
}

static void print_percent(double value)
{
    if (isnan(value))
        printf(" %6s", "-");
    else
        printf(" %6.1f", value);
}

void kiln_quality_heading(const struct kiln_quality_options *options, const char *model_name,
                          const char *model_hash)
{
    if (options->json)
        return;
    char device[SIZE_TEXT], steps[KILN_MODE_MAX];
    printf("model %s %s, device %s", model_name, model_hash, device_text(options, device));
    for (int i = 0; i < options->lora_count; i++)
        printf(", lora %s:%g", options->loras[i].path, (double)options->loras[i].weight);
    if (options->mode.kind == KILN_MODE_COARSE)
        printf(", coarse first %s", kiln_mode_steps_text(&options->mode, steps));
    if (options->mode.variety > 0)
        printf(", variety %g", options->mode.variety);
    printf("\n%% right of what the prompts say; s: seconds a picture\n"
           "%-10s %-9s %5s %-4s %4s %6s %6s",
           "prompts", "size", "steps", "type", "n", "attr", "all");
    for (int i = 0; i < KILN_ATTRIBUTES; i++)
        printf(" %6.6s", kiln_attribute_names[i]);
    printf("%s %6s\n", options->style ? "  style" : "", "s");
    fflush(stdout);
}

void kiln_quality_print(const struct kiln_quality_options *options,
                        const struct kiln_quality_row *row)
{
    char size[SIZE_TEXT];
    const struct kiln_tally *tally = &row->tally;
    if (options->json)
        return;
    printf("%-10.10s %-9s %5d %-4s %4lld", row->list, size_text(row, size), row->steps,
           kiln_dtype_names[row->dtype], (long long)tally->pictures);
    print_percent(100 * kiln_tally_rate(tally));
    print_percent(percent(tally->whole, tally->pictures));
    for (int i = 0; i < KILN_ATTRIBUTES; i++)
        print_percent(percent(tally->right[i], tally->asked[i]));
    if (options->style)
        print_percent(percent(row->in_style, tally->pictures));
    printf(" %6.3f\n", row->seconds / (double)row->timed);
    fflush(stdout);
}

void kiln_quality_progress(const struct kiln_quality_row *row, size_t done, size_t total)
{
    char size[SIZE_TEXT];
    if (!isatty(STDERR_FILENO))
        return;
    fputs("\r\033[K", stderr);
    if (total) {
        fprintf(stderr, "%s %s, %d steps, %s: %zu of %zu", row->list, size_text(row, size),
                row->steps, kiln_dtype_names[row->dtype], done, total);
        if (done)
            fprintf(stderr, ", %.1f %%", 100 * kiln_tally_rate(&row->tally));
    }
    fflush(stderr);
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* A share, or null where nothing was asked. */
static json_t *share(int64_t right, int64_t asked)
{
    return asked ? json_real((double)right / (double)asked) : json_null();
}

static json_t *row_json(const struct kiln_quality_options *options,
                        const struct kiln_quality_row *row)
{
    char size[SIZE_TEXT];
    const struct kiln_tally *tally = &row->tally;
    json_t *kinds = json_object();
    int64_t right = 0, asked = 0;
    for (int i = 0; i < KILN_ATTRIBUTES; i++) {
        right += tally->right[i];
        asked += tally->asked[i];
        json_object_set_new(kinds, kiln_attribute_names[i],
                            share(tally->right[i], tally->asked[i]));
    }
    json_t *value =
        json_pack("{s:s, s:s, s:i, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:f}", "prompts", row->list,
                  "size", row->width ? size_text(row, size) : "listed", "steps", row->steps,
                  "dtype", kiln_dtype_names[row->dtype], "pictures", (json_int_t)tally->pictures,
                  "asked", (json_int_t)asked, "right", (json_int_t)right, "attributes",
                  share(right, asked), "whole", share(tally->whole, tally->pictures), "kinds",
                  kinds, "seconds_a_picture", row->seconds / (double)row->timed);
    if (options->style)
        json_object_set_new(value, "in_style", share(row->in_style, tally->pictures));
    return value;
}

void kiln_quality_json(const struct kiln_quality_options *options, const char *model_name,
                       const char *model_hash, const struct kiln_quality_row *rows, int count)
{
    char device[SIZE_TEXT];
    json_t *list = json_array(), *loras = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, row_json(options, &rows[i]));
    for (int i = 0; i < options->lora_count; i++)
        json_array_append_new(loras, json_pack("{s:s, s:f}", "path", options->loras[i].path,
                                               "weight", (double)options->loras[i].weight));
    char mode[KILN_MODE_MAX];
    kiln_mode_text(&options->mode, mode);
    json_t *whole =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s?, s:o, s:o}", "bench", "quality", "model",
                  model_name, "hash", model_hash, "device", device_text(options, device), "mode",
                  mode, "style", options->style, "loras", loras, "rows", list);
    json_dumpf(whole, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(whole);
}
