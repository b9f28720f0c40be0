/* engine.h - `kiln bench engine`: how fast the engine is on a device, stage by stage.
 *
 * A row of the table is one picture size at one batch size and dtype.  With --random-weights only
 * the configs are needed, so that the full-size model can be measured without its weights.
 */
#ifndef KILN_BENCH_ENGINE_H
#define KILN_BENCH_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/bench/stages.h"
#include "worker/bench/size.h"

#define KILN_BENCH_LIST_MAX 8 /* values of --sizes, --batch, --dtype */
#define KILN_BENCH_ROWS_MAX (KILN_BENCH_LIST_MAX * KILN_BENCH_LIST_MAX * KILN_BENCH_LIST_MAX)

struct kiln_bench_options {
    const char *model;
    int32_t device, threads;
    struct kiln_bench_size sizes[KILN_BENCH_LIST_MAX];
    int32_t batches[KILN_BENCH_LIST_MAX], dtypes[KILN_BENCH_LIST_MAX];
    int size_count, batch_count, dtype_count;
    struct kiln_stage_case common; /* the same in all rows */
    bool random_weights, deterministic, json, help;
};

/* Reads the command line; argv is borrowed.  KILN_BAD_INPUT or KILN_CONFIG for a mistake. */
int kiln_bench_options_read(int argc, char **argv, struct kiln_bench_options *ret,
                            struct kiln_error *err) KILN_MUST_CHECK;
extern const char kiln_bench_engine_usage[];

/* A model as it was loaded for the rows of one dtype. */
struct kiln_bench_load {
    int32_t dtype;
    double seconds;
    uint64_t tensors, device; /* bytes */
};

struct kiln_bench_row {
    int32_t dtype;
    struct kiln_stage_case args;
    struct kiln_stage_times times;
    double error;      /* of one forward, relative to the first dtype's; negative: unknown */
    char failure[160]; /* why the batch did not fit on the device; else "" */
};

struct kiln_bench_table {
    const struct kiln_bench_options *options;
    const char *model_name;
    struct kiln_bench_load loads[KILN_BENCH_LIST_MAX];
    struct kiln_bench_row rows[KILN_BENCH_ROWS_MAX];
    int load_count, row_count;
};

/* Renders the pictures of a case in a batch and each alone.  KILN_INTERNAL if one differs. */
int kiln_bench_same(DiffusionZContext *ctx, const struct kiln_stage_case *args,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* --- the report; the first three print nothing when options->json ---------------------------- */
void kiln_bench_heading(const struct kiln_bench_table *table);
void kiln_bench_print_load(const struct kiln_bench_table *table);
void kiln_bench_print_row(const struct kiln_bench_table *table);
void kiln_bench_json(const struct kiln_bench_table *table);

#endif
