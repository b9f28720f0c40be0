/* pg.h - one connection to Postgres that cannot hang, for the ledger and the migrations.
 *
 * libpq runs in non-blocking mode and every wait is a poll with a deadline, so a stopped server or
 * a silent network costs the time limit and does not block the thread.  The server has the same
 * limit (statement_timeout) a little earlier, so it normally answers first.
 */
#ifndef KILN_LEDGER_PG_H
#define KILN_LEDGER_PG_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "schemas/config/config.h"
#include "schemas/error.h"
#include "storage/daemon/outage.h"

#define KILN_PG_PREPARED_MAX 96

struct kiln_pg {
    PQconninfoOption *settings; /* the conninfo, parsed */
    char name[128];             /* application_name */
    int64_t connect_ms, statement_ms;
    bool plans_once; /* a reading session is now set to that */
    bool reading;    /* a session for people's questions (pg.c); set before the first connect */
    bool background; /* a session whose work can wait, likewise */
    bool lowers;     /* its server process gets a lower priority with the next statement */
    struct kiln_backoff backoff;
    PGconn *conn;        /* NULL while not connected */
    uint64_t generation; /* counts connections; session state of an older one is lost */
    int earlier;         /* server process of a connection that was dropped; 0 = none */
    char sqlstate[6];    /* of the last failure, "" if the server gave none */
    const void *prepared[KILN_PG_PREPARED_MAX]; /* statements that this connection knows */
    int prepared_count;
};

/* KILN_CONFIG if the setting is not a conninfo.  Does not connect. */
int kiln_pg_init(struct kiln_pg *pg, const struct kiln_config *config, const char *name,
                 struct kiln_error *err) KILN_MUST_CHECK;
void kiln_pg_release(struct kiln_pg *pg);

/* Connects if there is no connection, after the pause that earlier failures call for. */
int kiln_pg_connect(struct kiln_pg *pg, struct kiln_error *err) KILN_MUST_CHECK;
/* Drops the connection.  The server may still execute what was sent, so the next connect waits for
 * the end of that server process: a repeated statement never races with its first run. */
void kiln_pg_drop(struct kiln_pg *pg);

/* Waits for the answer to what was sent and returns its last result, or the first that failed as
 * an error.  limit_ms 0 = the usual limit.  A lost or late connection is dropped. */
int kiln_pg_finish(struct kiln_pg *pg, int64_t limit_ms, PGresult **ret,
                   struct kiln_error *err) KILN_MUST_CHECK;
/* Waits for the answer up to a moment of kiln_clock_ms: *ret_there = kiln_pg_finish need not wait
 * for it.  For what has no time limit. */
int kiln_pg_wait(struct kiln_pg *pg, int64_t deadline, bool *ret_there,
                 struct kiln_error *err) KILN_MUST_CHECK;
/* Waits until the server has been sent all of a statement, which kiln_pg_finish then ends. */
int kiln_pg_sent(struct kiln_pg *pg, struct kiln_error *err) KILN_MUST_CHECK;
/* In pipeline mode: the result of the next statement up to its sync point. */
int kiln_pg_pipelined(struct kiln_pg *pg, PGresult **ret, struct kiln_error *err) KILN_MUST_CHECK;
/* Before a statement of a reading session: whether it is planned once, or with its values. */
int kiln_pg_plan_once(struct kiln_pg *pg, bool once, struct kiln_error *err) KILN_MUST_CHECK;
/* Runs SQL text without parameters, several commands if need be; needs a connection. */
int kiln_pg_exec(struct kiln_pg *pg, const char *sql, int64_t limit_ms, PGresult **ret,
                 struct kiln_error *err) KILN_MUST_CHECK;

/* Fails with the error of kiln_pg_explain, and drops a broken connection. */
int kiln_pg_fail(struct kiln_pg *pg, const PGresult *result, const char *what,
                 struct kiln_error *err) KILN_MUST_CHECK;

/* --- error.c: the meaning of Postgres' errors -------------- */
/* Fills err from a failed result or, with result NULL, from the connection (NULL: it is gone);
 * what = the statement.  ret_sqlstate is "" if the server gave none. */
int kiln_pg_explain(const PGconn *conn, const PGresult *result, const char *what,
                    char ret_sqlstate[6], struct kiln_error *err) KILN_MUST_CHECK;

#endif
