/* modes.h - the modes of coarse first that benches measure unless others are given. */
#ifndef KILN_BENCH_MODES_H
#define KILN_BENCH_MODES_H

#include <stdint.h>

#include "schemas/job/coarse.h"

#define KILN_BENCH_MODES_USUAL 2

/* Of a schedule of 8 steps, 4+3 and 4+2.  Returns how many: a short schedule has one. */
int kiln_bench_modes_usual(int32_t steps, struct kiln_mode ret[KILN_BENCH_MODES_USUAL]);
/* Checks the modes of --modes for a picture of `full`.  KILN_BAD_INPUT. */
int kiln_bench_modes_check(const struct kiln_mode *modes, int count, struct kiln_picture_size full,
                           int32_t steps, struct kiln_error *err) KILN_MUST_CHECK;

#endif
