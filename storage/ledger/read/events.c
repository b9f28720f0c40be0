/* events.c - the events of jobs: read once, or followed.
 *
 * An event gets its number before its transaction commits, so it may appear after a higher number.
 * A follower therefore keeps the numbers that it skipped and asks for them again.  A number that is
 * missing after GRACE_MS never comes: no statement runs that long, so its transaction was rolled
 * back. Rows since a time are found by the BRIN index on event.at.  An index on the number would
 * cost every move of every job.
 */
#include <string.h>

#include "storage/ledger/internal.h"
#include "storage/ledger/read/ops.h"

#define GRACE_MS (60 * 1000)
#define SINCE(number) "to_timestamp($" #number "::bigint / 1000.0)"
#define COLUMNS                                                                                    \
    "SELECT e.id, (extract(epoch FROM e.at) * 1000)::bigint, e.job_id, b.name, e.was, e.state,"    \
    " e.code, e.attempt, e.worker, e.reason "

struct walk {
    kiln_each_event *each;
    void *arg;
    struct kiln_event_tail *tail; /* NULL: a single reading */
    int64_t now_ms;
};

static int show_event(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct walk *walk = arg;
    struct kiln_event_row event;
    KILN_READ(rows, row, 0, event.id, event.move.at_ms, event.job, event.batch, event.move.was,
              event.move.state, event.move.code, event.move.attempt, event.move.worker,
              event.move.reason);
    return walk->each(walk->arg, &event, err);
}

int kiln_ledger_events(struct kiln_ledger *ledger, const char *pool,
                       const struct kiln_event_filter *filter, int64_t since_ms,
                       kiln_each_event *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement of_job = {
        "events_job", COLUMNS "FROM event e JOIN job j ON j.id = e.job_id JOIN batch b"
                              " ON b.id = j.batch_id WHERE j.pool = $1::text AND e.at >= " SINCE(
                                  2) " AND e.job_id = $3::bigint ORDER BY e.id"};
    static const struct kiln_statement of_batch = {
        "events_batch", COLUMNS "FROM job j JOIN event e ON e.job_id = j.id JOIN batch b"
                                " ON b.id = j.batch_id WHERE j.pool = $1::text AND e.at >= " SINCE(
                                    2) " AND j.batch_id = $3::bigint ORDER BY e.id"};
    static const struct kiln_statement of_all = {
        "events_all", COLUMNS
        "FROM event e JOIN job j ON j.id = e.job_id JOIN batch b"
        " ON b.id = j.batch_id WHERE j.pool = $1::text AND e.at >= " SINCE(2) " ORDER BY e.id"};
    struct kiln_params params = {0};
    struct walk walk = {.each = each, .arg = arg};
    const struct kiln_statement *statement = &of_all;
    KILN_BIND(&params, pool, since_ms);
    if (filter->job || filter->batch_id) {
        statement = filter->job ? &of_job : &of_batch;
        KILN_BIND(&params, filter->job ? filter->job : filter->batch_id);
    }
    return kiln_ledger_each(ledger, statement, &params, show_event, &walk, err);
}

/* --- following ------------------------------------------------------------------------------- */

/* Drops the gaps that are too old to be filled, and the one that was just filled. */
static void close_gaps(struct kiln_event_tail *tail, uint64_t filled, int64_t now_ms)
{
    size_t kept = 0;
    for (size_t i = 0; i < tail->gap_count; i++)
        if (tail->gaps[i].id != filled && tail->gaps[i].met_ms > now_ms - GRACE_MS)
            tail->gaps[kept++] = tail->gaps[i];
    tail->gap_count = kept;
}

/* Notes the numbers between the highest seen and this one; the oldest make room. */
static void open_gaps(struct kiln_event_tail *tail, uint64_t id, int64_t now_ms)
{
    uint64_t from = tail->high + 1;
    if (id - from > KILN_TAIL_GAPS_MAX)
        from = id - KILN_TAIL_GAPS_MAX;
    for (; from < id; from++) {
        if (tail->gap_count == KILN_TAIL_GAPS_MAX) {
            tail->gap_count--;
            memmove(tail->gaps, tail->gaps + 1, tail->gap_count * sizeof *tail->gaps);
        }
        tail->gaps[tail->gap_count].id = from;
        tail->gaps[tail->gap_count++].met_ms = now_ms;
    }
}

/* Also reads the events that the filter leaves out, since their numbers are not gaps. */
static int follow_event(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct walk *walk = arg;
    struct kiln_event_tail *tail = walk->tail;
    uint64_t id = kiln_row_u64(rows, row, 0);
    int64_t at_ms = kiln_row_i64(rows, row, 1);
    if (id <= tail->high) {
        close_gaps(tail, id, walk->now_ms);
    } else {
        if (tail->high && at_ms > walk->now_ms - GRACE_MS)
            open_gaps(tail, id, walk->now_ms);
        tail->high = id;
    }
    bool wanted = kiln_row_text(rows, row, 3) != NULL && at_ms >= tail->since_ms;
    return wanted ? show_event(walk, rows, row, err) : 0;
}

int kiln_ledger_tail(struct kiln_ledger *ledger, const char *pool,
                     const struct kiln_event_filter *filter, struct kiln_event_tail *tail,
                     kiln_each_event *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement follow = {
        "events_follow",
        COLUMNS "FROM event e LEFT JOIN job j ON j.id = e.job_id AND j.pool = $1::text"
                " AND ($2::bigint = 0 OR j.id = $2) AND ($3::bigint = 0 OR j.batch_id = $3)"
                " LEFT JOIN batch b ON b.id = j.batch_id"
                " WHERE e.at >= " SINCE(4) " AND (e.id > $5::bigint OR e.id = ANY ($6::bigint[]))"
                                           " ORDER BY e.id"};
    struct kiln_params params = {0};
    struct walk walk = {.each = each, .arg = arg, .tail = tail};
    char version[32];
    int rc = kiln_ledger_clock(ledger, &walk.now_ms, version, sizeof version, err);
    if (rc)
        return rc;
    int64_t from_ms = tail->read_ms ? tail->read_ms : tail->since_ms;
    KILN_BIND(&params, pool, filter->job, filter->batch_id,
              from_ms > GRACE_MS ? from_ms - GRACE_MS : 0, tail->high);
    KILN_BIND_COLUMN(&params, INT8, tail->gap_count, (int64_t)tail->gaps[i].id);
    rc = kiln_ledger_each(ledger, &follow, &params, follow_event, &walk, err);
    if (rc == 0) {
        tail->read_ms = walk.now_ms;
        close_gaps(tail, 0, walk.now_ms);
    }
    return rc;
}
