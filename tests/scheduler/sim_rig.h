/* sim_rig.h - a trace by hand and a simulation of it, for the tests of `kiln sim`. */
#ifndef KILN_TEST_SIM_RIG_H
#define KILN_TEST_SIM_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/sim/report.h"

#define S INT64_C(1000000000)

static struct kiln_error err;
static struct kiln_trace *trace;
static struct kiln_sim_run run;
static struct kiln_sim_report report;
static struct kiln_sim_options options;

static inline int teardown(void **state)
{
    (void)state;
    kiln_trace_free(trace);
    kiln_sim_release(&run);
    trace = NULL;
    return 0;
}

/* One text of lines; the header is the first. */
static inline void read_text(const char *text)
{
    kiln_trace_free(trace);
    trace = kiln_trace_new("t.csv");
    assert_non_null(trace);
    for (uint64_t number = 1; *text; number++) {
        size_t len = strcspn(text, "\n");
        assert_int_equal(kiln_trace_line(trace, number, text, len, &err), 0);
        text += len + (text[len] == '\n');
    }
    assert_int_equal(kiln_trace_end(trace, &err), 0);
}

/* Simulates the trace with the options. */
static inline void run_trace(void)
{
    kiln_sim_release(&run);
    if (kiln_sim(trace, &options, &run, &err))
        fail_msg("%s", err.text);
    assert_int_equal(kiln_sim_report(trace, &options, &run, &report, &err), 0);
}

/* The same numbers in every run from the same state. */
static uint64_t random_state = 1;
static inline uint32_t random_below(uint32_t bound)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((random_state >> 33) % bound);
}

#endif
