/* backup.c - see backup.h.
 *
 * The snapshot is held by a transaction that does nothing but read, on a connection that may be
 * silent for as long as pg_dump takes: the usual limit for idle transactions is lifted for it.
 */
#include "storage/ledger/upkeep/backup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/job/inputs.h"
#include "storage/ledger/internal.h"
#include "storage/ledger/migrate.h"
#include "storage/ledger/pg.h"

#define WALK_MS (3600 * 1000) /* sorting a hundred million keys takes its time */
#define PAGE "5000"

extern char **environ;

struct kiln_snapshot {
    struct kiln_pg pg;
};

/* --- a snapshot ------------------------------------------------------------------------------- */

static int read_facts(struct kiln_pg *pg, struct kiln_snapshot_facts *facts, struct kiln_error *err)
{
    PGresult *rows;
    int rc = kiln_pg_exec(pg,
                          "SELECT pg_export_snapshot(), current_schema(),"
                          " (SELECT max(version) FROM schema_migrations),"
                          " (SELECT coalesce(sum(queued + assigned + done + failed + cancelled), 0)"
                          "  FROM batch_tally), (extract(epoch FROM now()) * 1000)::bigint",
                          0, &rows, err);
    if (rc)
        return rc;
    KILN_READ(rows, 0, 0, facts->id, facts->schema_name, facts->schema, facts->jobs, facts->at_ms);
    facts->server_major = PQserverVersion(pg->conn) / 10000;
    PQclear(rows);
    if (facts->schema < kiln_migrate_needed() || facts->schema > kiln_migrate_version())
        return kiln_fail(err, KILN_CONFIG,
                         "the database has schema %d, this program is made for %d: use the Kiln "
                         "that belongs to it, or run `kiln migrate` first",
                         facts->schema, kiln_migrate_version());
    return 0;
}

int kiln_snapshot_open(const struct kiln_config *config, struct kiln_snapshot **ret,
                       struct kiln_snapshot_facts *facts, struct kiln_error *err)
{
    struct kiln_snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (!snapshot)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a snapshot");
    int rc = kiln_pg_init(&snapshot->pg, config, "kiln snapshot", err);
    if (rc) {
        free(snapshot);
        return rc;
    }
    rc = kiln_pg_connect(&snapshot->pg, err);
    if (rc == 0)
        rc = kiln_pg_exec(&snapshot->pg,
                          "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
                          "SET LOCAL idle_in_transaction_session_timeout = 0",
                          0, NULL, err);
    if (rc == 0)
        rc = read_facts(&snapshot->pg, facts, err);
    if (rc) {
        kiln_snapshot_close(snapshot);
        return rc;
    }
    *ret = snapshot;
    return 0;
}

void kiln_snapshot_close(struct kiln_snapshot *snapshot)
{
    if (snapshot)
        kiln_pg_release(&snapshot->pg);
    free(snapshot);
}

/* The pictures that a column of jobs names: to start from, or as masks. */
#define INPUTS(column)                                                                             \
    "SELECT j." column " COLLATE \"C\" AS key FROM job j"                                          \
    " WHERE j." column " IS NOT NULL AND " KILN_JOB_KEEPS_INPUT("j")

#define LORA_FILES                                                                                 \
    " SELECT '" KILN_LORAS_PREFIX "' || sha256 || '.safetensors', bytes, sha256"                   \
    " FROM lora_file WHERE stored"

int kiln_snapshot_objects(struct kiln_snapshot *snapshot, kiln_each_vouched *each, void *arg,
                          struct kiln_error *err)
{
    struct kiln_pg *pg = &snapshot->pg;
    int rc =
        kiln_pg_exec(pg,
                     "SET LOCAL statement_timeout = 0;"
                     "DECLARE vouched NO SCROLL CURSOR FOR"
                     " SELECT key, bytes, sha256 FROM object UNION ALL" LORA_FILES
                     " UNION ALL SELECT i.key, 0::bigint, substr(i.key, 8, 64)"
                     "  FROM (" INPUTS("init_image") " UNION " INPUTS("init_mask") ") i ORDER BY 1",
                     WALK_MS, NULL, err);
    for (int count = 1; rc == 0 && count > 0;) {
        PGresult *rows;
        rc = kiln_pg_exec(pg, "FETCH " PAGE " FROM vouched", WALK_MS, &rows, err);
        if (rc)
            break;
        count = PQntuples(rows);
        for (int row = 0; row < count && rc == 0; row++)
            rc = each(arg, PQgetvalue(rows, row, 0), kiln_row_u64(rows, row, 1),
                      PQgetvalue(rows, row, 2), err);
        PQclear(rows);
    }
    return rc ? kiln_fail_in(err, "read the rows of objects") : 0;
}

