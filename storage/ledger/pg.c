/* pg.c - connecting to Postgres and waiting for it, never longer than allowed.
 *
 * A conninfo may list several hosts for failover.  libpq would try them in turn but lets the first
 * that hangs use up the whole time, so the list is walked here, a full time limit for each host.
 * Only a server that takes writes is accepted (target_session_attrs), which makes a demoted primary
 * look like a server that is away.
 *
 * The session settings are the ledger's safety net:
 *   - time limits for statements, for locks, and for a transaction whose client went silent;
 *   - keepalives in both directions, so that the server frees a vanished leader's lock.
 *
 * There are two kinds of session.  The queue's has generic plans without sequential scans and
 * without second processes, and for its planner pages of indexes are cheap: each statement is
 * written for one index, and a plan made while a table was empty must not be kept when a million
 * rows have arrived.  A reading session plans most questions with their values, writes nothing, and
 * reads as the role kiln_reader where the database has one that its user may become.
 *
 * A session in the background writes only what can be made again from other tables.  Its commits do
 * not wait for the disk, so workers' commits seldom wait for it there, and its server process has a
 * low priority (priority.h).  That of any session has no higher priority than the thread that
 * connects.
 *
 * A client that has waited long enough closes the connection; PQcancel would wait for a stopped
 * server without limit.  A reading session's server process notices within a second that its client
 * is gone; that of the queue is ended by the next connect.
 */
#include "storage/ledger/pg.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "storage/ledger/priority.h"

#define CLIENT_GRACE_MS 2000 /* the server's own limit comes first by this much */
#define EARLIER_MS 3000      /* for the server to end what an earlier connection asked */
#define SETTINGS_MAX 64
#define BACKGROUND_NICE 10

int kiln_pg_init(struct kiln_pg *pg, const struct kiln_config *config, const char *name,
                 struct kiln_error *err)
{
    const char *conninfo = kiln_config_text(config, KILN_KEY_POSTGRES);
    char *problem = NULL;
    PQconninfoOption *settings = PQconninfoParse(conninfo, &problem);
    if (!settings) {
        /* libpq quotes the piece it stumbled over: say nothing that may be part of a password. */
        bool secret = !problem || strstr(conninfo, "password") || strstr(conninfo, "://");
        int rc = kiln_fail(err, problem ? KILN_CONFIG : KILN_NO_MEMORY,
                           "setting postgres is not a connection string (keyword=value ... or "
                           "postgresql://...)%s%s",
                           secret ? "" : ": ", secret ? "" : problem);
        PQfreemem(problem);
        return rc;
    }
    *pg = (struct kiln_pg){
        .settings = settings,
        .connect_ms = (int64_t)(kiln_config_number(config, KILN_KEY_CONNECT_TIMEOUT_S) * 1000),
        .statement_ms = (int64_t)(kiln_config_number(config, KILN_KEY_STATEMENT_TIMEOUT_S) * 1000),
    };
    snprintf(pg->name, sizeof pg->name, "%s", name);
    return 0;
}

void kiln_pg_drop(struct kiln_pg *pg)
{
    if (pg->conn && PQbackendPID(pg->conn) != 0)
        pg->earlier = PQbackendPID(pg->conn);
    PQfinish(pg->conn);
    pg->conn = NULL;
    pg->prepared_count = 0;
    pg->plans_once = false;
}

/* Drops a connection that is lost, that libpq itself reports an error of, or that lost its prepared
 * statements. */
int kiln_pg_fail(struct kiln_pg *pg, const PGresult *result, const char *what,
                 struct kiln_error *err)
{
    int code = kiln_pg_explain(pg->conn, result, what, pg->sqlstate, err);
    if (pg->reading &&
        strcmp(pg->sqlstate, "25006") == 0) /* and not a standby: waiting is no help */
        code = kiln_fail(err, KILN_INTERNAL, "a session for reading was asked to write");
    if (!pg->conn || PQstatus(pg->conn) == CONNECTION_BAD || !pg->sqlstate[0] ||
        strcmp(pg->sqlstate, "26000") == 0)
        kiln_pg_drop(pg);
    return code;
}

