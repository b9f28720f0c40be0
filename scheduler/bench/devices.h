/* devices.h - the rows of `kiln bench fleet`, between measuring and printing them. */
#ifndef KILN_BENCH_DEVICES_H
#define KILN_BENCH_DEVICES_H

#include "scheduler/bench/watch.h"
#include "scheduler/cli/stack/devices.h"

#define KILN_BENCH_COUNTS_MAX 8 /* numbers of --devices */

/* What so many devices did with their queue. */
struct kiln_bench_row {
    long devices, jobs;
    double seconds;              /* first assignment to last commit, by the ledger's clock, */
    double tail_s;               /* and of them since the last assignment */
    double rate, share;          /* pictures a second; of that of the first row, a device */
    double idle, idle_in_hand;   /* shares of time without computing; negative: not seen */
    double job_p50_s, job_p95_s; /* assignment to commit */
    double encode_ms, upload_ms; /* of a picture, in the mean */
};

/* Table or JSON; the first row is what the others are compared with. */
void kiln_bench_devices_print(const struct kiln_bench *bench, const struct kiln_bench_row *rows,
                              int count);

#endif
