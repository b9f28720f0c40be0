/* engine.c - `kiln bench engine`: loads, times, compares; see engine.h.
 *
 * Dtypes are the outermost loop, because a model is loaded for each.  The output of the first
 * dtype's forward at each size is kept and later dtypes are compared with it.  With random weights
 * from the same seeds the difference is the error of the arithmetic alone.
 */
#include "worker/bench/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "schemas/clock.h"
#include "worker/bench/bench.h"
#include "worker/engine/renderer.h"
#include "worker/verbs/verbs.h"

/* The first dtype's output at one size. */
struct reference {
    float *values;
    size_t count;
};

struct bench {
    struct kiln_bench_options options;
    struct kiln_bench_table table;
    struct reference references[KILN_BENCH_LIST_MAX]; /* by size */
};

/* |values - reference| / |reference| */
static double relative_error(const struct reference *reference, const float *values)
{
    double difference = 0, size = 0;
    for (size_t i = 0; i < reference->count; i++) {
        double from = (double)reference->values[i];
        difference += pow((double)values[i] - from, 2);
        size += from * from;
    }
    return sqrt(difference / size);
}

/* Keeps the first output of a size, and sets the error of later ones; takes over output. */
static void compare(struct reference *reference, struct kiln_bench_row *row, float *output,
                    size_t count)
{
    if (!output)
        return;
    if (!reference->values) {
        *reference = (struct reference){output, count};
        return;
    }
    if (reference->count == count)
        row->error = relative_error(reference, output);
    free(output);
}

static int open_model(struct bench *b, int32_t dtype, DiffusionZContext **ret,
                      struct kiln_error *err)
{
    const DiffusionZOptions options = {.model_path = b->options.model,
                                       .device_id = b->options.device,
                                       .dtype = dtype,
                                       .threads = b->options.threads};
    struct kiln_bench_table *table = &b->table;
    double start = kiln_monotonic_ms();
    int code = b->options.random_weights ? diffusionz_open_random(&options, ret)
                                         : diffusionz_open(&options, ret);
    if (code)
        return kiln_fail(err, code, "%s", diffusionz_last_error());
    struct kiln_bench_load *load = &table->loads[table->load_count++];
    *load =
        (struct kiln_bench_load){.dtype = dtype, .seconds = (kiln_monotonic_ms() - start) / 1e3};
    diffusionz_memory(*ret, &load->tensors, &load->device);
    table->model_name = b->options.model;
    if (table->load_count == 1)
        kiln_bench_heading(table);
    kiln_bench_print_load(table);
    return 0;
}

/* If the case does not fit on the device, the row says so and the bench goes on. */
static int run_row(struct bench *b, DiffusionZContext *ctx, int32_t dtype, int size, int batch,
                   struct kiln_error *err)
{
    struct kiln_bench_row *row = &b->table.rows[b->table.row_count];
    float *output = NULL;
    size_t count = 0;
    *row = (struct kiln_bench_row){.dtype = dtype, .args = b->options.common, .error = -1};
    row->args.width = b->options.sizes[size].width;
    row->args.height = b->options.sizes[size].height;
    row->args.item_count = b->options.batches[batch];
    if (b->options.deterministic) {
        int differs = kiln_bench_same(ctx, &row->args, err);
        if (!differs)
            printf("%s %dx%d, batch %d: each picture has the bits it has alone\n",
                   kiln_dtype_names[dtype], row->args.width, row->args.height,
                   row->args.item_count);
        return differs;
    }
    int code = kiln_stages_time(ctx, &row->args, &row->times, &output, &count, err);
    if (code && code != KILN_NO_MEMORY)
        return code;
    if (code)
        snprintf(row->failure, sizeof row->failure, "%.159s", err->text);
    compare(&b->references[size], row, output, count);
    b->table.row_count++;
    kiln_bench_print_row(&b->table);
    return 0;
}

static int run_dtype(struct bench *b, int32_t dtype, struct kiln_error *err)
{
    DiffusionZContext *ctx = NULL;
    int code = open_model(b, dtype, &ctx, err);
    for (int i = 0; i < b->options.size_count; i++)
        for (int k = 0; k < b->options.batch_count && !code; k++)
            code = run_row(b, ctx, dtype, i, k, err);
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
    b->table.options = &b->options;
    if (code) {
        fprintf(stderr, "kiln bench engine: %s\n", err.text);
        status = EX_USAGE;
    } else if (b->options.help) {
        fputs(kiln_bench_engine_usage, stdout);
    } else {
        for (int i = 0; i < b->options.dtype_count && !code; i++)
            code = run_dtype(b, b->options.dtypes[i], &err);
        if (b->options.json && b->table.row_count)
            kiln_bench_json(&b->table);
        if (code)
            status = kiln_verb_fail("bench engine", &err);
    }
    for (int i = 0; i < KILN_BENCH_LIST_MAX; i++)
        free(b->references[i].values);
    free(b);
    return status;
}
