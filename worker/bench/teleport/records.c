/* records.c - what a line of the file of --records says; see teleport.h.
 *
 * A line is one run and one pair, over all its seeds, or a pool at one depth.  Pairs are named by
 * their line in the file of pairs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/bench/teleport/teleport.h"
#include "worker/engine/renderer.h"

static const char *const names[KILN_TELEPORT_MEASURES] = {
    [KILN_TELEPORT_RIGHT] = "right",       [KILN_TELEPORT_ASKED] = "asked",
    [KILN_TELEPORT_WHOLE] = "whole",       [KILN_TELEPORT_PICTURES] = "pictures",
    [KILN_TELEPORT_TO_FULL] = "to_full",   [KILN_TELEPORT_TO_DONOR] = "to_donor",
    [KILN_TELEPORT_CHANGE] = "change",     [KILN_TELEPORT_APART] = "apart",
    [KILN_TELEPORT_FEATURES] = "features", [KILN_TELEPORT_FEATURES_DONOR] = "features_donor",
    [KILN_TELEPORT_STYLED] = "styled",
};

json_t *kiln_teleport_soften(const struct kiln_teleport_bench *bench)
{
    json_t *list = json_array();
    for (int i = 0; i < bench->options.soften_count; i++)
        json_array_append_new(list, json_integer(bench->options.soften[i]));
    return list;
}

json_t *kiln_teleport_dtypes(const struct kiln_teleport_bench *bench)
{
    json_t *list = json_array();
    for (int i = 0; i < bench->options.dtype_count; i++)
        json_array_append_new(list, json_string(kiln_dtype_names[bench->options.dtypes[i]]));
    return list;
}

static json_t *heading(const struct kiln_teleport_bench *bench)
{
    const struct kiln_teleport_options *o = &bench->options;
    char coarse[KILN_MODE_MAX], donors[KILN_MODE_MAX];
    json_t *ret = json_pack("{s:s, s:s, s:s, s:i, s:I, s:i, s:o, s:s}", "bench", "teleport",
                            "model", bench->pictures.hash, "pairs", bench->pairs_hash, "seeds",
                            o->seeds, "seed", (json_int_t)o->seed, "steps", o->steps, "soften",
                            kiln_teleport_soften(bench), "device", bench->at.device_class);
    if (ret && o->small) /* without it the heading is that of before there were small donors */
        json_object_set_new(ret, "small", json_true());
    if (ret && o->coarse.kind == KILN_MODE_COARSE)
        json_object_set_new(ret, "coarse", json_string(kiln_mode_steps_text(&o->coarse, coarse)));
    kiln_mode_text(&o->donors, donors);
    if (ret && !kiln_mode_same(&o->donors, &o->coarse))
        json_object_set_new(ret, "donors", json_string(kiln_mode_shown(donors)));
    if (ret && o->lora_count)
        json_object_set_new(ret, "lora",
                            json_sprintf("%s:%g", bench->lora_hash, (double)o->lora.weight));
    return ret;
}

/* What names a run, or a pool at a depth, in the file. */
static json_t *key_of(const struct kiln_teleport_table *table, const char *run, uint32_t line)
{
    return json_pack("[s, o, s, I]", kiln_dtype_names[table->dtype],
                     json_sprintf("%ux%u", table->size.width, table->size.height), run,
                     (json_int_t)line);
}

static bool names_it(const json_t *line, json_t *key)
{
    const bool same = key && json_equal(key, json_object_get(line, "run"));
    json_decref(key);
    return same;
}

static bool take_varied(const json_t *line, struct kiln_teleport_varied *ret)
{
    const json_t *near = json_object_get(line, "near"), *spread = json_object_get(line, "spread");
    for (size_t i = 0; i < KILN_TELEPORT_POOLS * KILN_TELEPORT_USES; i++) {
        const json_t *value = json_array_get(near, i), *other = json_array_get(spread, i);
        if (!json_is_number(value))
            return false;
        (&ret->near[0][0])[i] = json_number_value(value);
        (&ret->spread[0][0])[i] = json_is_number(other) ? json_number_value(other) : NAN;
    }
    return true;
}

