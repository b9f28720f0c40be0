/* fuzz_trace.c - any bytes as a trace of `kiln sim`: what is accepted can be simulated by every
 * policy, to the same amount of work and to no less than the bound. */
#include <math.h>
#include <string.h>

#include "scheduler/sim/report.h"
#include "tests/fuzz/fuzz.h"

#define JOBS_MAX 40 /* of a run: speed */

static void simulate(const struct kiln_trace *trace)
{
    struct kiln_error err = {0};
    struct kiln_sim_options options = {
        .workers = 1 + trace->count % 5, .window = 3, .switch_s = 0.5, .base_s = 1};
    for (int policy = KILN_SIM_KILN; policy <= KILN_SIM_AFFINITY; policy++) {
        struct kiln_sim_run run;
        struct kiln_sim_report report;
        struct kiln_text out = {0};
        options.policy = (enum kiln_sim_policy)policy;
        if (kiln_sim(trace, &options, &run, &err)) {
            fuzz_require(err.code == KILN_BAD_INPUT); /* more work than the clock holds */
            continue;
        }
        fuzz_require(kiln_sim_report(trace, &options, &run, &report, &err) == 0);
        fuzz_require(report.makespan_s >= report.lower_bound_s * (1 - 1e-9));
        fuzz_require(report.makespan_s >= report.arrivals_s * (1 - 1e-9));
        fuzz_require(report.switches >= report.switches_min);
        fuzz_require(isfinite(report.ratio) && report.fair_gap_gpu_s >= 0);
        kiln_sim_report_json(&report, &out);
        fuzz_require(!out.failed);
        kiln_text_release(&out);
        kiln_sim_release(&run);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kiln_trace *trace = kiln_trace_new("fuzz");
    struct kiln_error err = {0};
    const char *at = (const char *)data, *end = at + size;
    int rc = 0;
    for (uint64_t number = 1; rc == 0 && at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((newline ? newline : end) - at);
        rc = kiln_trace_line(trace, number, at, len, &err);
        at = newline ? newline + 1 : end;
    }
    if (rc == 0)
        rc = kiln_trace_end(trace, &err);
    if (rc == 0 && trace->count <= JOBS_MAX)
        simulate(trace);
    else
        fuzz_require(rc == 0 || err.text[0]);
    kiln_trace_free(trace);
    return 0;
}
