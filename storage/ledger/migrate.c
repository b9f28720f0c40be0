/* migrate.c - applies the embedded schema files that a database does not have yet.
 *
 * Order of work: take the advisory lock (a second migrator waits for it, with a limit); then, in
 * one transaction, make schema_migrations, compare what is applied with what is embedded, apply the
 * rest.  A failure rolls back: a database is at one version or another, never between.  A
 * concurrent file ends the transaction, builds its index, and another transaction goes on.
 *
 * Statements of a migration wait for table locks no longer than LOCK_S: better to fail and be run
 * again than to stand in front of a busy fleet's queries.
 *
 * The advisory lock is asked for again and again.  A statement that waited for it would hold a
 * snapshot, which an index build of the lock's holder waits for in its turn.
 */
#include "storage/ledger/migrate.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "storage/daemon/outage.h"
#include "storage/ledger/internal.h"
#include "storage/ledger/pg.h"

#define MIGRATION_LOCK "4954867711"
#define LOCK_S 15
#define APPLY_MS (3600 * 1000) /* an index on a large table takes its time */

/* By version: whether programs of the schema before it may go on.  Such a migration adds tables,
 * indexes, or columns with defaults or NULL, or stores an index in another way.  Older programs
 * leave gaps there that only people notice (a tenant in a list, a cancelled job); pauses, quotas
 * and the triggers of loras "auto" take effect when a newer scheduler leads.  Not gentle: 0002,
 * because an older program assigns a number twice; 0003, because jobs assigned without a row are
 * not found. */
static const bool gentle[] = {
    [4] = true,  [5] = true,  [6] = true,  [7] = true,  [8] = true,  [9] = true,  [10] = true,
    [11] = true, [12] = true, [14] = true, [17] = true, [19] = true, [21] = true, [22] = true,
    [24] = true, [25] = true, [26] = true, [29] = true, [30] = true, [31] = true, [32] = true,
    [33] = true, [35] = true, [37] = true, [38] = true, [40] = true, [42] = true, [43] = true};

/* Leading digits of "0001_ledger.sql". */
static int version_of(const struct kiln_embedded *file)
{
    return atoi(file->name);
}

static const struct kiln_embedded *file_of(const struct kiln_embedded *files, int version)
{
    for (const struct kiln_embedded *file = files; file->name; file++)
        if (version_of(file) == version)
            return file;
    return NULL;
}

static bool is_concurrent(const struct kiln_embedded *file)
{
    return strstr(file->name, ".concurrent.sql") != NULL;
}

/* An index more or less is nothing to a program. */
static bool is_gentle(const struct kiln_embedded *files, int version)
{
    const struct kiln_embedded *file = file_of(files, version);
    bool listed =
        version > 0 && (size_t)version < sizeof gentle / sizeof *gentle && gentle[version];
    return listed || (file && is_concurrent(file));
}

static int works_with(const struct kiln_embedded *files, int version)
{
    int oldest = version;
    while (is_gentle(files, oldest))
        oldest--;
    return oldest < version ? oldest : 0;
}

static int newest(const struct kiln_embedded *files, bool needed)
{
    int version = 0;
    for (const struct kiln_embedded *file = files; file->name; file++)
        if (version_of(file) > version && !(needed && is_concurrent(file)))
            version = version_of(file);
    return version;
}

int kiln_migrate_version(void)
{
    return newest(kiln_embedded_sql, false);
}

int kiln_migrate_needed(void)
{
    return newest(kiln_embedded_sql, true);
}

static void sha256_of(const struct kiln_embedded *file, char ret_hex[65])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)file->text, file->size, digest);
    for (int i = 0; i < SHA256_DIGEST_LENGTH; i++)
        snprintf(ret_hex + 2 * i, 3, "%02x", digest[i]);
}

static int run(struct kiln_pg *pg, const char *sql, struct kiln_error *err)
{
    return kiln_pg_exec(pg, sql, APPLY_MS, NULL, err);
}

/* --- what the database has ------------------------------------------------------------------- */

static int table_exists(struct kiln_pg *pg, bool *ret, struct kiln_error *err)
{
    PGresult *rows;
    int rc = kiln_pg_exec(pg, "SELECT to_regclass('schema_migrations') IS NOT NULL", 0, &rows, err);
    if (rc != 0)
        return rc;
    *ret = kiln_row_bool(rows, 0, 0);
    PQclear(rows);
    return 0;
}

/* Each applied file must be one of ours, unchanged. */
static int check_applied(const struct kiln_embedded *files, const PGresult *rows, int *ret_version,
                         struct kiln_error *err)
{
    int version = 0;
    for (int i = 0; i < PQntuples(rows); i++) {
        version = (int)kiln_row_i64(rows, i, 0);
        const struct kiln_embedded *file = file_of(files, version);
        if (!file)
            return kiln_fail(err, KILN_CONFIG,
                             "the database has schema %d, this program knows only %d: install a "
                             "newer Kiln",
                             (int)kiln_row_i64(rows, PQntuples(rows) - 1, 0), newest(files, false));
        char ours[65];
        sha256_of(file, ours);
        if (strcmp(ours, PQgetvalue(rows, i, 1)) != 0)
            return kiln_fail(err, KILN_CONFIG,
                             "schema file %s differs from the one this database was made with: use "
                             "the Kiln that made it, or a later release",
                             file->name);
    }
    *ret_version = version;
    return 0;
}