static void pool_run(int32_t depth, char out[24])
{
    snprintf(out, 24, depth ? "pool, skip %d" : "pool, full", depth);
}

static void take_pool(const struct kiln_teleport_bench *bench, struct kiln_teleport_table *table,
                      const json_t *line)
{
    const json_int_t number = json_integer_value(json_array_get(json_object_get(line, "run"), 3));
    char run[24];
    for (size_t i = 0; i < table->pool_count; i++) {
        struct kiln_teleport_pool *pool = &table->pools[i];
        const uint32_t pair = bench->pairs.items[pool->pair].line;
        for (int32_t depth = 0; pair == number && depth < bench->options.steps; depth++) {
            pool_run(depth, run);
            if (names_it(line, key_of(table, run, pair)))
                pool->has[depth] = take_varied(line, depth ? &pool->skip[depth] : &pool->full);
        }
    }
}

static void take(void *arg, const json_t *line)
{
    struct kiln_teleport_bench *bench = arg;
    const json_t *number = json_array_get(json_object_get(line, "run"), 3);
    for (int t = 0; t < bench->table_count; t++) {
        struct kiln_teleport_table *table = &bench->tables[t];
        if (json_object_get(line, "near")) {
            take_pool(bench, table, line);
            continue;
        }
        for (size_t i = 0; i < table->pairs; i++) {
            if (json_integer_value(number) != bench->pairs.items[i].line)
                continue;
            for (int run = 0; run < bench->run_count; run++) {
                const bool same = names_it(
                    line, key_of(table, bench->runs[run].name, bench->pairs.items[i].line));
                for (int m = 0; same && m < KILN_TELEPORT_MEASURES; m++) {
                    const json_t *value = json_object_get(line, names[m]);
                    kiln_teleport_column(table, run, (enum kiln_teleport_measure)m)[i] =
                        json_is_number(value) ? json_number_value(value) : NAN;
                }
            }
        }
    }
}

int kiln_teleport_records_open(struct kiln_teleport_bench *bench, struct kiln_error *err)
{
    if (bench->options.report)
        kiln_records_device(bench->options.records, &bench->at);
    return kiln_records_open(&bench->records, bench->options.records, heading(bench),
                             "model, file of pairs, number of seeds or steps, seed, softening, "
                             "size or mode of donors, coarse steps, LoRA, or device",
                             bench->options.report, take, bench, err);
}

int kiln_teleport_record(struct kiln_teleport_bench *bench, const struct kiln_teleport_table *table,
                         int run, size_t pair, struct kiln_error *err)
{
    if (!bench->records.file)
        return 0;
    json_t *line = json_pack("{s:o}", "run",
                             key_of(table, bench->runs[run].name, bench->pairs.items[pair].line));
    for (int m = 0; m < KILN_TELEPORT_MEASURES; m++) {
        const double value = kiln_teleport_column(table, run, (enum kiln_teleport_measure)m)[pair];
        if (!isnan(value))
            json_object_set_new(line, names[m], json_real(value));
    }
    return kiln_records_put(&bench->records, line, err);
}

static json_t *numbers(const double *values)
{
    json_t *list = json_array();
    for (int i = 0; i < KILN_TELEPORT_POOLS * KILN_TELEPORT_USES; i++)
        json_array_append_new(list, kiln_figure_json(values[i]));
    return list;
}

int kiln_teleport_record_pool(struct kiln_teleport_bench *bench,
                              const struct kiln_teleport_table *table,
                              const struct kiln_teleport_pool *pool, int32_t depth,
                              struct kiln_error *err)
{
    const struct kiln_teleport_varied *varied = depth ? &pool->skip[depth] : &pool->full;
    char run[24];
    if (!bench->records.file)
        return 0;
    pool_run(depth, run);
    return kiln_records_put(
        &bench->records,
        json_pack("{s:o, s:o, s:o}", "run", key_of(table, run, bench->pairs.items[pool->pair].line),
                  "near", numbers(&varied->near[0][0]), "spread", numbers(&varied->spread[0][0])),
        err);
}
