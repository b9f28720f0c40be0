/* backfill.h - backfills: lists of prompts that are rendered while no other jobs are queued.
 *
 * The jobs of a backfill are in a batch of its own.  One statement tops it up: it inserts jobs and
 * moves the cursor, if the cursor is where the caller saw it.  So of two schedulers that both
 * believe they lead, one makes the jobs.  The same snapshot reads the cursor and what is due, so a
 * backfill never has more jobs queued or assigned than its low-water mark.
 */
#ifndef KILN_LEDGER_BACKFILL_H
#define KILN_LEDGER_BACKFILL_H

#include "schemas/names.h"
#include "storage/ledger/queue/pause.h"
#include "storage/ledger/read/read.h"

#define KILN_BACKFILL_LINES_MAX 1000000
#define KILN_TOP_UP_MAX 256 /* jobs made at once */

struct kiln_backfill_spec {
    char name[KILN_NAME_MAX + 1];
    char who[KILN_PAUSE_WHO_MAX + 1];
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
/* Adds a backfill without lines; it makes no jobs yet.  KILN_EXISTS: the name is taken. */
int kiln_ledger_backfill_add(struct kiln_ledger *ledger, const char *pool,
                             const struct kiln_backfill_spec *spec, uint64_t *ret_id,
                             struct kiln_error *err) KILN_MUST_CHECK;
/* Adds lines.  The backfill starts once they sum up to pass_jobs.  May be repeated. */
int kiln_ledger_backfill_lines(struct kiln_ledger *ledger, uint64_t id,
                               const struct kiln_backfill_line *lines, size_t count,
                               struct kiln_error *err) KILN_MUST_CHECK;
/* Removes the backfill, its pauses, and its batch unless that ever had a job.  KILN_NOT_FOUND. */
int kiln_ledger_backfill_remove(struct kiln_ledger *ledger, const char *pool, const char *name,
                                bool *ret_batch_left, struct kiln_error *err) KILN_MUST_CHECK;

/* Clears the error that stopped the backfill.  An unknown name changes nothing. */
int kiln_ledger_backfill_restart(struct kiln_ledger *ledger, const char *pool, const char *name,
                                 struct kiln_error *err) KILN_MUST_CHECK;

struct kiln_backfill_row {
    uint64_t id, batch_id;
    char batch[KILN_BATCH_NAME_MAX + 1];
    struct kiln_backfill_spec spec;
    uint64_t cursor, made, lines;
    struct kiln_counts jobs;
    double gpu_seconds; /* of all its finished jobs */
    bool ended;         /* until was reached, or a fixed pass is over */
    bool held;          /* by any pause that matches it: kiln_ledger_pauses lists them */
    const char *error;  /* what stopped it, or NULL.  Lent, as the row */
    int64_t created_ms, topped_ms, due_ms;
};
typedef int kiln_each_backfill(void *arg, const struct kiln_backfill_row *row,
                               struct kiln_error *err);
/* Every backfill of the pool by name, or the one with this name (KILN_NOT_FOUND). */
int kiln_ledger_backfills(struct kiln_ledger *ledger, const char *pool, const char *name,
                          kiln_each_backfill *each, void *arg,
                          struct kiln_error *err) KILN_MUST_CHECK;
/* The backfill that the batch belongs to, or ""; ret holds KILN_NAME_MAX + 1. */
int kiln_ledger_backfill_of(struct kiln_ledger *ledger, const char *pool, const char *batch,
                            char *ret, struct kiln_error *err) KILN_MUST_CHECK;

/* --- what the scheduler does ----------------------------------------------------------------- */
struct kiln_backfill_due {
    uint64_t id, batch_id, cursor, pass_jobs;
    uint64_t room;      /* jobs that may be made now; 0 while it is paused */
    uint64_t cancelled; /* jobs of its batch that the removal of an earlier backfill cancelled */
    char name[KILN_NAME_MAX + 1];
    const char *overrides; /* lent */
    uint32_t width, height;
    int window_from, window_to;
    bool seed_fixed, closed; /* closed: it is outside its hours */
};
typedef int kiln_each_due(void *arg, const struct kiln_backfill_due *due, struct kiln_error *err);
/* Every backfill that has all its lines; one that has ended has no room. */
int kiln_ledger_backfills_due(struct kiln_ledger *ledger, const char *pool, kiln_each_due *each,
                              void *arg, struct kiln_error *err) KILN_MUST_CHECK;

typedef int kiln_each_line(void *arg, const struct kiln_backfill_line *line,
                           struct kiln_error *err);
/* Up to max lines from the one that makes number `place` of a pass. */
int kiln_ledger_backfill_walk(struct kiln_ledger *ledger, uint64_t id, uint64_t place, uint32_t max,
                              kiln_each_line *each, void *arg,
                              struct kiln_error *err) KILN_MUST_CHECK;

struct kiln_new_job;
/* Inserts the jobs and moves the cursor by `walked`, if it is still where `due` says.  *ret_made:
 * the new jobs; 0 also if another scheduler was first.  *ret_again: jobs that an earlier backfill
 * of this name had made, that its removal cancelled, and that are queued again. */
int kiln_ledger_top_up(struct kiln_ledger *ledger, const char *pool,
                       const struct kiln_backfill_due *due, const struct kiln_new_job *jobs,
                       size_t count, uint64_t walked, uint64_t *ret_made, uint64_t *ret_again,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* Stops the backfill with an error that a person has to fix. */
int kiln_ledger_backfill_fail(struct kiln_ledger *ledger, uint64_t id, const char *reason,
                              struct kiln_error *err) KILN_MUST_CHECK;

#endif
