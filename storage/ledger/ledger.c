/* ledger.c - the ledger's connection: opening, the schema check, leadership, running statements.
 *
 * kiln_ledger_run is the one way to the server.  It may send a statement twice: when the connection
 * turned out to be dead, nobody knows whether the first one was carried out.  That is safe because
 * every statement may be repeated: the identity (batch, key), the attempt or the assignment id
 * decides what it does.
 *
 * A leader is the exception.  Its lock belongs to the server's session, so a new connection would
 * write without the lock, beside the next leader.  Once a leader's connection is lost, nothing is
 * sent until kiln_ledger_stand_down.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/daemon/stopwatch.h"
#include "storage/ledger/internal.h"
#include "storage/ledger/migrate.h"
#include "storage/ledger/pg.h"

#define DEADLOCK_TRIES 5
#define AGREE_TRIES 4
#define TAKEN_ROWS 64         /* of one page, before what has arrived of the next one is taken */
#define LEAD_IDLE_MIN_MS 3000 /* a leader confirms its lock every half second */

/* The statement of kiln_ledger_begin. */
struct begun {
    const struct kiln_statement *statement; /* NULL: there is none */
    int64_t started;
    bool answered; /* what follows is there */
    int rc;
    PGresult *rows;
    struct kiln_error err;
};

struct kiln_ledger {
    struct kiln_pg pg;
    struct begun begun;
    struct kiln_ledger_limits limits;
    int64_t lead_idle_ms; /* silence that ends a leader's session */
    uint64_t leads_in;    /* the connection (its generation) that holds the leader lock; 0 = none */
    bool met_known;
};

static int open_session(const struct kiln_config *config, const char *name, bool reading,
                        struct kiln_ledger **ret, struct kiln_error *err)
{
    struct kiln_ledger *ledger = calloc(1, sizeof *ledger);
    if (!ledger)
        return kiln_fail(err, KILN_NO_MEMORY, "ledger: no memory");
    int rc = kiln_pg_init(&ledger->pg, config, name, err);
    if (rc != 0) {
        free(ledger);
        return rc;
    }
    ledger->pg.reading = reading;
    ledger->limits = (struct kiln_ledger_limits){
        .max_attempts = kiln_config_int(config, KILN_KEY_MAX_ATTEMPTS),
        .backoff_base_s = kiln_config_number(config, KILN_KEY_BACKOFF_BASE_S),
        .backoff_max_s = kiln_config_number(config, KILN_KEY_BACKOFF_MAX_S),
    };
    double idle_ms = kiln_config_number(config, KILN_KEY_LEASE_S) * 1500;
    ledger->lead_idle_ms = idle_ms > LEAD_IDLE_MIN_MS ? (int64_t)idle_ms : LEAD_IDLE_MIN_MS;
    *ret = ledger;
    return 0;
}

int kiln_ledger_open(const struct kiln_config *config, const char *name, struct kiln_ledger **ret,
                     struct kiln_error *err)
{
    return open_session(config, name, false, ret, err);
}

int kiln_ledger_open_reading(const struct kiln_config *config, const char *name, int64_t limit_ms,
                             struct kiln_ledger **ret, struct kiln_error *err)
{
    int rc = open_session(config, name, true, ret, err);
    if (rc == 0 && limit_ms)
        (*ret)->pg.statement_ms = limit_ms;
    return rc;
}

void kiln_ledger_in_background(struct kiln_ledger *ledger)
{
    ledger->pg.background = true;
}

const struct kiln_ledger_limits *kiln_ledger_limits(const struct kiln_ledger *ledger)
{
    return &ledger->limits;
}

bool *kiln_ledger_met_known(struct kiln_ledger *ledger)
{
    return &ledger->met_known;
}

void kiln_ledger_close(struct kiln_ledger *ledger)
{
    if (!ledger)
        return;
    kiln_pg_release(&ledger->pg);
    PQclear(ledger->begun.rows);
    free(ledger);
}

