/* modes.c - see modes.h. */
#include "worker/bench/modes.h"

int kiln_bench_modes_usual(int32_t steps, struct kiln_mode ret[KILN_BENCH_MODES_USUAL])
{
    const uint32_t all = (uint32_t)steps, full[] = {(3 * all + 7) / 8, (all + 3) / 4};
    int count = 0;
    for (int i = 0; i < KILN_BENCH_MODES_USUAL; i++)
        if (i == 0 || full[0] != full[1])
            ret[count++] = (struct kiln_mode){.kind = KILN_MODE_COARSE,
                                              .small = (all + 1) / 2,
                                              .full = full[i],
                                              .sigma = KILN_COARSE_SIGMA};
    return count;
}

int kiln_bench_modes_check(const struct kiln_mode *modes, int count, struct kiln_picture_size full,
                           int32_t steps, struct kiln_error *err)
{
    int code = 0;
    for (int i = 0; i < count && code == 0; i++)
        code = modes[i].kind == KILN_MODE_COARSE
                   ? kiln_coarse_check("--modes", &modes[i], full, (uint32_t)steps, err)
                   : kiln_fail(err, KILN_BAD_INPUT, "--modes: expected S+L, such as 4+3");
    return code;
}
