/* internal.h - what the files of the ledger share: statements, parameters, results.
 *
 * Not for callers outside storage/.  A query is a static struct kiln_statement.  Its parameters are
 * bound in the order $1, $2, ..., and kiln_ledger_run does the rest: it connects, prepares the
 * statement once a connection (a reading session sends its text), keeps the time limit, and maps
 * the SQLSTATE to a code.
 *
 *     static const struct kiln_statement oldest = {
 *         "oldest", "SELECT min(id), count(*) FROM job WHERE pool = $1"};
 *     struct kiln_params params = {0};
 *     PGresult *rows;
 *     KILN_BIND(&params, pool);
 *     int rc = kiln_ledger_run(ledger, &oldest, &params, &rows, err);
 *     if (rc == 0) {
 *         *ret_id = kiln_row_u64(rows, 0, 0);
 *         *ret_count = kiln_row_u64(rows, 0, 1);
 *         PQclear(rows);
 *     }
 */
#ifndef KILN_LEDGER_INTERNAL_H
#define KILN_LEDGER_INTERNAL_H

#include <libpq-fe.h>
#include <stdint.h>

#include "storage/ledger/ledger.h"

/* First half of the advisory lock's key that the leader holds; hashtext(pool) is the second. */
#define KILN_LEADER_LOCK 0x4b696c6e

/* In a statement: a timestamptz as milliseconds since 1970. */
#define MS(column) "(extract(epoch FROM " column ") * 1000)::bigint"

struct kiln_statement {
    const char *name; /* unique; the server's name for the prepared statement */
    const char *sql;
};

/* --- parameters ------------------------------------------------------------------------------ */
#define KILN_PARAMS_MAX 40

/* Starts as {0}.  Values point into the struct, so it must not be copied. */
struct kiln_params {
    int count;
    bool short_of_memory; /* kiln_ledger_run then says KILN_NO_MEMORY */
    const char *values[KILN_PARAMS_MAX];
    int lengths[KILN_PARAMS_MAX];
    int formats[KILN_PARAMS_MAX];
    char scratch[KILN_PARAMS_MAX][80];
    void *owned[KILN_PARAMS_MAX];
};

/* Binds the next parameters, one to eight, each as its C type says:
 *     KILN_BIND(&params, pool, id, limits->backoff_base_s); */
#define KILN_BIND(params, ...)                                                                     \
    KILN_BIND_COUNT(__VA_ARGS__, KILN_BIND_8, KILN_BIND_7, KILN_BIND_6, KILN_BIND_5, KILN_BIND_4,  \
                    KILN_BIND_3, KILN_BIND_2, KILN_BIND_1, 0)                                      \
    (params, __VA_ARGS__)
#define KILN_BIND_COUNT(a, b, c, d, e, f, g, h, macro, ...) macro
#define KILN_BIND_1(params, value)                                                                 \
    _Generic((value), char *: kiln_bind_text, const char *: kiln_bind_text, bool: kiln_bind_bool,  \
        double: kiln_bind_double, uint32_t: kiln_bind_u64, uint64_t: kiln_bind_u64,                \
        int: kiln_bind_i64, int64_t: kiln_bind_i64)(params, value)
#define KILN_BIND_2(params, value, ...) KILN_BIND_1(params, value), KILN_BIND_1(params, __VA_ARGS__)
#define KILN_BIND_3(params, value, ...) KILN_BIND_1(params, value), KILN_BIND_2(params, __VA_ARGS__)
#define KILN_BIND_4(params, value, ...) KILN_BIND_1(params, value), KILN_BIND_3(params, __VA_ARGS__)
#define KILN_BIND_5(params, value, ...) KILN_BIND_1(params, value), KILN_BIND_4(params, __VA_ARGS__)
#define KILN_BIND_6(params, value, ...) KILN_BIND_1(params, value), KILN_BIND_5(params, __VA_ARGS__)
#define KILN_BIND_7(params, value, ...) KILN_BIND_1(params, value), KILN_BIND_6(params, __VA_ARGS__)
#define KILN_BIND_8(params, value, ...) KILN_BIND_1(params, value), KILN_BIND_7(params, __VA_ARGS__)
/* Borrowed; NULL is SQL NULL.  In texts, here and in arrays, invalid UTF-8 becomes '?'. */
void kiln_bind_text(struct kiln_params *params, const char *text);
/* Copied; up to 79 bytes. */
void kiln_bind_copy(struct kiln_params *params, const char *text);
void kiln_bind_i64(struct kiln_params *params, int64_t value);
void kiln_bind_u64(struct kiln_params *params, uint64_t value);
void kiln_bind_double(struct kiln_params *params, double value);
void kiln_bind_bool(struct kiln_params *params, bool value);