/* --- running a statement --------------------------------------------------------------------- */

/* Makes the statement known to this connection, once.  The types of parameters are left to the
 * server, which takes them from the casts in the text. */
static int prepare(struct kiln_pg *pg, const struct kiln_statement *statement,
                   struct kiln_error *err)
{
    for (int i = 0; i < pg->prepared_count; i++)
        if (pg->prepared[i] == statement)
            return 0;
    if (pg->prepared_count == KILN_PG_PREPARED_MAX)
        return kiln_fail(err, KILN_INTERNAL, "ledger: more than %d kinds of statements",
                         KILN_PG_PREPARED_MAX);
    if (!PQsendPrepare(pg->conn, statement->name, statement->sql, 0, NULL))
        return kiln_pg_fail(pg, NULL, "prepare", err);
    int rc = kiln_pg_finish(pg, 0, NULL, err);
    if (rc == 0)
        pg->prepared[pg->prepared_count++] = statement;
    return rc;
}

/* Planned with these values, for this once. */
static int send_text(struct kiln_pg *pg, const char *sql, const struct kiln_params *params)
{
    return PQsendQueryParams(pg->conn, sql, params->count, NULL, params->values, params->lengths,
                             params->formats, 0);
}

/* Records the time of a request for the metrics. */
static void note(enum kiln_ledger_way way, int rc, int64_t started)
{
    kiln_stopwatch_note(KILN_METRIC_LEDGER_SECONDS, way, KILN_METRIC_LEDGER_ERRORS, rc, started);
}

/* Waits for the answer to the statement that was begun. */
static void answer_begun(struct kiln_ledger *ledger)
{
    struct begun *begun = &ledger->begun;
    if (!begun->statement || begun->answered)
        return;
    begun->rc = kiln_pg_finish(&ledger->pg, 0, &begun->rows, &begun->err);
    begun->answered = true;
    note(KILN_LEDGER_STATEMENT, begun->rc, begun->started);
}

/* Connects if needed; a leader may not connect again, since that loses its lock. */
static int reach(struct kiln_ledger *ledger, struct kiln_error *err)
{
    struct kiln_pg *pg = &ledger->pg;
    answer_begun(ledger);
    bool same =
        pg->conn && PQstatus(pg->conn) == CONNECTION_OK && ledger->leads_in == pg->generation;
    if (ledger->leads_in && !same)
        return kiln_fail(err, KILN_STALE,
                         "Postgres: the connection that held the leader's lock is lost");
    return kiln_pg_connect(pg, err);
}

static bool is_named(const struct kiln_statement *statement, const char *prefix)
{
    return strncmp(statement->name, prefix, strlen(prefix)) == 0;
}

static bool is_prepared(const struct kiln_pg *pg, const struct kiln_statement *statement)
{
    return !pg->reading || is_named(statement, KILN_PLANNED_ONCE_PREFIX);
}

/* Connects if needed and sends. */
static int send_once(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                     const struct kiln_params *params, struct kiln_error *err)
{
    struct kiln_pg *pg = &ledger->pg;
    const bool prepared = is_prepared(pg, statement);
    int rc = reach(ledger, err);
    if (rc == 0)
        rc = kiln_pg_plan_once(pg, prepared, err);
    if (rc == 0 && prepared)
        rc = prepare(pg, statement, err);
    if (rc != 0)
        return rc;
    int sent = !prepared ? send_text(pg, statement->sql, params)
                         : PQsendQueryPrepared(pg->conn, statement->name, params->count,
                                               params->values, params->lengths, params->formats,
                                               is_named(statement, KILN_BINARY_ROWS_PREFIX));
    return sent ? 0 : kiln_pg_fail(pg, NULL, "send", err);
}

/* One attempt. */
static int run_once(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                    const struct kiln_params *params, PGresult **ret, struct kiln_error *err)
{
    int rc = send_once(ledger, statement, params, err);
    return rc ? rc : kiln_pg_finish(&ledger->pg, 0, ret, err);
}

