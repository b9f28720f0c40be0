/* records.c - the file of --records; see coarse.h.
 *
 * A line is one run and one prompt, over all its seeds.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/bench/coarse/coarse.h"
#include "worker/engine/renderer.h"

static const char *const names[KILN_MEASURES] = {
    [KILN_OF_RIGHT] = "right",   [KILN_OF_ASKED] = "asked",       [KILN_OF_WHOLE] = "whole",
    [KILN_OF_STYLED] = "styled", [KILN_OF_PICTURES] = "pictures", [KILN_OF_SHARPNESS] = "sharpness",
    [KILN_OF_SPREAD] = "spread", [KILN_OF_STEPS_S] = "steps_s",   [KILN_OF_DECODE_S] = "decode_s",
};

static json_t *heading(const struct kiln_coarse *bench)
{
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:s}", "bench", "coarse", "model",
                     diffusionz_model_hash(bench->pictures.context), "prompts", bench->prompts_hash,
                     "seeds", bench->options.seeds, "steps", bench->options.steps, "device",
                     bench->at.device_class);
}

/* What names a run of a table in the file. */
static json_t *key_of(const struct kiln_coarse *bench, const struct kiln_coarse_table *table,
                      int run)
{
    char size[24], from[KILN_COARSE_FROM], lora[KILN_FILE_HASH_MAX + 16] = "";
    kiln_coarse_size_text(table->size, size);
    kiln_coarse_from_text(table, run, from);
    if (table->lora >= 0)
        snprintf(lora, sizeof lora, "%s:%g", bench->lora_hash[table->lora],
                 (double)bench->options.loras[table->lora].weight);
    return json_pack("[s, s, s, s, s]", kiln_dtype_names[table->dtype], size, lora,
                     table->runs[run].name, from);
}

static void take(void *arg, const json_t *line)
{
    struct kiln_coarse *bench = arg;
    const json_t *at = json_object_get(line, "prompt");
    for (int t = 0; t < bench->table_count; t++) {
        struct kiln_coarse_table *table = &bench->tables[t];
        if (!json_is_integer(at) || json_integer_value(at) < 0 ||
            (size_t)json_integer_value(at) >= table->prompts)
            continue;
        const size_t prompt = (size_t)json_integer_value(at);
        for (int run = 0; run < table->run_count; run++) {
            json_t *key = key_of(bench, table, run);
            const bool same = key && json_equal(key, json_object_get(line, "run"));
            json_decref(key);
            for (int m = 0; m < KILN_MEASURES && same; m++) {
                const json_t *value = json_object_get(line, names[m]);
                kiln_coarse_column(table, run, (enum kiln_coarse_measure)m)[prompt] =
                    json_is_number(value) ? json_number_value(value) : NAN;
            }
        }
    }
}

int kiln_coarse_records_open(struct kiln_coarse *bench, struct kiln_error *err)
{
    if (bench->options.report)
        kiln_records_device(bench->options.records, &bench->at);
    return kiln_records_open(&bench->records, bench->options.records, heading(bench),
                             "model, list of prompts, number of seeds or steps, or device",
                             bench->options.report, take, bench, err);
}

int kiln_coarse_record(struct kiln_coarse *bench, const struct kiln_coarse_table *table, int run,
                       size_t prompt, struct kiln_error *err)
{
    if (!bench->records.file)
        return 0;
    json_t *line =
        json_pack("{s:o, s:I}", "run", key_of(bench, table, run), "prompt", (json_int_t)prompt);
    for (int m = 0; m < KILN_MEASURES; m++) {
        const double value = kiln_coarse_column(table, run, (enum kiln_coarse_measure)m)[prompt];
        if (!isnan(value))
            json_object_set_new(line, names[m], json_real(value));
    }
    return kiln_records_put(&bench->records, line, err);
}
