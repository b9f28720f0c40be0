/* ops.h - operators' questions: usage by tenant, failures by cause, events.
 *
 * As in read.h: reading only, rows are lent to the callback, a non-zero return of it ends
 * the walk and is returned; times are milliseconds since 1970 of the database's clock.
 */
#ifndef KILN_LEDGER_OPS_H
#define KILN_LEDGER_OPS_H

#include "storage/ledger/read/read.h"

/* --- usage ----------------------------------------------------------------------------------- */
#define KILN_USAGE_TENANT 1u
#define KILN_USAGE_DAY 2u

struct kiln_usage_row {
    char tenant[KILN_NAME_MAX + 1]; /* "" unless asked for */
    char day[16];                   /* 2026-11-21, UTC; "" unless asked for */
    uint64_t jobs, pictures;        /* jobs that were done; pictures: of them */
    double gpu_seconds;             /* text, denoise and decode of the pictures */
    double seconds_saved;           /* by runs that began from stored latents (KILN_SQL_SAVED) */
    uint64_t bytes;                 /* stored of them now */
};
typedef int kiln_each_usage(void *arg, const struct kiln_usage_row *usage, struct kiln_error *err);
/* Sums over what was done since since_ms (0: ever), by tenant, by day, by both or (by 0) in one
 * row.  Pictures of removed batches count, with their whole first day and without bytes. */
int kiln_ledger_usage(struct kiln_ledger *ledger, const char *pool, int64_t since_ms, unsigned by,
                      kiln_each_usage *each, void *arg, struct kiln_error *err) KILN_MUST_CHECK;

/* --- errors ---------------------------------------------------------------------------------- */
struct kiln_cause_row {
    int code;          /* enum kiln_code */
    const char *cause; /* the sentence with numbers, names in quotes and paths taken out */
    const char *error; /* the sentence of the example, as it is */
    uint64_t jobs, batches, example;     /* example: the newest job of them */
    char batch[KILN_BATCH_NAME_MAX + 1]; /* of the example */
    int64_t first_ms, last_ms;
};
typedef int kiln_each_cause(void *arg, const struct kiln_cause_row *cause, struct kiln_error *err);
/* Jobs that are failed now, grouped by why, the largest group first; batch NULL: all. */
int kiln_ledger_causes(struct kiln_ledger *ledger, const char *pool, const char *batch,
                       int64_t since_ms, kiln_each_cause *each, void *arg,
                       struct kiln_error *err) KILN_MUST_CHECK;

/* --- events ---------------------------------------------------------------------------------- */
struct kiln_event_row {
    uint64_t id, job;
    char batch[KILN_BATCH_NAME_MAX + 1];
    struct kiln_move_row move;
};
typedef int kiln_each_event(void *arg, const struct kiln_event_row *event, struct kiln_error *err);

/* Which moves: of one job, of the jobs of one batch, or of all (0). */
struct kiln_event_filter {
    uint64_t job, batch_id;
};
/* Every move since since_ms in order of id; 0: as far back as the ledger remembers. */
int kiln_ledger_events(struct kiln_ledger *ledger, const char *pool,
                       const struct kiln_event_filter *filter, int64_t since_ms,
                       kiln_each_event *each, void *arg, struct kiln_error *err) KILN_MUST_CHECK;

/* The position of a follower of events. */
#define KILN_TAIL_GAPS_MAX 1024
struct kiln_event_tail {
    int64_t since_ms; /* set by the caller: older moves are not shown */
    int64_t read_ms;  /* 0 at first */
    uint64_t high;
    size_t gap_count;
    struct {
        uint64_t id;
        int64_t met_ms;
    } gaps[KILN_TAIL_GAPS_MAX];
};
/* The moves that have come since the last call, each once.  A move whose number is lower than that
 * of one already shown, because its transaction took longer, comes when it is there. */
int kiln_ledger_tail(struct kiln_ledger *ledger, const char *pool,
                     const struct kiln_event_filter *filter, struct kiln_event_tail *tail,
                     kiln_each_event *each, void *arg, struct kiln_error *err) KILN_MUST_CHECK;

/* --- tables ---------------------------------------------------------------------------------- */
#define KILN_TABLE_NAME_MAX 63

struct kiln_table_size {
    char name[KILN_TABLE_NAME_MAX + 1];
    uint64_t table_bytes; /* rows, with long values kept aside */
    uint64_t index_bytes;
    uint64_t live, dead;        /* rows, about */
    uint64_t updates, in_place; /* in_place: updates that touched no index (HOT) */
};
typedef int kiln_each_table(void *arg, const struct kiln_table_size *table, struct kiln_error *err);

/* The ledger's tables, the largest first.  The server publishes its counts with a delay of about a
 * second. */
int kiln_ledger_sizes(struct kiln_ledger *ledger, kiln_each_table *each, void *arg,
                      struct kiln_error *err) KILN_MUST_CHECK;

#endif