/* Whether to repeat a failed attempt at once: one time if the connection turned out to be dead, a
 * few times after a deadlock. */
struct repeats {
    bool was_connected, reconnected;
    int deadlocks;
};

static bool repeat(struct repeats *repeats, const struct kiln_ledger *ledger, int rc)
{
    const struct kiln_pg *pg = &ledger->pg;
    if (rc != KILN_UNAVAILABLE || (ledger->leads_in && !pg->conn))
        return false;
    if (repeats->was_connected && !pg->conn && !repeats->reconnected)
        return repeats->reconnected = true;
    return strncmp(pg->sqlstate, "40", 2) == 0 && ++repeats->deadlocks < DEADLOCK_TRIES;
}

static int run(struct kiln_ledger *ledger, const struct kiln_statement *statement,
               const struct kiln_params *params, PGresult **ret, struct kiln_error *err)
{
    struct repeats repeats = {0};
    int rc;
    if (params->short_of_memory)
        return kiln_fail(err, KILN_NO_MEMORY, "ledger, %s: no memory", statement->name);
    int64_t started = kiln_stopwatch_start();
    do {
        repeats.was_connected = ledger->pg.conn != NULL;
        rc = run_once(ledger, statement, params, ret, err);
    } while (repeat(&repeats, ledger, rc));
    note(KILN_LEDGER_STATEMENT, rc, started);
    return rc ? kiln_fail_in(err, "ledger, %s", statement->name) : 0;
}

int kiln_ledger_run(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                    struct kiln_params *params, PGresult **ret, struct kiln_error *err)
{
    int rc = run(ledger, statement, params, ret, err);
    kiln_params_release(params);
    return rc;
}

int kiln_ledger_begin(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                      struct kiln_params *params, struct kiln_error *err)
{
    const int64_t started = kiln_stopwatch_start();
    int rc = params->short_of_memory ? kiln_fail(err, KILN_NO_MEMORY, "no memory") : 0;
    rc = rc ? rc : send_once(ledger, statement, params, err);
    rc = rc ? rc : kiln_pg_sent(&ledger->pg, err);
    kiln_params_release(params);
    if (rc)
        return kiln_fail_in(err, "ledger, %s", statement->name);
    ledger->begun = (struct begun){.statement = statement, .started = started};
    return 0;
}

int kiln_ledger_end(struct kiln_ledger *ledger, PGresult **ret, struct kiln_error *err)
{
    answer_begun(ledger);
    const struct begun begun = ledger->begun;
    ledger->begun = (struct begun){0};
    if (begun.rc == 0) {
        *ret = begun.rows;
        return 0;
    }
    return kiln_fail(err, begun.rc, "ledger, %s: %s", begun.statement->name, begun.err.text);
}

int kiln_ledger_run_agreed(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                           struct kiln_params *params, PGresult **ret, struct kiln_error *err)
{
    int rc = KILN_BAD_INPUT;
    for (int i = 0; i < AGREE_TRIES && rc == KILN_BAD_INPUT; i++)
        rc = run(ledger, statement, params, ret, err);
    kiln_params_release(params);
    return rc;
}

int kiln_ledger_ask(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                    struct kiln_params *params, const struct kiln_field *fields,
                    struct kiln_error *err)
{
    PGresult *rows;
    int rc = kiln_ledger_run(ledger, statement, params, &rows, err);
    if (rc)
        return rc;
    kiln_row_read(rows, 0, 0, fields);
    PQclear(rows);
    return 0;
}

int kiln_ledger_run_each(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                         struct kiln_params *params, kiln_each_row *each, void *arg,
                         struct kiln_error *err)
{
    PGresult *rows = NULL;
    int rc = kiln_ledger_run(ledger, statement, params, &rows, err);
    for (int row = 0; rc == 0 && row < PQntuples(rows); row++)
        rc = each(arg, rows, row, err);
    PQclear(rows);
    return rc;
}

/* --- several at once ------------------------------------------------------------------------- */

