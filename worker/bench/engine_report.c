/* engine_report.c - the table of `kiln bench engine`, for people and as JSON; see
 * engine.h. */
#include <jansson.h>
#include <stdio.h>

#include "pipeline/bench/roofline.h"
#include "worker/bench/engine.h"
#include "worker/engine/renderer.h"
#include "worker/state/device_class.h"

#define TEXT_SIZE 24
#define NAME_SIZE 64
#define GIGA 1e9

static const char *device_text(const struct kiln_bench_options *options, char out[TEXT_SIZE])
{
    snprintf(out, TEXT_SIZE, options->device < 0 ? "cpu" : "cuda:%d", options->device);
    return out;
}

static const char *size_text(const struct kiln_bench_row *row, char out[TEXT_SIZE])
{
    snprintf(out, TEXT_SIZE, "%dx%d", row->args.width, row->args.height);
    return out;
}

/* The time of a forward: timed alone, or within whole pictures if only these were run. */
static double forward_ms(const struct kiln_bench_row *row)
{
    return row->times.forward_ms > 0 ? row->times.forward_ms : row->times.step_ms;
}

static double tflops(const struct kiln_bench_row *row)
{
    double ms = forward_ms(row);
    return ms > 0 ? row->times.flops / ms / 1e9 : 0;
}

/* Share of the ceiling; 0 on the CPU, which has none. */
static double share(const struct kiln_bench_table *table, const struct kiln_bench_row *row)
{
    double ms = forward_ms(row);
    return ms > 0 && table->options->device >= 0 ? row->times.ceiling_ms / ms : 0;
}

/* --- for people ------------------------------------------------------------------------------- */

void kiln_bench_heading(const struct kiln_bench_table *table)
{
    const struct kiln_bench_options *o = table->options;
    char device[TEXT_SIZE], name[NAME_SIZE];
    if (o->json)
        return;
    kiln_device_class(device_text(o, device), name, sizeof name);
    printf("model %s%s, device %s (%s)", table->model_name,
           o->random_weights ? " (random weights)" : "", device, name);
    if (o->deterministic) {
        puts(""); /* no times, so no table */
        return;
    }
    printf(", prompts of %d tokens, medians of %d after %d\n", o->common.tokens, o->common.repeats,
           o->common.warmups);
    if (o->device >= 0)
        printf("ceiling: a forward's products alone, each at the rate measured on an %s\n",
               KILN_CEILING_CARD);
    printf("%-5s %-9s %5s %10s %8s %8s %8s %8s %9s %8s %8s %8s\n", "type", "size", "batch",
           "forward ms", "TFLOP/s", "ceiling", "step ms", "text ms", "decode ms", "image s",
           "peak GB", "error");
}

void kiln_bench_print_load(const struct kiln_bench_table *table)
{
    const struct kiln_bench_load *load = &table->loads[table->load_count - 1];
    if (table->options->json)
        return;
    printf("%-5s loaded in %.2f s", kiln_dtype_names[load->dtype], load->seconds);
    if (load->device)
        printf(": %.2f GB in tensors, %.2f GB on the device", (double)load->tensors / GIGA,
               (double)load->device / GIGA);
    putchar('\n');
    fflush(stdout);
}

/* A number, or a dash if it was not measured. */
static void print_number(int width, int digits, double value)
{
    if (value > 0)
        printf(" %*.*f", width, digits, value);
    else
        printf(" %*s", width, "-");
}

void kiln_bench_print_row(const struct kiln_bench_table *table)
{
    const struct kiln_bench_row *row = &table->rows[table->row_count - 1];
    const struct kiln_stage_times *t = &row->times;
    char size[TEXT_SIZE];
    if (table->options->json)
        return;
    printf("%-5s %-9s %5d", kiln_dtype_names[row->dtype], size_text(row, size),
           row->args.item_count);
    if (row->failure[0]) {
        printf(" %s\n", row->failure);
        fflush(stdout);
        return;
    }
    print_number(10, 2, t->forward_ms);
    print_number(8, 1, tflops(row));
    print_number(7, 1, 100 * share(table, row));
    printf("%s", share(table, row) > 0 ? "%" : " ");
    print_number(8, 2, t->step_ms);
    print_number(8, 2, t->text_ms);
    print_number(9, 2, t->decode_ms);
    print_number(8, 3, t->image_ms / 1e3);
    print_number(8, 2, (double)t->peak_device / GIGA);
    if (row->error < 0)
        printf(" %8s\n", "-");
    else
        printf(" %8.1e\n", row->error); /* nan if an output is no number */
    fflush(stdout);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *row_json(const struct kiln_bench_table *table, const struct kiln_bench_row *row)
{
    const struct kiln_stage_times *t = &row->times;
    json_t *value =
        json_pack("{s:s, s:i, s:i, s:i}", "dtype", kiln_dtype_names[row->dtype], "width",
                  row->args.width, "height", row->args.height, "batch", row->args.item_count);
    if (row->failure[0]) {
        json_object_set_new(value, "failure", json_string(row->failure));
        return value;
    }
    json_object_update_new(
        value,
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:o}",
                  "forward_ms", t->forward_ms, "forward_best_ms", t->forward_best_ms,
                  "forward_worst_ms", t->forward_worst_ms, "step_ms", t->step_ms, "text_ms",
                  t->text_ms, "decode_ms", t->decode_ms, "image_ms", t->image_ms, "flops", t->flops,
                  "tflops", tflops(row), "ceiling_ms", t->ceiling_ms, "ceiling_share",
                  share(table, row), "peak_tensor_bytes", (json_int_t)t->peak_tensors,
                  "peak_device_bytes", (json_int_t)t->peak_device, "error",
                  row->error >= 0 ? json_real(row->error) : json_null()));
    return value;
}

void kiln_bench_json(const struct kiln_bench_table *table)
{
    const struct kiln_bench_options *o = table->options;
    char device[TEXT_SIZE], name[NAME_SIZE];
    kiln_device_class(device_text(o, device), name, sizeof name);
    json_t *loads = json_array(), *rows = json_array();
    for (int i = 0; i < table->load_count; i++) {
        const struct kiln_bench_load *load = &table->loads[i];
        json_array_append_new(
            loads, json_pack("{s:s, s:f, s:I, s:I}", "dtype", kiln_dtype_names[load->dtype],
                             "seconds", load->seconds, "tensor_bytes", (json_int_t)load->tensors,
                             "device_bytes", (json_int_t)load->device));
    }
    for (int i = 0; i < table->row_count; i++)
        json_array_append_new(rows, row_json(table, &table->rows[i]));
    json_t *whole = json_pack("{s:s, s:s, s:b, s:s, s:s, s:i, s:i, s:o, s:o}", "bench", "engine",
                              "model", table->model_name, "random_weights", o->random_weights,
                              "device", device, "device_class", name, "tokens", o->common.tokens,
                              "steps", o->common.num_steps, "loads", loads, "rows", rows);
    json_dumpf(whole, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(whole);
}
