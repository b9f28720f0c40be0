/* index_build.c - see index_build.h.
 *
 * The builder's connection is busy until the index is there, so a second one asks how far it is.
 * That is for people: if it cannot be asked, the build goes on.
 */
#include "storage/ledger/index_build.h"

#include <stdio.h>
#include <string.h>

#include "schemas/clock.h"
#include "storage/ledger/internal.h"
#include "storage/ledger/pg.h"

#define BUILD "CREATE INDEX CONCURRENTLY IF NOT EXISTS "
#define LOOK_MS 500
#define NAME_MAX_BYTES 63 /* of an identifier */

/* The name of the index that the text builds; it needs no quotes. */
static int name_of(const char *sql, char name[NAME_MAX_BYTES + 1], struct kiln_error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    while (*sql == '\n' || strncmp(sql, "--", 2) == 0) {
        sql += strcspn(sql, "\n");
        sql += *sql == '\n';
    }
    const char *at = strncmp(sql, BUILD, strlen(BUILD)) == 0 ? sql + strlen(BUILD) : "";
    size_t len = strspn(at, letters);
    if (len == 0 || len > NAME_MAX_BYTES)
        return kiln_fail(err, KILN_INTERNAL, "not one statement " BUILD "name ON ...");
    snprintf(name, NAME_MAX_BYTES + 1, "%.*s", (int)len, at);
    return 0;
}

/* What the server says of the build in `process`; false if it says nothing. */
static bool look(struct kiln_pg *watch, int process, char *phase, size_t size, double *done)
{
    char sql[512];
    PGresult *rows;
    snprintf(sql, sizeof sql,
             "SELECT phase, CASE WHEN lockers_total > lockers_done"
             "  THEN lockers_done / lockers_total::float8"
             " WHEN tuples_total > 0 THEN tuples_done / tuples_total::float8"
             " WHEN blocks_total > 0 THEN blocks_done / blocks_total::float8 ELSE 0 END"
             " FROM pg_stat_progress_create_index WHERE pid = %d",
             process);
    if (kiln_pg_connect(watch, NULL) || kiln_pg_exec(watch, sql, 0, &rows, NULL))
        return false;
    bool any = PQntuples(rows) > 0;
    if (any) {
        snprintf(phase, size, "%s", PQgetvalue(rows, 0, 0));
        KILN_READ(rows, 0, 1, *done);
    }
    PQclear(rows);
    return any;
}

struct watch {
    struct kiln_pg pg;
    kiln_index_progress *progress; /* NULL: nobody is told */
    void *arg;
};

/* One statement, however long it takes. */
static int run_long(struct kiln_pg *pg, const char *sql, const char *name, struct watch *watch,
                    struct kiln_error *err)
{
    char phase[64], last[64] = "";
    double done = 0, last_done = -1;
    bool there = false;
    int rc = PQsendQuery(pg->conn, sql) ? 0 : kiln_pg_fail(pg, NULL, "send", err);
    while (rc == 0 && !there) {
        rc = kiln_pg_wait(pg, kiln_clock_ms() + LOOK_MS, &there, err);
        if (rc || there || !watch->progress ||
            !look(&watch->pg, PQbackendPID(pg->conn), phase, sizeof phase, &done))
            continue;
        if (strcmp(phase, last) != 0 || done != last_done)
            watch->progress(watch->arg, name, phase, done);
        snprintf(last, sizeof last, "%s", phase);
        last_done = done;
    }
    return rc ? rc : kiln_pg_finish(pg, 0, NULL, err);
}

static int drop_invalid(struct kiln_pg *pg, const char *name, struct watch *watch,
                        struct kiln_error *err)
{
    char sql[300];
    PGresult *rows;
    snprintf(
        sql, sizeof sql,
        "SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relname = '%s'"
        " AND c.relnamespace = quote_ident(current_schema())::regnamespace AND NOT i.indisvalid",
        name);
    int rc = kiln_pg_exec(pg, sql, 0, &rows, err);
    if (rc)
        return rc;
    bool invalid = PQntuples(rows) > 0;
    PQclear(rows);
    snprintf(sql, sizeof sql, "DROP INDEX CONCURRENTLY %s", name);
    return invalid ? run_long(pg, sql, name, watch, err) : 0;
}

int kiln_index_build(struct kiln_pg *pg, const struct kiln_config *config, const char *sql,
                     kiln_index_progress *progress, void *arg, struct kiln_error *err)
{
    struct watch watch = {.progress = progress, .arg = arg};
    char name[NAME_MAX_BYTES + 1];
    int rc = name_of(sql, name, err);
    if (rc == 0)
        rc = kiln_pg_init(&watch.pg, config, "kiln migrate, progress", err);
    if (rc)
        return rc;
    rc = kiln_pg_exec(pg,
                      "SET statement_timeout = 0; SET lock_timeout = 0;"
                      "SET client_connection_check_interval = 1000",
                      0, NULL, err);
    if (rc == 0)
        rc = drop_invalid(pg, name, &watch, err);
    if (rc == 0)
        rc = run_long(pg, sql, name, &watch, err);
    kiln_pg_release(&watch.pg);
    return rc ? kiln_fail_in(err, "index %s", name) : 0;
}
