/* bench.c - see bench.h. */
#include "worker/bench/bench.h"

#include <string.h>

#include "worker/numa.h"
#include "worker/sigbus.h"

int kiln_bench_model(int argc, char **argv)
{
    kiln_sigbus_explain("kiln-bench");
    kiln_numa_order_gpus();
    if (strcmp(argv[0], "engine") == 0)
        return kiln_bench_engine(argc, argv);
    if (strcmp(argv[0], "teleport") == 0)
        return kiln_bench_teleport(argc, argv);
    if (strcmp(argv[0], "captions") == 0)
        return kiln_bench_captions(argc, argv);
    if (strcmp(argv[0], "judge") == 0)
        return kiln_bench_judge(argc, argv);
    return strcmp(argv[0], "coarse") == 0 ? kiln_bench_coarse(argc, argv)
                                          : kiln_bench_quality(argc, argv);
}