void kiln_pg_release(struct kiln_pg *pg)
{
    kiln_pg_drop(pg);
    PQconninfoFree(pg->settings);
    pg->settings = NULL;
}

/* 1 ready, 0 the deadline passed, -1 poll failed. */
static int wait_for(PGconn *conn, short events, int64_t deadline)
{
    for (;;) {
        int64_t left = deadline - kiln_clock_ms();
        struct pollfd at = {.fd = PQsocket(conn), .events = events};
        int ready = poll(&at, 1, left > 0 ? (int)left : 0);
        if (ready > 0)
            return 1;
        if (ready == 0 && left <= 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return -1;
    }
}

/* --- connecting ------------------------------------------------------------------------------ */

static const char *setting(const struct kiln_pg *pg, const char *keyword)
{
    for (const PQconninfoOption *at = pg->settings; at->keyword; at++)
        if (strcmp(at->keyword, keyword) == 0)
            return at->val;
    return NULL;
}

static int commas(const char *list)
{
    int n = 0;
    for (; list && *list; list++)
        n += *list == ',';
    return n;
}

static int host_count(const struct kiln_pg *pg)
{
    int hosts = commas(setting(pg, "host")), addresses = commas(setting(pg, "hostaddr"));
    return 1 + (hosts > addresses ? hosts : addresses);
}

/* The n-th element of a comma list; a list of one serves all. */
static void element(const char *list, int n, char *out, size_t size)
{
    if (commas(list) == 0)
        n = 0;
    for (; n > 0 && *list; list++)
        n -= *list == ',';
    size_t len = strcspn(list, ",");
    snprintf(out, size, "%.*s", (int)len, list);
}

struct keywords {
    const char *names[SETTINGS_MAX], *values[SETTINGS_MAX];
    char host[3][1024];
    int count;
};

static void add(struct keywords *words, const char *name, const char *value)
{
    if (words->count < SETTINGS_MAX - 1) {
        words->names[words->count] = name;
        words->values[words->count++] = value;
    }
}

/* Our defaults first, the user's settings over them, then the one host of this attempt. */
static void keywords_for(const struct kiln_pg *pg, int host, struct keywords *ret)
{
    static const char *const defaults[][2] = {
        {"keepalives_idle", "10"},     {"keepalives_interval", "3"}, {"keepalives_count", "3"},
        {"tcp_user_timeout", "15000"}, {"client_encoding", "UTF8"},
    };
    static const char *const lists[3] = {"host", "hostaddr", "port"};
    memset(ret, 0, sizeof *ret);
    add(ret, "application_name", pg->name);
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (!setting(pg, defaults[i][0]))
            add(ret, defaults[i][0], defaults[i][1]);
    if (!setting(pg, "target_session_attrs")) /* a reader's role may be read-only by itself */
        add(ret, "target_session_attrs", pg->reading ? "primary" : "read-write");
    for (const PQconninfoOption *at = pg->settings; at->keyword; at++) {
        const char *value = at->val;
        for (int i = 0; value && i < 3; i++)
            if (strcmp(at->keyword, lists[i]) == 0) {
                element(value, host, ret->host[i], sizeof ret->host[i]);
                value = ret->host[i];
            }
        if (value && *value)
            add(ret, at->keyword, value);
    }
}

/* Leaves pg->conn set also on failure, for its message. */
static int connect_host(struct kiln_pg *pg, int host, struct kiln_error *err)
{
    int64_t deadline = kiln_clock_ms() + pg->connect_ms;
    struct keywords words;
    keywords_for(pg, host, &words);
    pg->sqlstate[0] = '\0';
    pg->conn = PQconnectStartParams(words.names, words.values, 0);
    if (!pg->conn)
        return kiln_fail(err, KILN_NO_MEMORY, "Postgres: no memory for a connection");
    /* Verbose errors carry the SQLSTATE, which libpq does not give out otherwise at this stage. */
    PQsetErrorVerbosity(pg->conn, PQERRORS_VERBOSE);
    PostgresPollingStatusType status = PGRES_POLLING_WRITING;
    while (PQstatus(pg->conn) != CONNECTION_BAD && status != PGRES_POLLING_OK) {
        if (status == PGRES_POLLING_FAILED)
            break;
        int ready =
            wait_for(pg->conn, status == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline);
        if (ready == 0)
            return kiln_fail(err, KILN_TIMEOUT, "Postgres at %s does not answer within %.1f s",
                             PQhost(pg->conn), (double)pg->connect_ms / 1e3);
        status = ready > 0 ? PQconnectPoll(pg->conn) : PGRES_POLLING_FAILED;
    }
    if (PQstatus(pg->conn) != CONNECTION_OK || status != PGRES_POLLING_OK)
        return kiln_pg_fail(pg, NULL, "connect", err);
    PQsetErrorVerbosity(pg->conn, PQERRORS_DEFAULT);
    return 0;
}

/* Notices are the server talking; libpq would print them. */
static void ignore_notice(void *arg, const char *message)
{
    (void)arg;
    (void)message;
}

/* Ends the server process of the previous connection if it is still running: it may hold the
 * leader's lock, or commit what the caller now repeats. */
static int end_earlier(struct kiln_pg *pg, int earlier, struct kiln_error *err)
{
    char sql[200];
    PGresult *rows;
    snprintf(sql, sizeof sql,
             "SELECT pg_terminate_backend(pid, %d) FROM pg_stat_activity WHERE pid = %d AND"
             " application_name = current_setting('application_name')",
             EARLIER_MS, earlier);
    int rc = kiln_pg_exec(pg, sql, EARLIER_MS, &rows, err);
    if (rc != 0)
        return rc;
    bool busy = PQntuples(rows) > 0 && strcmp(PQgetvalue(rows, 0, 0), "t") != 0;
    PQclear(rows);
    return busy ? kiln_fail(err, KILN_UNAVAILABLE, "Postgres is still busy with an earlier request")
                : 0;
}

/* A generic plan expects a tenth of all rows from a LIMIT that is a parameter.  With the default
 * random_page_cost of 4 Postgres therefore sorted a table of 20,000 pictures, in two processes, for
 * one page.  Each statement is written for an index, so its pages cost about as much as those of a
 * table; short statements gain nothing from a second process. */
#define PLANS_ONCE                                                                                 \
    "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;"                          \
    "SET random_page_cost = 1.1; SET max_parallel_workers_per_gather = 0;"
#define PLANS_EACH                                                                                 \
    "RESET plan_cache_mode; RESET enable_seqscan; RESET random_page_cost;"                         \
    "RESET max_parallel_workers_per_gather;"
#define READING_ONLY                                                                               \
    "SET default_transaction_read_only = on; SET client_connection_check_interval = 1000;"

/* Becomes kiln_reader if that is possible and its rights are those of this database (roles.sql);
 * the schema, which may be named after the user, stays the same. */
static int become_reader(struct kiln_pg *pg, struct kiln_error *err)
{
    char sql[800];
    snprintf(
        sql, sizeof sql,
        "SELECT set_config('search_path', array_to_string(ARRAY(SELECT quote_ident(s) FROM"
        "  unnest(current_schemas(false)) s), ', '), false), set_config('role', rolname, false)"
        " FROM pg_roles WHERE rolname = 'kiln_reader' AND rolname <> current_user"
        " AND pg_has_role(oid, '%s')"
        " AND has_schema_privilege(oid, current_schema()::text, 'USAGE')"
        " AND has_table_privilege(oid, to_regclass('job'), 'SELECT')",
        PQserverVersion(pg->conn) >= 160000 ? "SET" : "MEMBER");
    return kiln_pg_exec(pg, sql, pg->connect_ms, NULL, err);
}

/* Best effort. */
static void lower(struct kiln_pg *pg)
{
    const int own = kiln_nice(),
              nice = pg->background && own < BACKGROUND_NICE ? BACKGROUND_NICE : own;
    pg->lowers = nice > 0 && !kiln_pg_lower(pg->conn, nice) && errno == EAGAIN;
}

static int set_up_session(struct kiln_pg *pg, int earlier, struct kiln_error *err)
{
    if (PQserverVersion(pg->conn) < 140000)
        return kiln_fail(err, KILN_UNSUPPORTED, "Postgres %s is too old: Kiln needs 14 or newer",
                         PQparameterStatus(pg->conn, "server_version"));
    PQsetNoticeProcessor(pg->conn, ignore_notice, NULL);
    if (PQsetnonblocking(pg->conn, 1) != 0)
        return kiln_pg_fail(pg, NULL, "connect", err);
    char sql[1024];
    snprintf(sql, sizeof sql,
             "SET statement_timeout = %lld; SET lock_timeout = %lld;"
             "SET idle_in_transaction_session_timeout = 60000; %s %s SET jit = off;"
             "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET extra_float_digits = 1;"
             "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 3;"
             "SET tcp_keepalives_count = 3",
             (long long)pg->statement_ms, (long long)(pg->statement_ms * 2 / 3 + 1),
             pg->reading ? READING_ONLY : PLANS_ONCE,
             pg->background ? "SET synchronous_commit = off;" : "");
    lower(pg);
    int rc = kiln_pg_exec(pg, sql, pg->connect_ms, NULL, err);
    if (rc == 0 && earlier)
        rc = end_earlier(pg, earlier, err);
    return rc == 0 && pg->reading ? become_reader(pg, err) : rc;
}

int kiln_pg_plan_once(struct kiln_pg *pg, bool once, struct kiln_error *err)
{
    if (!pg->reading || pg->plans_once == once)
        return 0;
    int rc = kiln_pg_exec(pg, once ? PLANS_ONCE : PLANS_EACH, 0, NULL, err);
    pg->plans_once = rc == 0 && once;
    return rc;
}

/* Every host gets its full time limit; the error of the last one is what the caller sees. */
int kiln_pg_connect(struct kiln_pg *pg, struct kiln_error *err)
{
    if (pg->conn && PQstatus(pg->conn) == CONNECTION_OK) {
        if (pg->lowers)
            lower(pg);
        return 0;
    }
    kiln_backoff_wait(&pg->backoff);
    int rc = KILN_UNAVAILABLE;
    kiln_pg_drop(pg);
    int earlier = pg->earlier;
    for (int host = 0; host < host_count(pg); host++) {
        rc = connect_host(pg, host, err);
        if (rc == 0)
            rc = set_up_session(pg, earlier, err);
        if (rc == 0) {
            kiln_backoff_reset(&pg->backoff);
            pg->generation++;
            pg->earlier = 0;
            return 0;
        }
        kiln_pg_drop(pg);
    }
    pg->earlier = earlier; /* the ones tried now have been told nothing */
    kiln_backoff_failed(&pg->backoff);
    return rc;
}

/* --- waiting for answers --------------------------------------------------------------------- */

/* Until all is sent and, with `answer`, until the answer is there. */
static int wait_until(struct kiln_pg *pg, bool answer, int64_t deadline, bool *ret_there,
                      struct kiln_error *err)
{
    *ret_there = false;
    for (;;) {
        int unsent = PQflush(pg->conn);
        if (unsent < 0)
            return kiln_pg_fail(pg, NULL, "send", err);
        if (!unsent && !(answer && PQisBusy(pg->conn))) {
            *ret_there = true;
            return 0;
        }
        int ready = wait_for(pg->conn, unsent ? POLLIN | POLLOUT : POLLIN, deadline);
        if (ready == 0)
            return 0;
        if (ready < 0 || !PQconsumeInput(pg->conn))
            return kiln_pg_fail(pg, NULL, "receive", err);
    }
}

int kiln_pg_wait(struct kiln_pg *pg, int64_t deadline, bool *ret_there, struct kiln_error *err)
{
    return wait_until(pg, true, deadline, ret_there, err);
}

static int wait_or_drop(struct kiln_pg *pg, bool answer, int64_t limit_ms, int64_t deadline,
                        struct kiln_error *err)
{
    bool there;
    int rc = wait_until(pg, answer, deadline, &there, err);
    if (rc || there)
        return rc;
    kiln_pg_drop(pg);
    return kiln_fail(err, KILN_TIMEOUT, "Postgres does not answer within %.1f s",
                     (double)limit_ms / 1e3);
}

/* 0 when a result can be had without waiting. */
static int wait_result(struct kiln_pg *pg, int64_t limit_ms, int64_t deadline,
                       struct kiln_error *err)
{
    return wait_or_drop(pg, true, limit_ms, deadline, err);
}

int kiln_pg_sent(struct kiln_pg *pg, struct kiln_error *err)
{
    const int64_t limit = pg->statement_ms + CLIENT_GRACE_MS;
    return wait_or_drop(pg, false, limit, kiln_clock_ms() + limit, err);
}

/* Neither an error nor a state of the protocol we never ask for (COPY, single rows). */
static bool good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY;
}

