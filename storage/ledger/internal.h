/* internal.h - what the files of the ledger share: statements, parameters, results.
 *
 * Not for callers outside storage/.  A query is a static struct kiln_statement.  Its parameters are
 * bound in the order $1, $2, ..., and kiln_ledger_run does the rest: it connects, prepares the
 * statement once a connection (a reading session mostly sends its text), keeps the time limit, and
 * maps the SQLSTATE to a code.
 *
 *     static const struct kiln_statement oldest = {
 *         "oldest", "SELECT min(id), count(*) FROM job WHERE pool = $1"};
 *     struct kiln_params params = {0};
 *     KILN_BIND(&params, pool);
 *     return kiln_ledger_ask(ledger, &oldest, &params, KILN_FIELDS(*ret_id, *ret_count), err);
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
/* The name of a statement whose plan is the same for all values: a reading session prepares it too,
 * and plans it once like a session of the queue (pg.c). */
#define KILN_PLANNED_ONCE(name) KILN_PLANNED_ONCE_PREFIX name
#define KILN_PLANNED_ONCE_PREFIX "once:"
/* Likewise, and the columns of its rows come in the binary format, for PQgetvalue and PQgetlength:
 * for much bytea, which is twice as long as text. */
#define KILN_BINARY_ROWS(name) KILN_BINARY_ROWS_PREFIX name
#define KILN_BINARY_ROWS_PREFIX KILN_PLANNED_ONCE_PREFIX "binary:"

/* Of a row of latent: whether its run was whole, exact or coarse first, without start and donor. */
#define KILN_SQL_WHOLE(l)                                                                          \
    "(" l ".mode = '' OR " l ".mode LIKE 'coarse=%' AND " l ".mode NOT LIKE '%,%')"

/* Whether the set of a row of job or latent is one LoRA whose file is known (kiln_lora_set_key). */
#define KILN_SQL_ONE_LORA(row) "(" row ".lora_set ~ '^[^+]+@[0-9a-f]{16}$')"
/* Of a row of latent: no LoRA, or one, and rendered with the file that its set names. */
#define KILN_SQL_DONOR_LORA(l)                                                                     \
    "(" l ".lora_set = '' OR " KILN_SQL_ONE_LORA(l) " AND coalesce(cardinality(" l                 \
                                                    ".lora_files) = 1 AND left(split_part(" l      \
                                                    ".lora_files[1], ':', 2), 16) = right(" l      \
                                                    ".lora_set, 16), false))"
_Static_assert(KILN_LORA_KEY_DIGITS == 16, "as in KILN_SQL_ONE_LORA and KILN_SQL_DONOR_LORA");

/* Of a row of image: the steps, at full size, and the GPU-seconds that a run from a donor saved
 * against the job's own mode; below 0 where a run from it was given up.  The seconds are those that
 * the steps would have taken at the measured pace of the steps that did run. */
#define KILN_SQL_SAVED(what)                                                                       \
    "CASE WHEN donor IS NOT NULL AND forwards > 0"                                                 \
    " AND (fallback IS NULL OR fallback = '" KILN_REUSE_UNLIKE "') THEN (" what ")::float8 "       \
    "ELSE 0 END"
#define KILN_SQL_SAVED_STEPS KILN_SQL_SAVED("coalesce(own_forwards, steps) - forwards")
#define KILN_SQL_SAVED_SECONDS                                                                     \
    KILN_SQL_SAVED("denoise_ms * (coalesce(own_forwards, steps) / forwards - 1) / 1000")

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

/* Applies macro(with, value) to each of up to sixteen values, with commas between. */
#define KILN_MAP(macro, with, ...)                                                                 \
    KILN_MAP_COUNT(__VA_ARGS__, KILN_MAP_16, KILN_MAP_15, KILN_MAP_14, KILN_MAP_13, KILN_MAP_12,   \
                   KILN_MAP_11, KILN_MAP_10, KILN_MAP_9, KILN_MAP_8, KILN_MAP_7, KILN_MAP_6,       \
                   KILN_MAP_5, KILN_MAP_4, KILN_MAP_3, KILN_MAP_2, KILN_MAP_1, 0)                  \
    (macro, with, __VA_ARGS__)