/* An SQL array in the binary format, so that no byte of a text needs escaping. */
enum kiln_array_type {
    KILN_ARRAY_BOOL = 16, /* the server's type numbers */
    KILN_ARRAY_INT8 = 20,
    KILN_ARRAY_INT2 = 21,
    KILN_ARRAY_INT4 = 23,
    KILN_ARRAY_TEXT = 25,
    KILN_ARRAY_FLOAT8 = 701,
};
struct kiln_array {
    char *bytes;
    size_t len, size;
    uint32_t count;
    enum kiln_array_type type;
    bool short_of_memory;
};

void kiln_array_start(struct kiln_array *array, enum kiln_array_type type);
void kiln_array_text(struct kiln_array *array, const char *text); /* copied; NULL is SQL NULL */
void kiln_array_int(struct kiln_array *array, int64_t value);     /* BOOL and INTn */
void kiln_array_double(struct kiln_array *array, double value);
/* Binds an array with an element a row, which is an expression in i, of one of the types above:
 *     KILN_BIND_COLUMN(&params, INT8, count, (int64_t)lines[i].first); */
#define KILN_BIND_COLUMN(params, TYPE, count, element)                                             \
    do {                                                                                           \
        struct kiln_array column_;                                                                 \
        kiln_array_start(&column_, KILN_ARRAY_##TYPE);                                             \
        for (size_t i = 0; i < (count); i++)                                                       \
            KILN_ADD_##TYPE(&column_, element);                                                    \
        kiln_bind_array(params, &column_);                                                         \
    } while (0)
#define KILN_ADD_BOOL kiln_array_int
#define KILN_ADD_INT2 kiln_array_int
#define KILN_ADD_INT4 kiln_array_int
#define KILN_ADD_INT8 kiln_array_int
#define KILN_ADD_TEXT kiln_array_text
#define KILN_ADD_FLOAT8 kiln_array_double
/* Moves the array into params, which frees it. */
void kiln_bind_array(struct kiln_params *params, struct kiln_array *array);
/* Frees the arrays bound so far; ready for new parameters. */
void kiln_params_release(struct kiln_params *params);

/* --- running --------------------------------------------------------------------------------- */
/* Runs the statement as one transaction.  *ret (may be NULL) is the result; free with PQclear.  A
 * lost connection is made again and the statement repeated once; after a deadlock it is repeated
 * too.  So a statement must be safe to repeat.  Does not release params. */
int kiln_ledger_run(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                    const struct kiln_params *params, PGresult **ret,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* The same for a statement that returns one number: 0 for no row, or SQL NULL. */
int kiln_ledger_run_number(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                           const struct kiln_params *params, int64_t *ret,
                           struct kiln_error *err) KILN_MUST_CHECK;

/* The same for a statement that the database refuses if others remove or reference its rows at that
 * moment (a favourite whose picture is being removed): it is repeated a few times on
 * KILN_BAD_INPUT. */
int kiln_ledger_run_agreed(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                           const struct kiln_params *params, PGresult **ret,
                           struct kiln_error *err) KILN_MUST_CHECK;

/* Runs the statement once for each of count parameter sets and `last` (without parameters) after
 * them, in one round trip, each its own transaction.  ret[count]: the results.  After an error any
 * number of them may have been carried out. */
int kiln_ledger_run_many(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                         const struct kiln_params *params, size_t count,
                         const struct kiln_statement *last, PGresult **ret,
                         struct kiln_error *err) KILN_MUST_CHECK;

/* Reads a result of any size through a cursor, a thousand rows at a time: each(arg, rows, row) for
 * every row, in one snapshot.  A non-zero return of each ends it and is returned (each fills err).
 */
typedef int kiln_each_row(void *arg, const PGresult *rows, int row, struct kiln_error *err);
int kiln_ledger_each(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                     const struct kiln_params *params, kiln_each_row *each, void *arg,
                     struct kiln_error *err) KILN_MUST_CHECK;

/* The same where the statement locks rows: they stay locked until the walk has ended, up to ten
 * minutes between two rows.  For at most a thousand rows, which are locked before the first call.
 */
int kiln_ledger_each_locked(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                            const struct kiln_params *params, kiln_each_row *each, void *arg,
                            struct kiln_error *err) KILN_MUST_CHECK;

/* A page of a list, in one statement: each row up to page->rows_max, as kiln_ledger_each
 * (read/reader.h). The statement's first columns are the keys.  Its last parameters are the keys to
 * go on behind and LIMIT, which this binds behind those of the caller: SELECT id, ... FROM job
 * WHERE pool = $1 AND id > $2::bigint ORDER BY id LIMIT $3 */
struct kiln_page;
int kiln_ledger_page(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                     struct kiln_params *params, struct kiln_page *page, kiln_each_row *each,
                     void *arg, struct kiln_error *err) KILN_MUST_CHECK;

/* --- fields of a row ------------------------------------------------------------------------- */
const char *kiln_row_text(const PGresult *rows, int row,
                          int column);                           /* NULL for SQL NULL; borrowed */
int64_t kiln_row_i64(const PGresult *rows, int row, int column); /* 0 for SQL NULL */
uint64_t kiln_row_u64(const PGresult *rows, int row, int column);
double kiln_row_double(const PGresult *rows, int row, int column);
bool kiln_row_bool(const PGresult *rows, int row, int column);
int kiln_row_minute(const PGresult *rows, int row, int column); /* of a day; -1 for SQL NULL */
/* Copies into a fixed array; cut to fit; "" for SQL NULL. */
void kiln_row_copy(const PGresult *rows, int row, int column, char *out, size_t size);

/* The assigned jobs j with their assignments a; goes after FROM. */
#define KILN_ASSIGNED_JOBS                                                                         \
    "assignment a CROSS JOIN LATERAL unnest(a.jobs) u (id) "                                       \
    "JOIN job j ON j.id = u.id AND j.state = " KILN_SQL_ASSIGNED " AND j.assignment = a.id"

/* The columns of a whole job record, from `job j JOIN batch b`, and the record made of them.
 * ret is zeroed first; release it with kiln_job_release. */
#define KILN_JOB_COLUMNS                                                                           \
    "j.id, j.batch_id, b.name, j.custom_id, j.index, j.prompt, j.negative_prompt, j.style, "       \
    "j.tenant, j.model, j.width, j.height, j.steps, j.guidance, j.seed, j.loras, j.lora_auto, "    \
    "j.priority, j.max_wait_s, j.kind, j.latents, j.teleport, j.embed_metadata, j.state, "         \
    "j.attempt, (extract(epoch FROM j.created_at) * 1000)::bigint, j.sigmas"
#define KILN_JOB_COLUMN_COUNT 27
int kiln_row_job(const PGresult *rows, int row, struct kiln_job *ret,
                 struct kiln_error *err) KILN_MUST_CHECK;

/* For each state, a comma before it: the columns of batch_tally, their sums, and what adds to the
 * row t. kiln_row_counts reads the sums. */
#define KILN_TALLY_COLUMN(state, name, number) ", " #name
#define KILN_TALLY_SUM(state, name, number) ", coalesce(sum(" #name "), 0)::bigint AS " #name
#define KILN_TALLY_ADD(state, name, number) ", " #name " = t." #name " + excluded." #name
void kiln_row_counts(const PGresult *rows, int row, int first, uint64_t ret[KILN_JOB_STATE_COUNT]);

/* Counts the cancelled jobs of a batch whose rows gc removed and that have not come in again.
 * batch: its id as SQL. */
#define KILN_REMOVED_JOBS(batch)                                                                   \
    "(SELECT count(*) FROM removed_job r WHERE r.batch_id = " batch " AND NOT EXISTS"              \
    " (SELECT FROM job j WHERE j.batch_id = r.batch_id AND j.key = r.key))"

/* The settings for returned jobs. */
struct kiln_ledger_limits {
    int64_t max_attempts;
    double backoff_base_s, backoff_max_s;
};
const struct kiln_ledger_limits *kiln_ledger_limits(const struct kiln_ledger *ledger);

#endif