static void clear_all(PGresult **results, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        PQclear(results[i]);
        results[i] = NULL;
    }
}

/* The statement for each of params, then `last`, each with a sync point: transactions of their own.
 */
static int send_all(struct kiln_pg *pg, const struct kiln_statement *statement,
                    const struct kiln_params *params, size_t count,
                    const struct kiln_statement *last, struct kiln_error *err)
{
    static const struct kiln_params none;
    for (size_t i = 0; i <= count; i++) {
        const struct kiln_params *at = i < count ? &params[i] : &none;
        const char *name = i < count ? statement->name : last->name;
        if (!PQsendQueryPrepared(pg->conn, name, at->count, at->values, at->lengths, at->formats,
                                 0) ||
            !PQpipelineSync(pg->conn))
            return kiln_pg_fail(pg, NULL, "send", err);
    }
    return 0;
}

/* libpq's pipeline mode: sends all, then reads all.  After a failure the connection is dropped,
 * because unread answers may remain in the pipeline. */
static int run_many_once(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                         const struct kiln_params *params, size_t count,
                         const struct kiln_statement *last, PGresult **ret, struct kiln_error *err)
{
    struct kiln_pg *pg = &ledger->pg;
    int rc = reach(ledger, err);
    if (rc == 0)
        rc = prepare(pg, statement, err);
    if (rc == 0)
        rc = prepare(pg, last, err);
    if (rc != 0)
        return rc;
    if (!PQenterPipelineMode(pg->conn))
        return kiln_pg_fail(pg, NULL, "pipeline", err);
    rc = send_all(pg, statement, params, count, last, err);
    for (size_t i = 0; i <= count && rc == 0; i++)
        rc = kiln_pg_pipelined(pg, i < count ? &ret[i] : NULL, err);
    if (rc == 0 && !PQexitPipelineMode(pg->conn))
        rc = kiln_pg_fail(pg, NULL, "pipeline", err);
    if (rc != 0) {
        kiln_pg_drop(pg); /* answers still to come would meet the wrong question */
        clear_all(ret, count);
    }
    return rc;
}

int kiln_ledger_run_many(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                         struct kiln_params *params, size_t count,
                         const struct kiln_statement *last, PGresult **ret, struct kiln_error *err)
{
    struct repeats repeats = {0};
    int rc = 0;
    for (size_t i = 0; i < count; i++) {
        ret[i] = NULL;
        if (params[i].short_of_memory)
            rc = kiln_fail(err, KILN_NO_MEMORY, "no memory");
    }
    int64_t started = kiln_stopwatch_start();
    if (rc == 0) {
        do {
            repeats.was_connected = ledger->pg.conn != NULL;
            rc = run_many_once(ledger, statement, params, count, last, ret, err);
        } while (repeat(&repeats, ledger, rc));
        note(KILN_LEDGER_PIPELINE, rc, started);
    }
    for (size_t i = 0; i < count; i++)
        kiln_params_release(&params[i]);
    return rc ? kiln_fail_in(err, "ledger, %s", statement->name) : 0;
}

/* --- reading through a cursor ---------------------------------------------------------------- */

/* Cursors cannot be prepared: the statement's text is sent with its parameters. */
static int declare(struct kiln_pg *pg, const struct kiln_statement *statement,
                   const struct kiln_params *params, struct kiln_error *err)
{
    size_t size = strlen(statement->sql) + 64;
    char *sql = params->short_of_memory ? NULL : malloc(size);
    if (!sql)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory");
    snprintf(sql, size, "DECLARE kiln_rows NO SCROLL CURSOR FOR %s", statement->sql);
    int sent = send_text(pg, sql, params);
    free(sql);
    return sent ? kiln_pg_finish(pg, 0, NULL, err) : kiln_pg_fail(pg, NULL, "send", err);
}

/* Calls each for every row.  ahead: the next page of rows is on its way, and what has arrived of it
 * is taken now and then, because the server stops once the socket is full.  *ret_callers: the error
 * is each()'s own. */
