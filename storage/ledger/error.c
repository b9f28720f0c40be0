/* error.c - what Postgres' errors mean to Kiln: the SQLSTATE decides, the text explains.
 *
 * The table goes from the exact state to its class (the first two characters).  A database that
 * only reads is UNAVAILABLE, not DENIED: a failover looks like this from outside, and waiting
 * helps.
 */
#include <stdio.h>
#include <string.h>

#include "storage/ledger/pg.h"

struct state_row {
    const char *prefix;
    int code;
    const char *advice; /* appended for people; NULL for none */
};

static const struct state_row rows[] = {
    {"08", KILN_UNAVAILABLE, NULL},
    {"0A", KILN_UNSUPPORTED, NULL},
    {"22", KILN_BAD_INPUT, NULL},
    {"23", KILN_BAD_INPUT, NULL},
    {"25006", KILN_UNAVAILABLE, "the database takes no writes now (a standby, or set read-only)"},
    {"26000", KILN_UNAVAILABLE, "the server forgot a prepared statement (a pooler in between?)"},
    {"28", KILN_DENIED,
     "check the user and the password (PGPASSFILE) of the setting postgres, or name the settings of "
     "another user, as in --config /etc/kiln/secrets/kiln_operator.conf"},
    {"3D000", KILN_CONFIG, "check dbname in the setting postgres"},
    {"3F", KILN_DENIED, "the database user has no schema to create tables in"},
    {"40", KILN_UNAVAILABLE, NULL},
    {"42501", KILN_DENIED, "the database user lacks this right"},
    {"42P01", KILN_CONFIG, "the schema is not there: run `kiln migrate`"},
    {"42703", KILN_CONFIG, "the schema is of another version: run `kiln migrate`"},
    {"53100", KILN_FULL, "the database's disk is full"},
    {"53", KILN_UNAVAILABLE, NULL},
    {"54", KILN_BAD_INPUT, NULL},
    {"55P03", KILN_TIMEOUT, "another transaction holds the row"},
    {"57014", KILN_TIMEOUT, "see the setting statement_timeout_s"},
    {"57", KILN_UNAVAILABLE, NULL},
    {"58030", KILN_FULL, "the database cannot write to its disk"},
    {"58", KILN_UNAVAILABLE, NULL},
    {"F0", KILN_CONFIG, NULL},
    {"XX001", KILN_CORRUPT, NULL},
    {"XX002", KILN_CORRUPT, NULL},
};

static const struct state_row *row_of(const char *sqlstate)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strncmp(sqlstate, rows[i].prefix, strlen(rows[i].prefix)) == 0)
            return &rows[i];
    return NULL;
}

/* In a verbose message the state stands after the severity: "FATAL:  28P01: password ...". */
static void state_in_text(const char *text, char ret[6])
{
    ret[0] = '\0';
    for (const char *at = text; (at = strstr(at, ":  ")) != NULL; at++)
        if (strspn(at + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 && at[8] == ':')
            snprintf(ret, 6, "%.5s", at + 3);
}

/* The first line is what happened; details and source lines are not for our logs. */
static void first_line(const char *text, char *out, size_t size)
{
    size_t len = strcspn(text ? text : "", "\n");
    snprintf(out, size, "%.*s", (int)len, text ? text : "");
}

int kiln_pg_explain(const PGconn *conn, const PGresult *result, const char *what,
                    char ret_sqlstate[6], struct kiln_error *err)
{
    char line[512];
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *message = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    if (!message)
        message = conn ? PQerrorMessage(conn) : "";
    if (state)
        snprintf(ret_sqlstate, 6, "%s", state);
    else
        state_in_text(message, ret_sqlstate);
    first_line(message, line, sizeof line);
    /* libpq itself found this out: there is no state for it. */
    if (!state && conn && PQconnectionNeedsPassword(conn))
        snprintf(ret_sqlstate, 6, "28P01");
    bool read_only = !state && strstr(message, "session is read-only");
    const struct state_row *row = row_of(read_only ? "25006" : ret_sqlstate);
    bool lost = !conn || PQstatus(conn) == CONNECTION_BAD;
    int code = row ? row->code : lost ? KILN_UNAVAILABLE : KILN_INTERNAL;
    if (!row && !ret_sqlstate[0])
        code = strstr(line, "out of memory") ? KILN_NO_MEMORY : KILN_UNAVAILABLE;
    const char *advice = row ? row->advice : NULL;
    return kiln_fail(err, code, "Postgres, %s: %s%s%s", what, *line ? line : "no message",
                     advice ? "; " : "", advice ? advice : "");
}