int kiln_pg_finish(struct kiln_pg *pg, int64_t limit_ms, PGresult **ret, struct kiln_error *err)
{
    int64_t limit = (limit_ms ? limit_ms : pg->statement_ms) + CLIENT_GRACE_MS;
    int64_t deadline = kiln_clock_ms() + limit;
    PGresult *last = NULL;
    int rc;
    while ((rc = wait_result(pg, limit, deadline, err)) == 0) {
        PGresult *next = PQgetResult(pg->conn);
        if (!next)
            break;
        if (last && !good(last)) { /* keep the first failure, drain the rest */
            PQclear(next);
            continue;
        }
        PQclear(last);
        last = next;
    }
    if (rc == 0 && (!last || !good(last)))
        rc = kiln_pg_fail(pg, last, "statement", err);
    if (rc == 0 && ret)
        *ret = last;
    else
        PQclear(last);
    return rc;
}

/* Results of a pipelined statement: its own, a NULL, then the mark of the sync point. */
int kiln_pg_pipelined(struct kiln_pg *pg, PGresult **ret, struct kiln_error *err)
{
    int64_t limit = pg->statement_ms + CLIENT_GRACE_MS, deadline = kiln_clock_ms() + limit;
    PGresult *kept = NULL;
    int rc;
    while ((rc = wait_result(pg, limit, deadline, err)) == 0) {
        PGresult *next = PQgetResult(pg->conn);
        bool sync = PQresultStatus(next) == PGRES_PIPELINE_SYNC;
        if (!next && PQstatus(pg->conn) != CONNECTION_OK)
            break;
        if (next && !sync && !kept)
            kept = next;
        else
            PQclear(next);
        if (sync)
            break;
    }
    if (rc == 0 && (!kept || !good(kept)))
        rc = kiln_pg_fail(pg, kept, "statement", err);
    if (rc == 0 && ret)
        *ret = kept;
    else
        PQclear(kept);
    return rc;
}

int kiln_pg_exec(struct kiln_pg *pg, const char *sql, int64_t limit_ms, PGresult **ret,
                 struct kiln_error *err)
{
    if (!PQsendQuery(pg->conn, sql))
        return kiln_pg_fail(pg, NULL, "send", err);
    return kiln_pg_finish(pg, limit_ms, ret, err);
}