static int each_of(struct kiln_pg *pg, const PGresult *rows, bool ahead, kiln_each_row *each,
                   void *arg, bool *ret_callers, struct kiln_error *err)
{
    int rc = 0;
    for (int row = 0; row < PQntuples(rows) && rc == 0; row++) {
        rc = each(arg, rows, row, err);
        *ret_callers = rc != 0;
        if (rc == 0 && ahead && row % TAKEN_ROWS == 0 && !PQconsumeInput(pg->conn))
            rc = kiln_pg_fail(pg, NULL, "receive", err);
    }
    return rc;
}

/* Each FETCH has the time limit of a statement; how long the caller takes for a row has none but
 * the server's limit for idle transactions, or with `ahead` the limit of the next FETCH. */
static int fetch_all(struct kiln_pg *pg, bool ahead, kiln_each_row *each, void *arg,
                     bool *ret_callers, struct kiln_error *err)
{
    static const char fetch[] = "FETCH 1000 FROM kiln_rows";
    bool sent = false;
    for (;;) {
        PGresult *rows;
        int rc = sent ? kiln_pg_finish(pg, 0, &rows, err) : kiln_pg_exec(pg, fetch, 0, &rows, err);
        if (rc != 0)
            return rc;
        const int count = PQntuples(rows);
        sent = ahead && count > 0;
        if (sent && !PQsendQuery(pg->conn, fetch))
            rc = kiln_pg_fail(pg, NULL, "send", err);
        if (rc == 0)
            rc = each_of(pg, rows, sent, each, arg, ret_callers, err);
        PQclear(rows);
        if (rc != 0 || count == 0)
            return rc;
    }
}

static int walk_rows(struct kiln_ledger *ledger, const char *begin, bool ahead,
                     const struct kiln_statement *statement, struct kiln_params *params,
                     kiln_each_row *each, void *arg, struct kiln_error *err)
{
    struct kiln_pg *pg = &ledger->pg;
    struct repeats repeats = {0};
    bool callers = false;
    int rc;
    int64_t started = kiln_stopwatch_start();
    do {
        repeats.was_connected = pg->conn != NULL;
        rc = reach(ledger, err);
        if (rc == 0)
            rc = kiln_pg_plan_once(pg, false, err);
        if (rc == 0)
            rc = kiln_pg_exec(pg, begin, 0, NULL, err);
    } while (repeat(&repeats, ledger, rc));
    if (rc == 0)
        rc = declare(pg, statement, params, err);
    kiln_params_release(params);
    if (rc == 0)
        rc = fetch_all(pg, ahead, each, arg, &callers, err);
    if (rc == 0)
        rc = kiln_pg_exec(pg, "COMMIT", 0, NULL, err);
    else if (pg->conn && kiln_pg_exec(pg, "ROLLBACK", 0, NULL, NULL) != 0)
        kiln_pg_drop(pg); /* also if a FETCH is on its way */
    else
        pg->plans_once = false; /* a change of it is rolled back */
    note(KILN_LEDGER_WALK, rc, started);
    return rc && !callers ? kiln_fail_in(err, "ledger, %s", statement->name) : rc;
}

int kiln_ledger_each(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                     struct kiln_params *params, kiln_each_row *each, void *arg,
                     struct kiln_error *err)
{
    return walk_rows(ledger, "BEGIN READ ONLY", false, statement, params, each, arg, err);
}

int kiln_ledger_each_ahead(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                           struct kiln_params *params, kiln_each_row *each, void *arg,
                           struct kiln_error *err)
{
    return walk_rows(ledger, "BEGIN READ ONLY", true, statement, params, each, arg, err);
}

int kiln_ledger_each_locked(struct kiln_ledger *ledger, const struct kiln_statement *statement,
                            struct kiln_params *params, kiln_each_row *each, void *arg,
                            struct kiln_error *err)
{
    return walk_rows(ledger, "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 600000", false,
                     statement, params, each, arg, err);
}

