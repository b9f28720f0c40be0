/* backup.c - `kiln backup --out DIR`: the ledger as files for `kiln restore`.
 *
 * It writes DIR.part and renames it when everything is on the disk, so an interruption leaves no
 * backup rather than half of one.  The fleet keeps working.
 */
#include "scheduler/cli/upkeep/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scheduler/cli/core/paths.h"
#include "scheduler/cli/core/programs.h"
#include "scheduler/cli/core/verbs.h"
#include "storage/formats/replace.h"
#include "storage/ledger/upkeep/backup.h"

#define DUMP_LIMIT_S (24.0 * 3600)

/* Makes the directory, for its owner only: a dump contains prompts. */
static int make_part(const char *out, const char *part, struct kiln_error *err)
{
    if (access(out, F_OK) == 0)
        return kiln_fail(err, KILN_EXISTS,
                         "%s already exists; choose a new directory for the backup", out);
    kiln_remove_tree(part); /* left by a run that was killed */
    if (mkdir(part, 0700) != 0)
        return kiln_fail(err,
                         errno == ENOSPC   ? KILN_FULL
                         : errno == EACCES ? KILN_DENIED
                         : errno == ENOENT ? KILN_NOT_FOUND
                                           : KILN_IO,
                         "make directory %s: %s", part, strerror(errno));
    return 0;
}

static int run_pg_dump(struct kiln_cli *cli, const struct kiln_snapshot_facts *facts,
                       const char *path, struct kiln_error *err)
{
    char program[PATH_MAX], snapshot[96], schema[96];
    char **environment = NULL;
    struct kiln_child child = {0};
    if (!kiln_postgres_program("pg_dump", facts->server_major, program))
        return kiln_fail(err, KILN_CONFIG,
                         "pg_dump is not installed: apt-get install postgresql-client");
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return kiln_fail(err, KILN_IO, "create %s: %s", path, strerror(errno));
    snprintf(snapshot, sizeof snapshot, "--snapshot=%s", facts->id);
    snprintf(schema, sizeof schema, "--schema=\"%s\"", facts->schema_name);
    char *argv[] = {program,         "--format=custom",
                    "--no-owner",    "--no-privileges",
                    "--no-sync",     schema,
                    snapshot,        "--lock-wait-timeout=60000",
                    "--no-password", NULL};
    int rc = kiln_pg_environment(cli->config, &environment, err);
    if (rc == 0)
        rc = kiln_child_start(&child, argv, environment, -1, fd, err);
    if (rc == 0)
        rc = kiln_child_end(&child, DUMP_LIMIT_S, err);
    kiln_pg_environment_free(environment);
    if (rc == 0 && fsync(fd) != 0)
        rc = kiln_fail(err, KILN_IO, "fsync %s: %s", path, strerror(errno));
    close(fd);
    return rc;
}

static int write_objects(struct kiln_snapshot *snapshot, const char *path,
                         struct kiln_backup *backup, struct kiln_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file) {
        if (fd >= 0)
            close(fd);
        return kiln_fail(err, KILN_IO, "create %s: %s", path, strerror(errno));
    }
    int rc = kiln_manifest_write(snapshot, file, &backup->objects, &backup->bytes, err);
    if (rc == 0 && fsync(fileno(file)) != 0)
        rc = kiln_fail(err, KILN_IO, "fsync %s: %s", path, strerror(errno));
    if (fclose(file) != 0 && rc == 0)
        rc = kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "write %s: %s", path,
                       strerror(errno));
    return rc;
}

/* Renames and syncs the directory above, so that the backup survives a power cut. */
static int move_into_place(const char *part, const char *out, struct kiln_error *err)
{
    char above[PATH_MAX];
    snprintf(above, sizeof above, "%s", out);
    char *slash = strrchr(above, '/');
    if (slash)
        slash[slash == above] = '\0';
    if (rename(part, out) != 0)
        return kiln_fail(err, KILN_IO, "rename %s to %s: %s", part, out, strerror(errno));
    int fd = open(slash ? above : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && kiln_sync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return ok ? 0 : kiln_fail(err, KILN_IO, "fsync %s: %s", slash ? above : ".", strerror(errno));
}

static int write_parts(struct kiln_cli *cli, const char *part, struct kiln_backup *backup,
                       struct kiln_error *err)
{
    char dump[PATH_MAX], objects[PATH_MAX];
    struct kiln_snapshot *snapshot = NULL;
    struct kiln_snapshot_facts facts = {0};
    kiln_join(dump, part, KILN_BACKUP_DUMP);
    kiln_join(objects, part, KILN_BACKUP_OBJECTS);
    int rc = kiln_snapshot_open(cli->config, &snapshot, &facts, err);
    if (rc == 0)
        rc = run_pg_dump(cli, &facts, dump, err);
    if (rc == 0)
        rc = write_objects(snapshot, objects, backup, err);
    kiln_snapshot_close(snapshot);
    if (rc == 0)
        rc = kiln_file_sha256(dump, backup->dump_sha256, err);
    if (rc == 0)
        rc = kiln_file_sha256(objects, backup->objects_sha256, err);
    if (rc)
        return rc;
    backup->format = KILN_BACKUP_FORMAT;
    backup->schema = facts.schema;
    backup->postgres_major = facts.server_major;
    backup->jobs = facts.jobs;
    backup->at_ms = facts.at_ms;
    snprintf(backup->kiln, sizeof backup->kiln, "%s", KILN_VERSION);
    snprintf(backup->schema_name, sizeof backup->schema_name, "%s", facts.schema_name);
    snprintf(backup->store, sizeof backup->store, "%s",
             kiln_config_text(cli->config, KILN_KEY_STORE));
    return kiln_backup_write(backup, part, err);
}

static int say_backup(struct kiln_cli *cli, const struct kiln_backup *backup, const char *out)
{
    kiln_say(cli, "backed up the ledger (%s) to %s; now copy the store too: %s, %s in %s",
             KILN_COUNT(backup->jobs, "job"), out, KILN_COUNT(backup->objects, "object"),
             KILN_BYTES(backup->bytes), backup->store);
    if (cli->json)
        return kiln_print_json(cli, json_pack("{s:s, s:i, s:I, s:I, s:I}", "backup", out, "schema",
                                              backup->schema, "jobs", (json_int_t)backup->jobs,
                                              "objects", (json_int_t)backup->objects, "bytes",
                                              (json_int_t)backup->bytes));
    printf("%s\n", out);
    return 0;
}

int kiln_verb_backup(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct kiln_backup backup = {0};
    char out[PATH_MAX - 8], part[PATH_MAX];
    const char *dir = kiln_arg(args, "out");
    if (!dir || !dir[0])
        return kiln_usage(cli, "--out DIR is missing");
    if (snprintf(out, sizeof out, "%s", dir) >= PATH_MAX - 64)
        return kiln_usage(cli, "--out: the path is too long");
    for (size_t len = strlen(out); len > 1 && out[len - 1] == '/';)
        out[--len] = '\0';
    snprintf(part, sizeof part, "%s.part", out);
    int rc = make_part(out, part, &err);
    if (rc)
        return kiln_report(cli, &err);
    rc = write_parts(cli, part, &backup, &err);
    if (rc == 0)
        rc = move_into_place(part, out, &err);
    if (rc == 0)
        return say_backup(cli, &backup, out);
    kiln_remove_tree(part);
    return kiln_report(cli, &err);
}
