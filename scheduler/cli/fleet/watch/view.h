/* view.h - what the full-screen view shows, as lines for a terminal of a given size.
 *
 * Pure: a snapshot, rates and troubles in, lines out; screen.c paints them and reads the keys.
 * Any size is served: columns are dropped from the right, sections are cut and say so.
 *
 *      kiln watch   pool default   2026-11-21 15:04:05Z
 *      jobs       12 queued   3 assigned   120 done   2 failed   0 cancelled
 *      pace       34.0 done a minute, about 21 s left
 *      ! no scheduler leads pool default
 *        start kiln-scheduler, or `kiln up` for a private stack
 *
 *      WORKERS    2 live: 1 busy, 0 idle, 1 drain, 0 deaf; 0 gone
 *      NAME      NOW    DEVICE      STEP JOBS    DONE  FAIL   /MIN  IDLE  HAS LOADED
 *      h-gpu0    busy   cuda:0       3/8    2      61     0   17.0  0.4%  1024x768 watercolor:0.8
 *      GROUPS     3 with work
 *        QUEUED ASSIGNED  SIZE        STEPS   OLDEST  LORAS
 *      FAILURES   2 jobs, 1 cause, in the last hour
 *          JOBS  EXAMPLE  CODE        CAUSE
 *      q quit   tab section   arrows scroll   space stop   + - every 1 s
 */
#ifndef KILN_CLI_WATCH_VIEW_H
#define KILN_CLI_WATCH_VIEW_H

#include "scheduler/cli/fleet/snapshot.h"
#include "scheduler/cli/fleet/watch/rate.h"

#define KILN_CAUSES_MAX 32
#define KILN_VIEW_LINE_MAX 1024

enum kiln_ink {
    KILN_INK_PLAIN,
    KILN_INK_TITLE,
    KILN_INK_HEAD,
    KILN_INK_GOOD,
    KILN_INK_WARN,
    KILN_INK_BAD
};

struct kiln_line {
    enum kiln_ink ink;
    char text[KILN_VIEW_LINE_MAX]; /* UTF-8 without control characters; longer than the screen is
                                      wide */
};

struct kiln_cause_shown {
    uint64_t jobs, example;
    int code;
    char cause[240];
};

enum kiln_section {
    KILN_SECTION_WORKERS,
    KILN_SECTION_GROUPS,
    KILN_SECTION_FAILURES,
    KILN_SECTIONS
};

struct kiln_view {
    const char *pool, *batch;         /* batch: NULL if none is watched */
    const struct kiln_snapshot *look; /* NULL: there was none yet */
    const struct kiln_rates *rates;
    double now_s, look_s; /* monotonic: now, and of the look */
    int64_t now_ms;       /* wall clock */
    const char *trouble;  /* why the last look failed; "" if it did not */
    struct kiln_cause_shown causes[KILN_CAUSES_MAX];
    size_t cause_count;
    bool held; /* by the space bar: nothing new is shown */
    long interval_s;
    enum kiln_section section;  /* that the arrows move, */
    size_t from[KILN_SECTIONS]; /* and the first row each one shows; made valid here */
};

/* The names under which rates are kept; a worker's are its name and start. */
#define KILN_RATE_ENDED " ended"
void kiln_view_rate_name(const struct kiln_roster_worker *worker, char *out, size_t size);

/* Fills height lines. */
void kiln_view_lay(struct kiln_view *view, int width, int height, struct kiln_line *lines);

/* --- screen.c: these lines as a full screen, with ncurses ----------------------------------------
 */
/* Shows the fleet until q, a signal, or the end of the batch (NULL: none is watched); *ret_over and
 * *ret_batch are about the batch.  KILN_UNSUPPORTED: this terminal cannot show it. */
int kiln_watch_screen(struct kiln_cli *cli, const char *batch, long interval_s, bool *ret_over,
                      struct kiln_progress *ret_batch, struct kiln_error *err) KILN_MUST_CHECK;

#endif
