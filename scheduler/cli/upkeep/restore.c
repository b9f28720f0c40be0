/* restore.c - `kiln restore DIR`: a backup becomes the ledger, and is compared with the store.
 *
 * It changes nothing before these checks: the files are unchanged, this program knows their schema,
 * no daemon uses the database, and somebody agreed to replace a ledger that has jobs.  The bus
 * needs no restore: the scheduler rebuilds its contents from the ledger.
 *
 * --check only compares: is every object of the backup still in the store?
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "scheduler/cli/core/paths.h"
#include "scheduler/cli/core/programs.h"
#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/core/times.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/upkeep/backup.h"
#include "storage/ledger/migrate.h"
#include "storage/ledger/upkeep/backup.h"

#define NAMED_MAX 10000 /* objects that --json lists */
#define SHOWN_MAX 20    /* that a restore lists; --check lists all */
#define STALL_S 3600    /* the longest statement of a restore: an index */
#define PIECE (1 << 16)
/* Numbers that were used after the backup and must not be used again. */
#define NUMBERS_SKIPPED 1000000

/* --- a dump into the database, all or nothing --------------------------------------------------
 *
 *     pg_restore --> this program --> psql
 *
 * pg_restore could write to the database itself, but not in the transaction that drops the old
 * tables.  So it only makes SQL, which goes to psql between our own first and last lines.  COMMIT
 * is sent only if pg_restore succeeded, and psql stops at the first error.
 *
 * Either can hang (the disk of the dump, the database), so there is a time limit without progress.
 * It must be longer than the longest statement, such as building an index.
 */

struct stream {
    struct kiln_child source, sink;
    int from, to; /* our ends of the pipes, which never block; -1 closed */
    double still_s;
};

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Waits until a pipe can be used. */
static int wait_end(const struct stream *stream, int fd, short events, const char *who,
                    struct kiln_error *err)
{
    struct pollfd end = {.fd = fd, .events = events};
    double until = kiln_now_s() + stream->still_s;
    for (;;) {
        double left_s = until - kiln_now_s();
        int ready = left_s > 0 ? poll(&end, 1, (int)(fmin(left_s, 60) * 1000) + 1) : 0;
        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return kiln_fail(err, KILN_IO, "wait for %s: %s", who, strerror(errno));
        if (left_s <= 0)
            return kiln_fail(err, KILN_TIMEOUT, "%s made no progress for %.0f s", who,
                             stream->still_s);
    }
}

