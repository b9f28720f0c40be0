/* web.h - an open loop of HTTP requests to a gallery of this machine.
 *
 * One thread and many connections, so that the load itself costs little: requests begin when they
 * are due if a connection is free, and their time runs from when they were due.  An answer counts
 * if its status is 200.
 */
#ifndef KILN_BENCH_GALLERY_WEB_H
#define KILN_BENCH_GALLERY_WEB_H

#include "scheduler/bench/gallery/times.h"

#define KILN_BENCH_SLOWEST 4

/* A kind of request. */
struct kiln_bench_web {
    const char *name;
    double rate;  /* a second */
    char **paths; /* that take turns; owned by the caller */
    uint32_t path_count;
    uint32_t asked;                /* requests of all runs */
    struct kiln_bench_times times; /* of all runs; released by the caller */
    struct kiln_bench_slow {
        double ms, due_s;          /* due: from the start of its run */
        const char *path;          /* NULL: there is none; one of paths */
    } slowest[KILN_BENCH_SLOWEST]; /* of all runs, the slowest first */
};

/* Asks for `seconds`, then waits a few seconds for the last answers.  A next run goes on with the
 * next paths. */
int kiln_bench_web_run(uint16_t port, struct kiln_bench_web *kinds, uint32_t count, double seconds,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* What was measured so far; the paths go on. */
void kiln_bench_web_forget(struct kiln_bench_web *kind);
/* One request; *ret_status 0: no answer.  body (NULL: not wanted) is malloc'd, with a NUL. */
void kiln_bench_web_get(uint16_t port, const char *path, unsigned *ret_status, char **ret_body);

#endif
