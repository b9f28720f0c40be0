/* size.h - values of --sizes. */
#ifndef KILN_BENCH_SIZE_H
#define KILN_BENCH_SIZE_H

#include "worker/verbs/options.h"

struct kiln_bench_size {
    int32_t width, height; /* pixels */
};
kiln_take kiln_take_size; /* struct kiln_bench_size: "WxH", or "N" for NxN */

#endif
