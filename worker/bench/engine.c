/* engine.c - `kiln bench engine`: loads, times, compares; see engine.h.
 *
 * Dtypes are the outermost loop, because a model is loaded for each.  The output of the first
 * dtype's forward at each size is kept and later dtypes are compared with it.  With random weights
 * from the same seeds the difference is the error of the arithmetic alone.
 */
#include "worker/bench/engine.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "pipeline/bench/roofline.h"
#include "schemas/clock.h"
#include "worker/bench/bench.h"
#include "worker/engine/batch_mode.h"
#include "worker/engine/batch_steps.h"
#include "worker/engine/renderer.h"
#include "worker/state/device_class.h"
#include "worker/verbs/verbs.h"

#define TEXT_SIZE 24

#define GIGA 1e9
#define ROWS_MAX                                                                                   \
    (KILN_BENCH_LIST_MAX * KILN_BENCH_LIST_MAX * KILN_BENCH_LIST_MAX * KILN_BENCH_LIST_MAX)

/* The first dtype's output at one size. */
struct reference {
    float *values;
    size_t count;
};

/* A model as it was loaded for the rows of one dtype. */
struct load {
    int32_t dtype;
    double seconds;
    uint64_t tensors, device; /* bytes */
};

struct row {
    int32_t dtype;
    struct kiln_mode mode; /* of whole pictures */
    struct kiln_stage_case args;
    struct kiln_stage_times times;
    double error;      /* of one forward, relative to the first dtype's; negative: unknown */
    char failure[160]; /* why the batch did not fit on the device; else "" */
};

struct bench {
    struct kiln_bench_options options;
    char device[TEXT_SIZE], device_class[64];
    struct load loads[KILN_BENCH_LIST_MAX];
    struct row rows[ROWS_MAX];
    int load_count, row_count;
    struct kiln_model_card card;                      /* of the model */
    struct kiln_batch_steps steps;                    /* what whole images have of it */
    struct reference references[KILN_BENCH_LIST_MAX]; /* by size */
};

/* --- the report: text, which is empty with --json, and JSON ----------------------------------- */

/* The time of a forward: timed alone, or within whole pictures if only these were run. */
static double forward_ms(const struct row *row)
{
    return row->times.forward_ms > 0 ? row->times.forward_ms : row->times.step_ms;
}

static double tflops(const struct row *row)
{
    double ms = forward_ms(row);
    return ms > 0 ? row->times.flops / ms / 1e9 : 0;
}

/* Share of the ceiling; 0 on the CPU, which has none. */
static double share(const struct bench *b, const struct row *row)
{
    double ms = forward_ms(row);
    return ms > 0 && b->options.device >= 0 ? row->times.ceiling_ms / ms : 0;
}

/* --- for people ------------------------------------------------------------------------------- */

/* "exact" or "4+3". */
static const char *mode_name(const struct row *row, char text[KILN_MODE_MAX])
{
    if (row->mode.kind == KILN_MODE_EXACT)
        return "exact";
    kiln_mode_text(&row->mode, text);
    return strchr(text, '=') + 1;
}

static void print_heading(const struct bench *b)
{
    const struct kiln_bench_options *o = &b->options;
    if (o->json)
        return;
    printf("model %s%s, device %s (%s)", b->options.model,
           o->random_weights ? " (random weights)" : "", b->device, b->device_class);
    if (o->common.skip_steps)
        printf(", whole pictures from a latent, %d steps skipped", o->common.skip_steps);
    if (o->deterministic) {
        puts(""); /* no times, so no table */
        return;
    }
    printf(", prompts of %d tokens, medians of %d after %d\n", o->common.tokens, o->common.repeats,
           o->common.warmups);
    if (o->device >= 0)
        printf("ceiling: a forward's products alone, each at the rate measured on an %s\n",
               KILN_CEILING_CARD);
    printf("%-5s %-9s %5s %-6s %10s %8s %8s %8s %8s %9s %8s %8s %8s %12s\n", "type", "size",
           "batch", "mode", "forward ms", "TFLOP/s", "ceiling", "step ms", "text ms", "decode ms",
           "image s", "peak GB", "error", "hand-over ms");
}

/* A number, or a dash if it was not measured. */
static void print_number(int width, int digits, double value)
{
    if (value > 0)
        printf(" %*.*f", width, digits, value);
    else
        printf(" %*s", width, "-");
}

