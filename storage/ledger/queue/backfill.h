/* backfill.h - standing orders: prompts that are drawn again and again, as long as nobody
 * else wants the GPUs.
 *
 * An order's jobs are those of its own batch.  Topping it up is one statement that inserts jobs and
 * moves the cursor, and does nothing unless the cursor is where its caller saw it: of two
 * schedulers that both believe to lead, one makes the jobs.  What is due is read in one snapshot
 * with the cursor, so an order never has more jobs waiting or running than its mark.
 */
#ifndef KILN_LEDGER_BACKFILL_H
#define KILN_LEDGER_BACKFILL_H

#include "schemas/names.h"
#include "storage/ledger/queue/hold.h"
#include "storage/ledger/read/read.h"

#define KILN_BACKFILL_LINES_MAX 1000000
#define KILN_TOP_UP_MAX 256 /* jobs made at once */

struct kiln_backfill_spec {
    char name[KILN_NAME_MAX + 1];
    char who[KILN_HOLD_WHO_MAX + 1];
    const char *overrides; /* a JSON object of job keys, or "" */
    uint32_t width, height;
    uint64_t pass_jobs, mark;
    uint64_t until_jobs;        /* 0: no such end */
    int64_t until_ms;           /* 0: no such end */
    double rate;                /* jobs an hour; 0: as many as the mark lets */
    int window_from, window_to; /* minutes of the local day of the scheduler; -1: always */
    bool seed_fixed;
};
struct kiln_backfill_line {
    uint64_t first, jobs;
    const char *line;
};

/* --- what people do -------------------------------------------------------------------------- */
/* The order, without lines and therefore asleep.  KILN_EXISTS: there is one of that name. */
int kiln_ledger_backfill_add(struct kiln_ledger *ledger, const char *pool,
                             const struct kiln_backfill_spec *spec, uint64_t *ret_id,
                             struct kiln_error *err) KILN_MUST_CHECK;
/* More of its lines; the order wakes when they sum up to pass_jobs.  May be repeated. */
int kiln_ledger_backfill_lines(struct kiln_ledger *ledger, uint64_t id,
                               const struct kiln_backfill_line *lines, size_t count,
                               struct kiln_error *err) KILN_MUST_CHECK;
/* Forgets the order and its holds, not its batch.  KILN_NOT_FOUND. */
int kiln_ledger_backfill_remove(struct kiln_ledger *ledger, const char *pool, const char *name,
                                struct kiln_error *err) KILN_MUST_CHECK;

/* One that stands still because of a fault is tried again; an unknown name changes nothing. */
int kiln_ledger_backfill_again(struct kiln_ledger *ledger, const char *pool, const char *name,
                               struct kiln_error *err) KILN_MUST_CHECK;

struct kiln_backfill_row {
    uint64_t id, batch_id;
    char batch[KILN_BATCH_NAME_MAX + 1];
    struct kiln_backfill_spec spec;
    uint64_t cursor, made, lines;
    struct kiln_counts jobs;
    double gpu_seconds; /* of all its finished jobs */
    bool ended;         /* until was reached, or a fixed pass is over */
    bool held;          /* by any hold that names it: kiln_ledger_holds says which */
    const char *error;  /* it stands still because of this, or NULL.  Lent, as the row */
    int64_t created_ms, topped_ms, due_ms;
};
typedef int kiln_each_backfill(void *arg, const struct kiln_backfill_row *order,
                               struct kiln_error *err);
/* Every order of the pool by name, or only the one of that name (KILN_NOT_FOUND). */
int kiln_ledger_backfills(struct kiln_ledger *ledger, const char *pool, const char *name,
                          kiln_each_backfill *each, void *arg,
                          struct kiln_error *err) KILN_MUST_CHECK;
/* The standing order that has the batch, "" if none has; ret holds KILN_NAME_MAX + 1. */
int kiln_ledger_backfill_of(struct kiln_ledger *ledger, const char *pool, const char *batch,
                            char *ret, struct kiln_error *err) KILN_MUST_CHECK;

/* --- what the scheduler does ----------------------------------------------------------------- */
struct kiln_backfill_due {
    uint64_t id, batch_id, cursor, pass_jobs;
    uint64_t room; /* jobs that it may be given now; 0 while people hold it */
    uint64_t cancelled; /* jobs of its batch that were, with an order of that name before */
    char name[KILN_NAME_MAX + 1];
    const char *overrides; /* lent */
    uint32_t width, height;
    int window_from, window_to;
    bool seed_fixed, closed; /* closed: a hold of scope window is in force */
};
typedef int kiln_each_due(void *arg, const struct kiln_backfill_due *due, struct kiln_error *err);
/* Every order that has all its lines; one that has ended has no room. */
int kiln_ledger_backfills_due(struct kiln_ledger *ledger, const char *pool, kiln_each_due *each,
                              void *arg, struct kiln_error *err) KILN_MUST_CHECK;

typedef int kiln_each_line(void *arg, const struct kiln_backfill_line *line,
                           struct kiln_error *err);
/* Up to max lines from the one that makes number `place` of a pass. */
int kiln_ledger_backfill_walk(struct kiln_ledger *ledger, uint64_t id, uint64_t place, uint32_t max,
                              kiln_each_line *each, void *arg,
                              struct kiln_error *err) KILN_MUST_CHECK;

struct kiln_new_job;
/* Inserts the jobs and moves the cursor by `walked`, if it still is where `due` says.  *ret_made =
 * those that were new; 0 also when somebody else was first.  Of those that are there and were
 * cancelled (by the removal of an order of that name before) *ret_again wait again. */
int kiln_ledger_top_up(struct kiln_ledger *ledger, const char *pool,
                       const struct kiln_backfill_due *due, const struct kiln_new_job *jobs,
                       size_t count, uint64_t walked, uint64_t *ret_made, uint64_t *ret_again,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* The order stands still for a reason that only people can mend. */
int kiln_ledger_backfill_fail(struct kiln_ledger *ledger, uint64_t id, const char *reason,
                              struct kiln_error *err) KILN_MUST_CHECK;

#endif