/* --- where to restore ------------------------------------------------------------------------- */

static int inspect_tables(struct kiln_pg *pg, struct kiln_site *site, struct kiln_error *err)
{
    PGresult *rows;
    int rc =
        kiln_pg_exec(pg,
                     "SELECT (SELECT count(*) FROM (SELECT FROM job LIMIT 1000000) j),"
                     " (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM job_id_seq),"
                     " (SELECT CASE WHEN is_called THEN last_value ELSE 0 END"
                     "  FROM batch_id_seq)",
                     WALK_MS, &rows, err);
    if (rc)
        return rc;
    KILN_READ(rows, 0, 0, site->jobs, site->last_job, site->last_batch);
    PQclear(rows);
    return 0;
}

static int inspect(struct kiln_pg *pg, struct kiln_site *site, struct kiln_error *err)
{
    PGresult *rows;
    int rc =
        kiln_pg_exec(pg,
                     "SELECT coalesce(current_schema(), ''), to_regclass('job') IS NOT NULL AND"
                     " to_regclass('batch') IS NOT NULL, count(a.pid), min(application_name),"
                     " (SELECT count(*) FROM pg_class c WHERE c.relkind IN ('r', 'p') AND"
                     "  c.relnamespace = quote_ident(current_schema())::regnamespace)"
                     " FROM (SELECT) one LEFT JOIN pg_stat_activity a"
                     " ON a.datname = current_database() AND"
                     " a.application_name ~ '^kiln-(scheduler|worker)'",
                     0, &rows, err);
    if (rc)
        return rc;
    KILN_READ(rows, 0, 0, site->schema_name, site->has_tables, site->daemons, site->daemon,
              site->others);
    if (site->has_tables)
        site->others = 0;
    site->server_major = PQserverVersion(pg->conn) / 10000;
    PQclear(rows);
    return site->has_tables ? inspect_tables(pg, site, err) : 0;
}

int kiln_site_inspect(const struct kiln_config *config, struct kiln_site *ret,
                      struct kiln_error *err)
{
    struct kiln_pg pg;
    struct kiln_site site = {0};
    int rc = kiln_pg_init(&pg, config, "kiln restore", err);
    if (rc)
        return rc;
    rc = kiln_pg_connect(&pg, err);
    if (rc == 0)
        rc = inspect(&pg, &site, err);
    kiln_pg_release(&pg);
    if (rc == 0)
        *ret = site;
    return rc;
}

/* --- for Postgres' own programs --------------------------------------------------------------- */

void kiln_pg_environment_free(char **environment)
{
    for (char **at = environment; at && *at; at++)
        free(*at);
    free(environment);
}

/* Whether one of the settings is the variable that text, "NAME=value", sets. */
static bool is_replaced(const PQconninfoOption *settings, const char *text)
{
    for (const PQconninfoOption *at = settings; at->keyword; at++) {
        size_t len = at->val && at->envvar ? strlen(at->envvar) : 0;
        if (len && strncmp(text, at->envvar, len) == 0 && text[len] == '=')
            return true;
    }
    return false;
}

/* "NAME=value", or a copy of name alone when value is NULL. */
static bool append(char **list, size_t *count, const char *name, const char *value)
{
    size_t size = strlen(name) + (value ? strlen(value) : 0) + 2;
    char *text = malloc(size);
    if (!text)
        return false;
    snprintf(text, size, "%s%s%s", name, value ? "=" : "", value ? value : "");
    list[(*count)++] = text;
    return true;
}

int kiln_pg_environment(const struct kiln_config *config, char ***ret, struct kiln_error *err)
{
    struct kiln_pg pg;
    int rc = kiln_pg_init(&pg, config, "kiln", err);
    if (rc)
        return rc;
    size_t room = 1, count = 0;
    for (char **at = environ; *at; at++)
        room++;
    for (const PQconninfoOption *at = pg.settings; at->keyword; at++)
        room++;
    char **list = calloc(room, sizeof *list);
    bool ok = list != NULL;
    for (char **at = environ; ok && *at; at++)
        if (!is_replaced(pg.settings, *at))
            ok = append(list, &count, *at, NULL);
    for (const PQconninfoOption *at = pg.settings; ok && at->keyword; at++)
        if (at->val && at->envvar)
            ok = append(list, &count, at->envvar, at->val);
    kiln_pg_release(&pg);
    if (!ok) {
        kiln_pg_environment_free(list);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an environment");
    }
    *ret = list;
    return 0;
}