static void print_row(const struct bench *b)
{
    const struct row *row = &b->rows[b->row_count - 1];
    const struct kiln_stage_times *t = &row->times;
    char size[TEXT_SIZE], mode[KILN_MODE_MAX];
    if (b->options.json)
        return;
    snprintf(size, sizeof size, "%dx%d", row->args.width, row->args.height);
    printf("%-5s %-9s %5d %-6s", kiln_dtype_names[row->dtype], size, row->args.item_count,
           mode_name(row, mode));
    if (row->failure[0]) {
        printf(" %s\n", row->failure);
        fflush(stdout);
        return;
    }
    print_number(10, 2, t->forward_ms);
    print_number(8, 1, tflops(row));
    print_number(7, 1, 100 * share(b, row));
    printf("%s", share(b, row) > 0 ? "%" : " ");
    print_number(8, 2, t->step_ms);
    print_number(8, 2, t->text_ms);
    print_number(9, 2, t->decode_ms);
    print_number(8, 3, t->image_ms / 1e3);
    print_number(8, 2, (double)t->peak_device / GIGA);
    if (row->error < 0)
        printf(" %8s", "-");
    else
        printf(" %8.1e", row->error); /* nan if an output is no number */
    print_number(12, 3, t->hand_over_ms);
    putchar('\n');
    fflush(stdout);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *row_json(const struct bench *b, const struct row *row)
{
    const struct kiln_stage_times *t = &row->times;
    char mode[KILN_MODE_MAX];
    kiln_mode_text(&row->mode, mode);
    json_t *value = json_pack("{s:s, s:i, s:i, s:i, s:s}", "dtype", kiln_dtype_names[row->dtype],
                              "width", row->args.width, "height", row->args.height, "batch",
                              row->args.item_count, "mode", mode);
    if (row->failure[0]) {
        json_object_set_new(value, "failure", json_string(row->failure));
        return value;
    }
    json_object_update_new(
        value,
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:o}",
                  "forward_ms", t->forward_ms, "forward_best_ms", t->forward_best_ms,
                  "forward_worst_ms", t->forward_worst_ms, "step_ms", t->step_ms, "text_ms",
                  t->text_ms, "decode_ms", t->decode_ms, "image_ms", t->image_ms, "hand_over_ms",
                  t->hand_over_ms, "flops", t->flops, "tflops", tflops(row), "ceiling_ms",
                  t->ceiling_ms, "ceiling_share", share(b, row), "peak_tensor_bytes",
                  (json_int_t)t->peak_tensors, "peak_device_bytes", (json_int_t)t->peak_device,
                  "error", row->error >= 0 ? json_real(row->error) : json_null()));
    return value;
}