/* --- schema and leadership ------------------------------------------------------------------- */

int kiln_ledger_check(struct kiln_ledger *ledger, struct kiln_error *err)
{
    static const struct kiln_statement version = {
        "schema_version", "SELECT coalesce(max(version), 0), count(*) FILTER (WHERE"
                          "  version > $1::integer AND coalesce(works_with, version) > $1)"
                          " FROM schema_migrations"};
    struct kiln_params params = {0};
    int want = kiln_migrate_version(), needed = kiln_migrate_needed(), have;
    uint64_t strange; /* newer migrations that this program cannot work with */
    KILN_BIND(&params, want);
    int rc = kiln_ledger_ask(ledger, &version, &params, KILN_FIELDS(have, strange), err);
    if (rc != 0)
        return rc;
    if (have > want && !strange)
        return 0; /* a newer release migrated; what it added does not concern this program */
    if (have > want)
        return kiln_fail(err, KILN_CONFIG,
                         "the database has schema %d, this program knows only %d: install a newer "
                         "Kiln",
                         have, want);
    if (have < needed)
        return kiln_fail(err, KILN_CONFIG,
                         "the database has schema %d, this program needs %d: run `kiln migrate`",
                         have, needed);
    return 0;
}

void kiln_ledger_stand_down(struct kiln_ledger *ledger)
{
    ledger->leads_in = 0;
}

bool kiln_ledger_refused(const struct kiln_ledger *ledger, int rc)
{
    bool about_statement = rc == KILN_BAD_INPUT || rc == KILN_NOT_FOUND || rc == KILN_EXISTS ||
                           rc == KILN_UNSUPPORTED || rc == KILN_TIMEOUT || rc == KILN_CORRUPT ||
                           rc == KILN_INTERNAL || rc == KILN_PROTOCOL;
    return about_statement && ledger->pg.conn && PQstatus(ledger->pg.conn) == CONNECTION_OK;
}

int kiln_ledger_lead(struct kiln_ledger *ledger, const char *pool, bool *ret_leader,
                     struct kiln_error *err)
{
    /* A stopped leader must lose its lock: the server ends a session that was silent for longer
     * than a lease.  tcp_user_timeout does the same while the server is sending an answer, when it
     * is not idle; TCP alone would go on for a quarter of an hour. */
    static const struct kiln_statement take = {
        "lead", "SELECT pg_try_advisory_lock($1::integer, hashtext($2::text)),"
                " set_config('idle_session_timeout', $3::text, false),"
                " set_config('tcp_user_timeout', $3::text, false)"};
    /* Is the connection, and with it the lock, still there? */
    static const struct kiln_statement ping = {"ping", "SELECT 1"};
    struct kiln_params params = {0};
    int rc = kiln_ledger_run(ledger, &ping, &params, NULL, err);
    if (rc != 0)
        return rc;
    if (ledger->leads_in) { /* in this very connection, or the ping had failed */
        *ret_leader = true;
        return 0;
    }
    KILN_BIND(&params, KILN_LEADER_LOCK, pool, ledger->lead_idle_ms);
    rc = kiln_ledger_ask(ledger, &take, &params, KILN_FIELDS(*ret_leader), err);
    if (rc == 0)
        ledger->leads_in = *ret_leader ? ledger->pg.generation : 0;
    return rc;
}

int kiln_ledger_batch_id(struct kiln_ledger *ledger, const char *pool, const char *batch,
                         uint64_t *ret, struct kiln_error *err)
{
    static const struct kiln_statement find = {
        "batch_id", "SELECT id FROM batch WHERE pool = $1 AND name = $2"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, batch);
    int rc = kiln_ledger_ask(ledger, &find, &params, KILN_FIELDS(*ret), err);
    if (rc == 0 && *ret == 0)
        return kiln_fail(err, KILN_NOT_FOUND, "there is no batch '%s' in pool '%s'", batch, pool);
    return rc;
}
