/* engine.h - `kiln bench engine`: how fast the engine is on a device, stage by stage.
 *
 * A row of the table is one picture size at one batch size, dtype and mode.  With --random-weights
 * only the configs are needed, so that the full-size model can be measured without its weights.
 */
#ifndef KILN_BENCH_ENGINE_H
#define KILN_BENCH_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/bench/stages.h"
#include "schemas/job/mode.h"
#include "worker/bench/size.h"

#define KILN_BENCH_LIST_MAX 8 /* values of --sizes, --batch, --dtype, --coarse */

struct kiln_bench_options {
    const char *model;
    int32_t device, threads;
    struct kiln_bench_size sizes[KILN_BENCH_LIST_MAX];
    int32_t batches[KILN_BENCH_LIST_MAX], dtypes[KILN_BENCH_LIST_MAX];
    struct kiln_mode modes[KILN_BENCH_LIST_MAX]; /* of whole pictures: exact or coarse first */
    int size_count, batch_count, dtype_count, mode_count;
    struct kiln_stage_case common; /* the same in all rows */
    bool random_weights, deterministic, json, help;
};

/* Reads the command line; argv is borrowed.  KILN_BAD_INPUT or KILN_CONFIG for a mistake. */
int kiln_bench_options_read(int argc, char **argv, struct kiln_bench_options *ret,
                            struct kiln_error *err) KILN_MUST_CHECK;
extern const char kiln_bench_engine_usage[];

/* Renders the pictures of a case in a batch and each alone.  KILN_INTERNAL if one differs. */
int kiln_bench_same(DiffusionZContext *ctx, const struct kiln_stage_case *args,
                    struct kiln_error *err) KILN_MUST_CHECK;

#endif
