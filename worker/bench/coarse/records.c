/* records.c - the file of --records; see coarse.h.
 *
 * The first line says what the results depend on.  Each further line is one run and one prompt,
 * over all its seeds, written as soon as it is measured.  A line that an end cut short is passed
 * over.
 */
#include <errno.h>
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
                     bench->device_class);
}

/* What names a run of a table in the file. */
static json_t *key_of(const struct kiln_coarse *bench, const struct kiln_coarse_table *table,
                      int run)
{
    char size[24], small[24], lora[KILN_FILE_HASH_MAX + 16] = "";
    kiln_coarse_size_text(table->size, size);
    kiln_coarse_size_text(table->small, small);
    if (table->lora >= 0)
        snprintf(lora, sizeof lora, "%s:%g", bench->lora_hash[table->lora],
                 (double)bench->options.loras[table->lora].weight);
    return json_pack("[s, s, s, s, s]", kiln_dtype_names[table->dtype], size, lora,
                     table->runs[run].name, kiln_coarse_is_small(&table->runs[run]) ? small : "");
}

static void take(struct kiln_coarse *bench, const json_t *line)
{
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

/* Reads a file to its end; KILN_BAD_INPUT if it belongs to another measurement. */
static int read_records(struct kiln_coarse *bench, FILE *file, struct kiln_error *err)
{
    char *text = NULL;
    size_t size = 0;
    ssize_t len;
    int code = 0;
    for (size_t number = 1; code == 0 && (len = getline(&text, &size, file)) > 0; number++) {
        json_error_t unused;
        json_t *line = json_loadb(text, (size_t)len, 0, &unused), *mine = heading(bench);
        if (number == 1 && !(line && json_equal(line, mine)))
            code = kiln_fail(err, KILN_BAD_INPUT,
                             "--records %s: the file is of another model, list of prompts, number "
                             "of seeds or steps, or device; name another file",
                             bench->options.records);
        if (number > 1 && line)
            take(bench, line);
        json_decref(line);
        json_decref(mine);
    }
    free(text);
    return code;
}

static int put(struct kiln_coarse *bench, json_t *line, struct kiln_error *err)
{
    const bool good = line && json_dumpf(line, bench->records, JSON_COMPACT) == 0 &&
                      fputc('\n', bench->records) != EOF && fflush(bench->records) == 0;
    json_decref(line);
    return good ? 0
                : kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "write %s: %s",
                            bench->options.records, strerror(errno));
}

int kiln_coarse_records_open(struct kiln_coarse *bench, struct kiln_error *err)
{
    const char *path = bench->options.records;
    if (!path)
        return 0;
    const bool report = bench->options.report; /* which writes nothing */
    bench->records = fopen(path, report ? "re" : "a+e");
    if (!bench->records)
        return kiln_fail(err, report && errno == ENOENT ? KILN_NOT_FOUND : KILN_IO, "open %s: %s",
                         path, strerror(errno));
    rewind(bench->records);
    int code = read_records(bench, bench->records, err);
    if (code == 0 && ferror(bench->records))
        code = kiln_fail(err, KILN_IO, "read %s: %s", path, strerror(errno));
    if (code || report)
        return code;
    if (fseek(bench->records, 0, SEEK_END) != 0)
        return kiln_fail(err, KILN_IO, "read %s: %s", path, strerror(errno));
    const long end = ftell(bench->records);
    if (end == 0)
        return put(bench, heading(bench), err);
    /* A line that was cut short must not swallow the next one. */
    if (fseek(bench->records, -1, SEEK_END) == 0 && fgetc(bench->records) != '\n' &&
        fputc('\n', bench->records) == EOF)
        return kiln_fail(err, KILN_IO, "write %s: %s", path, strerror(errno));
    return 0;
}

int kiln_coarse_record(struct kiln_coarse *bench, const struct kiln_coarse_table *table, int run,
                       size_t prompt, struct kiln_error *err)
{
    if (!bench->records)
        return 0;
    json_t *line =
        json_pack("{s:o, s:I}", "run", key_of(bench, table, run), "prompt", (json_int_t)prompt);
    for (int m = 0; m < KILN_MEASURES; m++) {
        const double value = kiln_coarse_column(table, run, (enum kiln_coarse_measure)m)[prompt];
        if (!isnan(value))
            json_object_set_new(line, names[m], json_real(value));
    }
    return put(bench, line, err);
}