static int version_in(struct kiln_pg *pg, const struct kiln_embedded *files, int *ret,
                      struct kiln_error *err)
{
    bool exists;
    int rc = table_exists(pg, &exists, err);
    if (rc != 0 || !exists) {
        *ret = 0;
        return rc;
    }
    PGresult *rows;
    rc = kiln_pg_exec(pg, "SELECT version, sha256 FROM schema_migrations ORDER BY version", 0,
                      &rows, err);
    if (rc != 0)
        return rc;
    rc = check_applied(files, rows, ret, err);
    PQclear(rows);
    return rc;
}

/* --- applying -------------------------------------------------------------------------------- */

/* Held until the connection ends. */
static int take_lock(struct kiln_pg *pg, struct kiln_error *err)
{
    int64_t deadline = kiln_clock_ms() + LOCK_S * 1000;
    for (;;) {
        PGresult *rows;
        int rc = kiln_pg_exec(pg, "SELECT pg_try_advisory_lock(" MIGRATION_LOCK ")", 0, &rows, err);
        if (rc != 0)
            return rc;
        bool got = kiln_row_bool(rows, 0, 0);
        PQclear(rows);
        if (got)
            return 0;
        if (kiln_clock_ms() > deadline)
            return kiln_fail(err, KILN_TIMEOUT, "another migration is running: try again");
        nanosleep(&(struct timespec){.tv_nsec = (50 + kiln_jitter(100)) * 1000000L}, NULL);
    }
}

static int begin(struct kiln_pg *pg, struct kiln_error *err)
{
    char sql[128];
    snprintf(sql, sizeof sql,
             "BEGIN; SET LOCAL statement_timeout = %d; SET LOCAL lock_timeout = '%ds'", APPLY_MS,
             LOCK_S);
    return run(pg, sql, err);
}

/* A later release may know more migrations that older programs can work with. */
static int keep_works_with(struct kiln_pg *pg, const struct kiln_embedded *files,
                           struct kiln_error *err)
{
    char sql[160];
    int rc = 0;
    for (const struct kiln_embedded *file = files; rc == 0 && file->name; file++) {
        int oldest = works_with(files, version_of(file));
        snprintf(sql, sizeof sql,
                 "UPDATE schema_migrations SET works_with = nullif(%d, 0) WHERE version = %d"
                 " AND coalesce(works_with, 0) <> %d",
                 oldest, version_of(file), oldest);
        rc = run(pg, sql, err);
    }
    return rc;
}

static int commit(struct kiln_pg *pg, const struct kiln_embedded *files, struct kiln_error *err)
{
    int rc = keep_works_with(pg, files, err);
    if (rc == 0) /* new tables belong to the roles there are (database_roles.h), too */
        rc = run(pg, kiln_embedded_roles[0].text, err);
    return rc ? rc : run(pg, "COMMIT", err);
}

static int apply(struct kiln_pg *pg, const struct kiln_config *config,
                 const struct kiln_migration *how, const struct kiln_embedded *files,
                 const struct kiln_embedded *file, struct kiln_error *err)
{
    char sha256[65], note[256];
    int rc;
    if (is_concurrent(file)) {
        rc = commit(pg, files, err);
        if (rc == 0)
            rc = kiln_index_build(pg, config, file->text, how->progress, how->arg, err);
        if (rc == 0)
            rc = begin(pg, err);
    } else {
        rc = run(pg, file->text, err);
    }
    sha256_of(file, sha256);
    snprintf(note, sizeof note,
             "INSERT INTO schema_migrations (version, name, sha256) VALUES (%d, '%s', '%s')",
             version_of(file), file->name, sha256);
    if (rc == 0)
        rc = run(pg, note, err);
    return rc ? kiln_fail_in(err, "schema file %s", file->name) : 0;
}

static int migrate(struct kiln_pg *pg, const struct kiln_config *config, struct kiln_migration *how,
                   const struct kiln_embedded *files, struct kiln_error *err)
{
    if (how->dry_run)
        return version_in(pg, files, &how->from, err);
    int rc = take_lock(pg, err);
    if (rc == 0)
        rc = begin(pg, err);
    if (rc == 0)
        rc = run(pg,
                 "CREATE TABLE IF NOT EXISTS schema_migrations (version integer PRIMARY KEY,"
                 " name text NOT NULL, sha256 text NOT NULL,"
                 " applied_at timestamptz NOT NULL DEFAULT now());"
                 "ALTER TABLE schema_migrations ADD COLUMN IF NOT EXISTS works_with integer",
                 err);
    if (rc == 0)
        rc = version_in(pg, files, &how->from, err);
    for (const struct kiln_embedded *file = files; rc == 0 && file->name; file++)
        if (version_of(file) > how->from)
            rc = apply(pg, config, how, files, file, err);
    return rc ? rc : commit(pg, files, err); /* on failure the caller drops the connection */
}

int kiln_migrate(const struct kiln_config *config, struct kiln_migration *migration,
                 struct kiln_error *err)
{
    const struct kiln_embedded *files = migration->files ? migration->files : kiln_embedded_sql;
    struct kiln_pg pg;
    int rc = kiln_pg_init(&pg, config, "kiln migrate", err);
    if (rc != 0)
        return rc;
    migration->to = newest(files, false);
    rc = kiln_pg_connect(&pg, err);
    if (rc == 0)
        rc = migrate(&pg, config, migration, files, err);
    kiln_pg_release(&pg); /* which rolls back what was not committed */
    return rc ? kiln_fail_in(err, "migrate") : 0;
}