static void print_json(const struct bench *b)
{
    const struct kiln_bench_options *o = &b->options;
    json_t *loads = json_array(), *rows = json_array();
    for (int i = 0; i < b->load_count; i++) {
        const struct load *load = &b->loads[i];
        json_array_append_new(
            loads, json_pack("{s:s, s:f, s:I, s:I}", "dtype", kiln_dtype_names[load->dtype],
                             "seconds", load->seconds, "tensor_bytes", (json_int_t)load->tensors,
                             "device_bytes", (json_int_t)load->device));
    }
    for (int i = 0; i < b->row_count; i++)
        json_array_append_new(rows, row_json(b, &b->rows[i]));
    json_t *whole =
        json_pack("{s:s, s:s, s:b, s:s, s:s, s:i, s:i, s:i, s:o, s:o}", "bench", "engine", "model",
                  b->options.model, "random_weights", o->random_weights, "device", b->device,
                  "device_class", b->device_class, "tokens", o->common.tokens, "steps",
                  o->common.num_steps, "skip", o->common.skip_steps, "loads", loads, "rows", rows);
    json_dumpf(whole, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(whole);
}

/* --- the bench -------------------------------------------------------------------------------- */

/* Keeps the first output of a size; of later ones the error is |output - first| / |first|.  Takes
 * over output. */
static void compare(struct reference *reference, struct row *row, float *output, size_t count)
{
    double difference = 0, size = 0;
    if (!output)
        return;
    if (!reference->values) {
        *reference = (struct reference){output, count};
        return;
    }
    for (size_t i = 0; i < count && count == reference->count; i++) {
        double from = (double)reference->values[i];
        difference += pow((double)output[i] - from, 2);
        size += from * from;
    }
    if (reference->count == count)
        row->error = sqrt(difference / size);
    free(output);
}

static int open_model(struct bench *b, int32_t dtype, DiffusionZContext **ret,
                      struct kiln_error *err)
{
    const DiffusionZOptions options = {.model_path = b->options.model,
                                       .device_id = b->options.device,
                                       .dtype = dtype,
                                       .threads = b->options.threads};
    double start = kiln_monotonic_ms();
    int code = b->options.random_weights ? diffusionz_open_random(&options, ret)
                                         : diffusionz_open(&options, ret);
    if (code)
        return kiln_fail(err, code, "%s", diffusionz_last_error());
    struct load *load = &b->loads[b->load_count++];
    *load = (struct load){.dtype = dtype, .seconds = (kiln_monotonic_ms() - start) / 1e3};
    diffusionz_memory(*ret, &load->tensors, &load->device);
    if (b->load_count == 1) {
        snprintf(b->device, sizeof b->device, options.device_id < 0 ? "cpu" : "cuda:%d",
                 options.device_id);
        kiln_device_class(b->device, b->device_class, sizeof b->device_class);
        print_heading(b);
    }
    if (b->options.json)
        return 0;
    printf("%-5s loaded in %.2f s", kiln_dtype_names[dtype], load->seconds);
    if (load->device)
        printf(": %.2f GB in tensors, %.2f GB on the device", (double)load->tensors / GIGA,
               (double)load->device / GIGA);
    putchar('\n');
    fflush(stdout);
    return 0;
}

/* The model's own steps; coarse first, at half the side. */
static int set_mode(struct bench *b, const struct kiln_mode *mode, struct kiln_stage_case *args,
                    struct kiln_error *err)
{
    char steps[KILN_MODE_MAX];
    DiffusionZBatch batch = {
        .width = args->width, .height = args->height, .num_steps = args->num_steps};
    int code = kiln_batch_set_steps(&batch, &b->card, b->options.model, &b->steps, err);
    if (code)
        return code;
    args->sigmas = batch.sigmas;
    args->step_loras = batch.step_loras;
    args->step_lora_count = batch.step_lora_count;
    args->step_transformers = batch.step_transformers;
    args->step_transformer_count = batch.step_transformer_count;
    if (!kiln_batch_set_mode(&batch, mode, NULL, 0))
        return kiln_fail(err, KILN_BAD_INPUT, "--coarse %s: %dx%d is too small to halve",
                         kiln_mode_steps_text(mode, steps), args->width, args->height);
    args->coarse_steps = batch.coarse_steps;
    args->coarse_width = batch.coarse_width;
    args->coarse_height = batch.coarse_height;
    args->middle_steps = batch.middle_steps;
    args->middle_width = batch.middle_width;
    args->middle_height = batch.middle_height;
    args->rest_steps = batch.rest_steps;
    args->coarse_sigma = batch.start_sigma;
    return 0;
}

/* If the case does not fit on the device, the row says so and the bench goes on. */
static int run_row(struct bench *b, DiffusionZContext *ctx, int32_t dtype, int size, int batch,
                   int mode, struct kiln_error *err)
{
    struct row *row = &b->rows[b->row_count];
    float *output = NULL;
    char name[KILN_MODE_MAX];
    size_t count = 0;
    *row = (struct row){
        .dtype = dtype, .mode = b->options.modes[mode], .args = b->options.common, .error = -1};
    row->args.width = b->options.sizes[size].width;
    row->args.height = b->options.sizes[size].height;
    row->args.item_count = b->options.batches[batch];
    int code = set_mode(b, &row->mode, &row->args, err);
    if (code)
        return code;
    if (b->options.deterministic) {
        int differs = kiln_bench_same(ctx, &row->args, err);
        if (!differs)
            printf("%s %dx%d, batch %d, %s: each picture has the bits it has alone\n",
                   kiln_dtype_names[dtype], row->args.width, row->args.height, row->args.item_count,
                   mode_name(row, name));
        return differs;
    }
    code = kiln_stages_time(ctx, &row->args, &row->times, &output, &count, err);
    if (code && code != KILN_NO_MEMORY)
        return code;
    if (code)
        snprintf(row->failure, sizeof row->failure, "%.159s", err->text);
    compare(&b->references[size], row, output, count);
    b->row_count++;
    print_row(b);
    return 0;
}

static int run_dtype(struct bench *b, int32_t dtype, struct kiln_error *err)
{
    DiffusionZContext *ctx = NULL;
    int code = b->options.model ? kiln_model_card_read(b->options.model, &b->card, err) : 0;
    code = code ? code : open_model(b, dtype, &ctx, err);
    const struct kiln_bench_options *o = &b->options;
    for (int i = 0; i < o->size_count; i++)
        for (int k = 0; k < o->batch_count; k++)
            for (int m = 0; m < o->mode_count && !code; m++)
                code = run_row(b, ctx, dtype, i, k, m, err);
    diffusionz_free(ctx);
    return code;
}

int kiln_bench_engine(int argc, char **argv)
{
    struct kiln_error err;
    struct bench *b = calloc(1, sizeof *b);
    if (!b)
        return EX_OSERR;
    int code = kiln_bench_options_read(argc, argv, &b->options, &err), status = EX_OK;
    if (code) {
        fprintf(stderr, "kiln bench engine: %s\n", err.text);
        status = EX_USAGE;
    } else if (b->options.help) {
        fputs(kiln_bench_engine_usage, stdout);
    } else {
        for (int i = 0; i < b->options.dtype_count && !code; i++)
            code = run_dtype(b, b->options.dtypes[i], &err);
        if (b->options.json && b->row_count)
            print_json(b);
        if (code)
            status = kiln_verb_fail("bench engine", &err);
    }
    for (int i = 0; i < KILN_BENCH_LIST_MAX; i++)
        free(b->references[i].values);
    free(b);
    return status;
}