#define KILN_MAP_COUNT(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, map, ...) map
#define KILN_MAP_1(m, with, a) m(with, a)
#define KILN_MAP_2(m, with, a, ...) m(with, a), KILN_MAP_1(m, with, __VA_ARGS__)
#define KILN_MAP_3(m, with, a, ...) m(with, a), KILN_MAP_2(m, with, __VA_ARGS__)
#define KILN_MAP_4(m, with, a, ...) m(with, a), KILN_MAP_3(m, with, __VA_ARGS__)
#define KILN_MAP_5(m, with, a, ...) m(with, a), KILN_MAP_4(m, with, __VA_ARGS__)
#define KILN_MAP_6(m, with, a, ...) m(with, a), KILN_MAP_5(m, with, __VA_ARGS__)
#define KILN_MAP_7(m, with, a, ...) m(with, a), KILN_MAP_6(m, with, __VA_ARGS__)
#define KILN_MAP_8(m, with, a, ...) m(with, a), KILN_MAP_7(m, with, __VA_ARGS__)
#define KILN_MAP_9(m, with, a, ...) m(with, a), KILN_MAP_8(m, with, __VA_ARGS__)
#define KILN_MAP_10(m, with, a, ...) m(with, a), KILN_MAP_9(m, with, __VA_ARGS__)
#define KILN_MAP_11(m, with, a, ...) m(with, a), KILN_MAP_10(m, with, __VA_ARGS__)
#define KILN_MAP_12(m, with, a, ...) m(with, a), KILN_MAP_11(m, with, __VA_ARGS__)
#define KILN_MAP_13(m, with, a, ...) m(with, a), KILN_MAP_12(m, with, __VA_ARGS__)
#define KILN_MAP_14(m, with, a, ...) m(with, a), KILN_MAP_13(m, with, __VA_ARGS__)
#define KILN_MAP_15(m, with, a, ...) m(with, a), KILN_MAP_14(m, with, __VA_ARGS__)
#define KILN_MAP_16(m, with, a, ...) m(with, a), KILN_MAP_15(m, with, __VA_ARGS__)

/* Binds the next parameters, up to sixteen, each as its C type says:
 *     KILN_BIND(&params, pool, id, limits->backoff_base_s); */
#define KILN_BIND(params, ...) KILN_MAP(KILN_BIND_ONE, params, __VA_ARGS__)
#define KILN_BIND_ONE(params, value)                                                               \
    _Generic((value), char *: kiln_bind_text, const char *: kiln_bind_text, bool: kiln_bind_bool,  \
        double: kiln_bind_double, uint32_t: kiln_bind_u64, uint64_t: kiln_bind_u64,                \
        int: kiln_bind_i64, int64_t: kiln_bind_i64)(params, value)
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
    KILN_BIND_ROWS(kiln_bind_array, params, TYPE, count, element)
/* The same, but one element stands for all rows if they agree. */
#define KILN_BIND_SHARED(params, TYPE, count, element)                                             \
    KILN_BIND_ROWS(kiln_bind_shared, params, TYPE, count, element)