/* If psql has closed its pipe, its own message is the error to show. */
static int send_bytes(struct stream *stream, const char *bytes, size_t len, struct kiln_error *err)
{
    while (len > 0) {
        ssize_t n = write(stream->to, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            int rc = wait_end(stream, stream->to, POLLOUT, "psql", err);
            if (rc)
                return rc;
            continue;
        }
        if (n < 0) {
            close_end(&stream->to);
            int rc = kiln_child_end_moving(&stream->sink, stream->still_s, err);
            return rc ? rc : kiln_fail(err, KILN_IO, "write to psql: %s", strerror(errno));
        }
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

static int copy_all(struct stream *stream, struct kiln_error *err)
{
    char piece[PIECE];
    for (;;) {
        int rc = wait_end(stream, stream->from, POLLIN, "pg_restore", err);
        if (rc)
            return rc;
        ssize_t n = read(stream->from, piece, sizeof piece);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return kiln_fail(err, KILN_IO, "read from pg_restore: %s", strerror(errno));
        if (n == 0)
            return 0;
        rc = send_bytes(stream, piece, (size_t)n, err);
        if (rc)
            return rc;
    }
}

static int start(struct kiln_cli *cli, const struct kiln_site *site, const char *dump,
                 struct stream *stream, struct kiln_error *err)
{
    char pg_restore[PATH_MAX], psql[PATH_MAX], **environment = NULL;
    int source[2], sink[2];
    if (!kiln_postgres_program("pg_restore", 0, pg_restore) ||
        !kiln_postgres_program("psql", site->server_major, psql))
        return kiln_fail(err, KILN_CONFIG,
                         "pg_restore and psql are not installed: apt-get install "
                         "postgresql-client");
    if (pipe2(source, O_CLOEXEC) != 0)
        return kiln_fail(err, KILN_IO, "make a pipe: %s", strerror(errno));
    stream->from = source[0];
    if (pipe2(sink, O_CLOEXEC) != 0) {
        close(source[1]);
        return kiln_fail(err, KILN_IO, "make a pipe: %s", strerror(errno));
    }
    stream->to = sink[1];
    fcntl(stream->from, F_SETFL, O_NONBLOCK);
    fcntl(stream->to, F_SETFL, O_NONBLOCK);
    char *from[] = {pg_restore,   "--no-owner", "--no-privileges", "--exit-on-error", "--file=-",
                    (char *)dump, NULL};
    char *into[] = {psql, "-X", "-q", "-w", "-v", "ON_ERROR_STOP=1", NULL};
    int rc = kiln_pg_environment(cli->config, &environment, err);
    if (rc == 0)
        rc = kiln_child_start(&stream->source, from, NULL, -1, source[1], err);
    if (rc == 0)
        rc = kiln_child_start(&stream->sink, into, environment, sink[0], -1, err);
    kiln_pg_environment_free(environment);
    close(source[1]);
    close(sink[0]);
    return rc;
}

/* Replaces the tables by those of the dump in one transaction: after any failure the database is as
 * it was.  New jobs and batches get numbers that were never used, not even after the backup.
 * KILN_TIMEOUT: no progress for still_s. */
static int stream_dump(struct kiln_cli *cli, const struct kiln_backup *backup,
                       const struct kiln_site *site, const char *dump, double still_s,
                       struct kiln_error *err)
{
    struct stream stream = {.from = -1, .to = -1, .still_s = still_s};
    char begin[512], finish[1024];
    const char *name = site->schema_name;
    /* Drops the old tables in the transaction that makes the new ones. */
    snprintf(begin, sizeof begin,
             "BEGIN;\nSET LOCAL lock_timeout = '15s';\nSET LOCAL client_min_messages = error;\n"
             "DROP SCHEMA IF EXISTS \"%s\" CASCADE;\n",
             name);
    snprintf(finish, sizeof finish,
             "SELECT setval('\"%s\".job_id_seq', greatest((SELECT last_value FROM"
             " \"%s\".job_id_seq), %" PRIu64 ") + %d);\n"
             "SELECT setval('\"%s\".batch_id_seq', greatest((SELECT last_value FROM"
             " \"%s\".batch_id_seq), %" PRIu64 ") + %d);\nCOMMIT;\n",
             name, name, site->last_job, NUMBERS_SKIPPED, name, name, site->last_batch,
             NUMBERS_SKIPPED);
    if (strcmp(name, backup->schema_name) != 0)
        return kiln_fail(
            err, KILN_CONFIG,
            "the backup is of Postgres schema \"%s\", but the setting postgres names \"%s\"",
            backup->schema_name, name);
    int rc = start(cli, site, dump, &stream, err);
    if (rc == 0)
        rc = send_bytes(&stream, begin, strlen(begin), err);
    if (rc == 0)
        rc = copy_all(&stream, err);
    if (rc == 0)
        rc = kiln_child_end_moving(&stream.source, still_s, err);
    if (rc == 0)
        rc = send_bytes(&stream, finish, strlen(finish), err);
    close_end(&stream.from);
    close_end(&stream.to);
    if (rc == 0)
        rc = kiln_child_end_moving(&stream.sink, still_s, err);
    kiln_child_drop(&stream.source);
    kiln_child_drop(&stream.sink);
    return rc ? kiln_fail_in(err, "restore") : 0;
}

/* --- the verb --------------------------------------------------------------------------------- */

struct restore {
    struct kiln_cli *cli;
    const char *dir;
    bool yes, check, hashes;
    int64_t still_s;
    bool declined; /* nobody agreed */
    struct kiln_backup backup;
    struct kiln_site site;
    struct kiln_compare compare;
    uint64_t shown; /* objects that are missing or differ, without --json and --check */
    json_t *wrong;  /* for --json */
};

static int note_wrong(void *arg, const char *what, const struct kiln_manifest_entry *entry,
                      struct kiln_error *err)
{
    struct restore *restore = arg;
    if (restore->cli->json && json_array_size(restore->wrong) < NAMED_MAX)
        json_array_append_new(restore->wrong,
                              json_pack("{s:s, s:s}", "key", entry->key, "what", what));
    else if (!restore->cli->json && (restore->check || restore->shown++ < SHOWN_MAX))
        kiln_print_line("%-8s %s", what, entry->key);
    return kiln_stdout_ok() ? 0 : kiln_fail(err, KILN_CANCELLED, "the reader of the list has gone");
}

static int compare_store(struct restore *restore, struct kiln_error *err)
{
    char path[PATH_MAX];
    struct kiln_compare *compare = &restore->compare;
    *compare = (struct kiln_compare){
        .cli = restore->cli, .hashes = restore->hashes, .each = note_wrong, .arg = restore};
    kiln_join(path, restore->dir, KILN_BACKUP_OBJECTS);
    compare->manifest = fopen(path, "re");
    if (!compare->manifest)
        return kiln_fail(err, KILN_IO, "open %s: %s", path, strerror(errno));
    int rc = kiln_store_open(restore->cli->config, &compare->store, err);
    if (rc == 0)
        rc = kiln_store_compare(compare, err);
    kiln_store_close(compare->store);
    fclose(compare->manifest);
    return rc;
}

/* The checks before anything is replaced. */
static int check_site(struct restore *restore, struct kiln_error *err)
{
    const struct kiln_backup *backup = &restore->backup;
    struct kiln_site *site = &restore->site;
    if (backup->schema > kiln_migrate_version())
        return kiln_fail(
            err, KILN_UNSUPPORTED,
            "the backup has schema %d, this program knows up to %d: install Kiln %s or newer",
            backup->schema, kiln_migrate_version(), backup->kiln);
    int rc = kiln_site_inspect(restore->cli->config, site, err);
    if (rc)
        return rc;
    if (site->server_major < backup->postgres_major)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "the backup is from Postgres %d, but the server is Postgres %d: a dump "
                         "cannot be restored "
                         "into an older server",
                         backup->postgres_major, site->server_major);
    if (site->others)
        return kiln_fail(
            err, KILN_EXISTS,
            "schema \"%s\" of the database has %s but no ledger; a restore would replace the whole "
            "schema: create another database and set postgres",
            site->schema_name, KILN_COUNT(site->others, "table"));
    if (site->daemons)
        return kiln_fail(err, KILN_FULL,
                         "the fleet still has %s to the database, such as that of %s: stop "
                         "schedulers and workers "
                         "first (a private stack: `kiln down --daemons`)",
                         KILN_COUNT(site->daemons, "connection"), site->daemon);
    return 0;
}

static int replace_ledger(struct restore *restore, struct kiln_error *err)
{
    char question[384], dump[PATH_MAX];
    struct kiln_migration migration = {0};
    const struct kiln_site *site = &restore->site;
    snprintf(question, sizeof question,
             "The backup (%s) will replace the ledger (%s%s) and everything else in schema \"%s\".",
             KILN_COUNT(restore->backup.jobs, "job"), site->jobs >= 1000000 ? "over " : "",
             KILN_COUNT(site->jobs, "job"), site->schema_name);
    restore->declined = site->jobs && !kiln_confirm(restore->cli, restore->yes, question);
    if (restore->declined)
        return kiln_fail(err, KILN_CANCELLED, "the ledger was not changed");
    kiln_join(dump, restore->dir, KILN_BACKUP_DUMP);
    int rc = stream_dump(restore->cli, &restore->backup, site, dump, (double)restore->still_s, err);
    if (rc == 0)
        rc = kiln_migrate(restore->cli->config, &migration, err);
    if (rc == 0 && migration.from != migration.to)
        kiln_say(restore->cli, "upgraded the schema from version %d to %d", migration.from,
                 migration.to);
    return rc;
}

static int say_result(const struct restore *restore)
{
    const struct kiln_compare *compare = &restore->compare;
    const struct kiln_backup *backup = &restore->backup;
    struct kiln_cli *cli = restore->cli;
    if (!restore->check)
        kiln_say(cli, "restored the ledger: %s", KILN_COUNT(backup->jobs, "job"));
    kiln_say(cli,
             "%s in the backup: %" PRIu64 " missing from %s, %" PRIu64
             " different; %s not in the backup",
             KILN_COUNT(compare->compared, "object"), compare->missing,
             kiln_config_text(cli->config, KILN_KEY_STORE), compare->differ,
             KILN_COUNT(compare->extra, "object"));
    if (restore->shown > SHOWN_MAX)
        kiln_say(cli, "      the first %d are listed; `kiln restore %s --check` lists all",
                 SHOWN_MAX, restore->dir);
    if (compare->missing + compare->differ)
        kiln_say(cli,
                 "      copy them back from a copy of the store, then check again: kiln restore %s "
                 "--check",
                 restore->dir);
    int bad = compare->missing + compare->differ > 0;
    int status = 0;
    if (cli->json)
        status = kiln_print_json(
            cli,
            json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:O}", "restored", !restore->check, "jobs",
                      (json_int_t)backup->jobs, "objects", (json_int_t)compare->compared, "missing",
                      (json_int_t)compare->missing, "differ", (json_int_t)compare->differ, "extra",
                      (json_int_t)compare->extra, "wrong", restore->wrong));
    return status ? status : bad;
}

int kiln_verb_restore(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct restore restore = {.cli = cli};
    int status = kiln_arg_duration(cli, args, "stall", STALL_S, &restore.still_s);
    if (status)
        return status;
    if (restore.still_s == 0)
        return kiln_usage(cli, "--stall must be longer than 0");
    restore.dir = args->rest[0];
    restore.yes = kiln_arg(args, "yes") != NULL;
    restore.check = kiln_arg(args, "check") != NULL;
    restore.hashes = kiln_arg(args, "hashes") != NULL;
    int rc = kiln_backup_read(restore.dir, &restore.backup, &err);
    if (rc == 0 && !restore.check)
        rc = check_site(&restore, &err);
    if (rc == 0 && !restore.check)
        rc = replace_ledger(&restore, &err);
    restore.wrong = json_array();
    if (rc == 0)
        rc = compare_store(&restore, &err);
    status = rc ? kiln_report(cli, &err) : say_result(&restore);
    if (restore.declined)
        status = EX_USAGE; /* as with every verb that asks */
    json_decref(restore.wrong);
    return status;
}
