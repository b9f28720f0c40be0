/* trace.h - what arrived when: the jobs of a simulation, read from CSV.
 *
 * The first line names columns, in any order; the others are jobs.  Columns that are missing and
 * cells that are empty take the default:
 *
 *     arrival_s    0         seconds on any clock; the first arrival becomes time 0
 *     tenant       default
 *     width        1024      pixels
 *     height       1024
 *     steps        8
 *     mode         exact     as in schemas/job/mode.h, such as coarse=4+3
 *     loras        none      names joined by '+', in any order
 *     priority     0         -10 .. 10
 *     max_wait_s   (none)    the deadline, from arrival on
 *     service_s    (none)    seconds of compute of this picture; empty: by the cost model
 *
 * No I/O: the caller passes lines in, and errors say NAME:LINE:COLUMN, the column in bytes.  Times
 * are whole nanoseconds, so that equal decimals are equal moments and sums are exact.
 */
#ifndef KILN_SIM_TRACE_H
#define KILN_SIM_TRACE_H

#include "scheduler/sim/intern.h"
#include "schemas/error.h"
#include "schemas/job/mode.h"

#define KILN_TRACE_NS_MAX (INT64_C(9000000000) * 1000000000) /* 285 years; a trace ends before */

struct kiln_trace_job {
    int64_t arrival_ns;
    int64_t service_ns;  /* 0: by the cost model */
    int64_t max_wait_ns; /* 0: no deadline */
    uint32_t tenant, set, shape;
    uint32_t line; /* of the file */
    int8_t priority;
};

struct kiln_trace_shape {
    uint32_t width, height, steps;
    char mode[KILN_MODE_MAX]; /* its text, zeros behind it; "" = exact */
};

struct kiln_trace_layout; /* which cell is what */

struct kiln_trace {
    struct kiln_trace_job *jobs; /* by arrival, then by line */
    uint32_t count;
    struct kiln_intern tenants;
    struct kiln_intern sets;   /* names sorted and joined by '+', "" for no LoRA */
    struct kiln_intern shapes; /* each a struct kiln_trace_shape: see kiln_trace_shape */
    char *name;                /* of the input, for messages */
    struct kiln_trace_layout *layout;
    size_t room;
};

struct kiln_trace *kiln_trace_new(const char *name); /* NULL: no memory */
void kiln_trace_free(struct kiln_trace *trace);      /* accepts NULL */

/* The lines one by one, without their ends, the header first; empty lines are passed over. */
int kiln_trace_line(struct kiln_trace *trace, uint64_t number, const char *text, size_t len,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* After the last line: puts the jobs in order.  KILN_BAD_INPUT if there are none. */
int kiln_trace_end(struct kiln_trace *trace, struct kiln_error *err) KILN_MUST_CHECK;

struct kiln_trace_shape kiln_trace_shape(const struct kiln_trace *trace, uint32_t shape);
/* Its mode alone, borrowed from the trace, which is whole. */
const char *kiln_trace_mode(const struct kiln_trace *trace, uint32_t shape);

#endif