#define KILN_BIND_ROWS(bind, params, TYPE, count, element)                                         \
    do {                                                                                           \
        struct kiln_array column_;                                                                 \
        kiln_array_start(&column_, KILN_ARRAY_##TYPE);                                             \
        for (size_t i = 0; i < (count); i++)                                                       \
            KILN_ADD_##TYPE(&column_, element);                                                    \
        bind(params, &column_);                                                                    \
    } while (0)
#define KILN_ADD_BOOL kiln_array_int
#define KILN_ADD_INT2 kiln_array_int
#define KILN_ADD_INT4 kiln_array_int
#define KILN_ADD_INT8 kiln_array_int
#define KILN_ADD_TEXT kiln_array_text
#define KILN_ADD_TID kiln_array_int
#define KILN_ADD_FLOAT8 kiln_array_double
/* Moves the array into params, which frees it. */
void kiln_bind_array(struct kiln_params *params, struct kiln_array *array);
/* The same, but only the first element of several that are all the same. */
void kiln_bind_shared(struct kiln_params *params, struct kiln_array *array);
/* Frees the arrays bound so far; ready for new parameters. */
void kiln_params_release(struct kiln_params *params);

/* --- fields of a row ------------------------------------------------------------------------- */
/* The fields that take the columns of a row in their order, up to sixteen, each as its C type says.
 * For SQL NULL a number is 0 and a pointer NULL.  A char array takes as much of the text as fits, a
 * const char * is lent until PQclear, a char * is malloc'd. */
#define KILN_FIELDS(...)                                                                           \
    (const struct kiln_field[])                                                                    \
    {                                                                                              \
        KILN_MAP(KILN_FIELD, , __VA_ARGS__), KILN_FIELDS_END                                       \
    }
#define KILN_FIELDS_END                                                                            \
    {                                                                                              \
        .to = NULL                                                                                 \
    }
#define KILN_FIELD(with, field)                                                                    \
    {                                                                                              \
        KILN_FIELD_TYPE(field), &(field), sizeof(field)                                            \
    }
#define KILN_FIELD_TYPE(field)                                                                     \
    _Generic(&(field), char **: KILN_FIELD_OWN, default: _Generic((field), char *: KILN_FIELD_COPY,\
        const char *: KILN_FIELD_LENT, bool: KILN_FIELD_BOOL, double: KILN_FIELD_DOUBLE,           \
        int32_t: KILN_FIELD_INT, int64_t: KILN_FIELD_INT, uint32_t: KILN_FIELD_UINT,               \
        uint64_t: KILN_FIELD_UINT))
enum kiln_field_type {
    KILN_FIELD_OWN,
    KILN_FIELD_COPY,
    KILN_FIELD_LENT,
    KILN_FIELD_BOOL,
    KILN_FIELD_DOUBLE,
    KILN_FIELD_INT,
    KILN_FIELD_UINT
};
struct kiln_field {
    enum kiln_field_type type;
    void *to; /* NULL ends a list of fields */
    size_t size;
};
/* Reads the columns from `first` on.  False: no memory for a malloc'd text. */
bool kiln_row_read(const PGresult *rows, int row, int first, const struct kiln_field *fields);
#define KILN_READ(rows, row, first, ...) kiln_row_read(rows, row, first, KILN_FIELDS(__VA_ARGS__))

/* One field: NULL for SQL NULL, and lent; the others 0. */
const char *kiln_row_text(const PGresult *rows, int row, int column);
int64_t kiln_row_i64(const PGresult *rows, int row, int column);
uint64_t kiln_row_u64(const PGresult *rows, int row, int column);
bool kiln_row_bool(const PGresult *rows, int row, int column);
/* A bytea in the text form of Postgres, "\\x00ff".  False: not exactly `size` bytes; NULL has none.
 */
bool kiln_row_bytes(const char *text, uint8_t *ret, size_t size);

/* --- running --------------------------------------------------------------------------------- */
/* All of these release params, whatever comes. */

/* Runs the statement as one transaction.  *ret (may be NULL) is the result; free with PQclear.  A
 * lost connection is made again and the statement repeated once; after a deadlock it is repeated
 * too.  So a statement must be safe to repeat. */
int kiln_ledger_run(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                    struct kiln_params *params, PGresult **ret,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* The same, and reads the first row, or NULLs if there is none.  No field may be lent. */
int kiln_ledger_ask(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                    struct kiln_params *params, const struct kiln_field *fields,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* As kiln_ledger_run, for a statement that the database refuses if others remove or reference its
 * rows at that moment (a favourite whose picture is being removed): it is repeated a few times on
 * KILN_BAD_INPUT. */
int kiln_ledger_run_agreed(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                           struct kiln_params *params, PGresult **ret,
                           struct kiln_error *err) KILN_MUST_CHECK;

/* Sends the statement and leaves the answer to kiln_ledger_end, so that the caller can work while
 * the server does.  Any other call waits for the answer first and keeps it: the server sees the
 * statements in their order.  One at a time.  Nothing is sent a second time, whatever fails. */
int kiln_ledger_begin(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                      struct kiln_params *params, struct kiln_error *err) KILN_MUST_CHECK;
/* After a kiln_ledger_begin that returned 0; *ret is the caller's to clear. */
int kiln_ledger_end(struct kiln_ledger *ledger, PGresult **ret,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* Runs the statement once for each of count parameter sets and `last` (without parameters) after
 * them, in one round trip, each its own transaction.  ret[count]: the results.  After an error any
 * number of them may have been carried out. */
int kiln_ledger_run_many(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                         struct kiln_params *params, size_t count,
                         const struct kiln_statement *last, PGresult **ret,
                         struct kiln_error *err) KILN_MUST_CHECK;

/* What is called with every row of a result; it fills err.  A non-zero return ends the reading and
 * is returned. */
typedef int kiln_each_row(void *arg, const PGresult *rows, int row, struct kiln_error *err);

/* The callback of a caller, of whatever type, as the arg of a kiln_each_row that knows the type:
 *     return ((kiln_each_quota *)caller->each)(caller->arg, &quota, err); */
struct kiln_caller {
    void (*each)(void);
    void *arg;
    uint64_t rows; /* for whoever counts */
};
#define KILN_CALLER(each, arg) (&(struct kiln_caller){(void (*)(void))(each), arg, 0})

/* For a short list: reads it as a whole, and then calls each. */
int kiln_ledger_run_each(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                         struct kiln_params *params, kiln_each_row *each, void *arg,
                         struct kiln_error *err) KILN_MUST_CHECK;

/* Reads a result of any size through a cursor, a thousand rows at a time, in one snapshot. */
int kiln_ledger_each(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                     struct kiln_params *params, kiln_each_row *each, void *arg,
                     struct kiln_error *err) KILN_MUST_CHECK;

/* The same for a load of many rows: the server works on the next thousand while `each` is called.
 * So `each` must not use the session, and must be quick: it shares a statement's time limit. */
int kiln_ledger_each_ahead(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                           struct kiln_params *params, kiln_each_row *each, void *arg,
                           struct kiln_error *err) KILN_MUST_CHECK;

/* The same where the statement locks rows: they stay locked until the walk has ended, up to ten
 * minutes between two rows.  For at most a thousand rows, which are locked before the first call.
 */
int kiln_ledger_each_locked(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                            struct kiln_params *params, kiln_each_row *each, void *arg,
                            struct kiln_error *err) KILN_MUST_CHECK;

/* A page of a list, in one statement: each row up to page->rows_max (read/reader.h).  The
 * statement's first columns are the keys.  Its last parameters are the keys to go on behind and
 * LIMIT, which this binds behind those of the caller: SELECT id, ... FROM job
 * WHERE pool = $1 AND id > $2::bigint ORDER BY id LIMIT $3 */
struct kiln_page;
int kiln_ledger_page(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                     struct kiln_params *params, struct kiln_page *page, kiln_each_row *each,
                     void *arg, struct kiln_error *err) KILN_MUST_CHECK;

/* --- pieces of statements -------------------------------------------------------------------- */
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
    "j.attempt, (extract(epoch FROM j.created_at) * 1000)::bigint, j.sigmas, j.mode, "             \
    "j.init_image, j.init_job, j.parent, j.init_mask, j.alike, j.prompt_drawn, j.route"
#define KILN_JOB_COLUMN_COUNT 35
int kiln_row_job(const PGresult *rows, int row, struct kiln_job *ret,
                 struct kiln_error *err) KILN_MUST_CHECK;

/* Whether the job, an alias as text, keeps the picture that it starts from, and the mask on it, in
 * the store: until it is done it may still be rendered, and afterwards as long as its picture or
 * latent is kept. */
#define KILN_JOB_KEEPS_INPUT(job)                                                                  \
    "(" job ".state <> " KILN_SQL_DONE " OR EXISTS (SELECT FROM image WHERE job_id = " job ".id)"  \
    " OR EXISTS (SELECT FROM latent WHERE job_id = " job ".id))"

/* For each state, a comma before it: the columns of batch_tally, their sums, and what adds to the
 * row t. kiln_row_counts reads the sums. */
#define KILN_TALLY_COLUMN(state, name, number) ", " #name
#define KILN_TALLY_COLUMNS KILN_JOB_STATES(KILN_TALLY_COLUMN)
#define KILN_TALLY_SUM(state, name, number) ", coalesce(sum(" #name "), 0)::bigint AS " #name
#define KILN_TALLY_SUMS KILN_JOB_STATES(KILN_TALLY_SUM)
#define KILN_TALLY_ADD(state, name, number) ", " #name " = t." #name " + excluded." #name
#define KILN_TALLY_ADDS KILN_JOB_STATES(KILN_TALLY_ADD)
void kiln_row_counts(const PGresult *rows, int row, int first, uint64_t ret[KILN_JOB_STATE_COUNT]);

/* Over the rows of intake_call of a batch: whether all jobs that its calls announced were taken in.
 * NULL for a batch without a call. */
#define KILN_INTAKE_WHOLE                                                                          \
    "bool_and(token = '' OR"                                                                       \
    " (announced IS NOT NULL AND accepted + duplicate + refused >= announced))"

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
/* Whether some of the jobs that this connection inserted last were there already; intake.c's. */
bool *kiln_ledger_met_known(struct kiln_ledger *ledger);

#endif
