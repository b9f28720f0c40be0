/* restore.c - `kiln restore DIR`: a backup becomes the ledger, and is compared with the store.
 *
 * Nothing is touched before everything is known to fit: the files are those that were written, this
 * program knows their schema, no daemon works on the database, and a ledger with jobs in it goes
 * only with a yes.  The bus needs nothing: the scheduler fills it again from the ledger.
 *
 * --check only compares: is every object of the backup still in the store?
 */
#include <errno.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/confirm.h"
#include "scheduler/cli/core/paths.h"
#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/core/times.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/upkeep/backup.h"
#include "scheduler/cli/upkeep/restore_stream.h"
#include "storage/ledger/migrate.h"

#define NAMED_MAX 10000 /* objects that --json lists */
#define STALL_S 3600    /* the longest statement of a restore: an index */

struct restore {
    struct kiln_cli *cli;
    const char *dir;
    bool yes, check, hashes;
    int64_t still_s;
    bool declined; /* asked, and nobody agreed */
    struct kiln_backup backup;
    struct kiln_site site;
    struct kiln_compare compare;
    json_t *wrong; /* for --json */
};

static int note_wrong(void *arg, const char *what, const struct kiln_manifest_entry *entry,
                      struct kiln_error *err)
{
    struct restore *restore = arg;
    if (restore->cli->json && json_array_size(restore->wrong) < NAMED_MAX)
        json_array_append_new(restore->wrong,
                              json_pack("{s:s, s:s}", "key", entry->key, "what", what));
    else if (!restore->cli->json)
        kiln_print_line("%-8s %s", what, entry->key);
    return kiln_stdout_ok() ? 0 : kiln_fail(err, KILN_CANCELLED, "nobody reads the list");
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

/* What must be so before anything is replaced. */
static int check_site(struct restore *restore, struct kiln_error *err)
{
    const struct kiln_backup *backup = &restore->backup;
    struct kiln_site *site = &restore->site;
    if (backup->schema > kiln_migrate_version())
        return kiln_fail(
            err, KILN_UNSUPPORTED,
            "the backup has schema %d, this program knows %d: install Kiln %s or newer",
            backup->schema, kiln_migrate_version(), backup->kiln);
    int rc = kiln_site_inspect(restore->cli->config, site, err);
    if (rc)
        return rc;
    if (site->server_major < backup->postgres_major)
        return kiln_fail(
            err, KILN_UNSUPPORTED,
            "the backup is of Postgres %d, the server is %d: dumps do not go backwards",
            backup->postgres_major, site->server_major);
    if (site->others)
        return kiln_fail(
            err, KILN_EXISTS,
            "schema \"%s\" of that database holds %llu tables and no ledger; a restore "
            "replaces the whole schema: create a database for it and set postgres",
            site->schema_name, (unsigned long long)site->others);
    if (site->daemons)
        return kiln_fail(err, KILN_FULL,
                         "%u connections of the fleet are open (%s): stop schedulers and workers "
                         "first, those of a private stack with `kiln down --daemons`",
                         site->daemons, site->daemon);
    return 0;
}

static int replace_ledger(struct restore *restore, struct kiln_error *err)
{
    char question[384], dump[PATH_MAX];
    struct kiln_migration migration = {0};
    const struct kiln_site *site = &restore->site;
    snprintf(question, sizeof question,
             "The database holds a ledger of %s%llu jobs, which the backup of %llu jobs replaces, "
             "with all else in schema \"%s\".",
             site->jobs >= 1000000 ? "over " : "", (unsigned long long)site->jobs,
             (unsigned long long)restore->backup.jobs, site->schema_name);
    restore->declined = site->jobs && !kiln_confirm(restore->cli, restore->yes, question);
    if (restore->declined)
        return kiln_fail(err, KILN_CANCELLED, "the ledger is as it was");
    kiln_join(dump, restore->dir, KILN_BACKUP_DUMP);
    int rc = kiln_restore_stream(restore->cli, &restore->backup, site, dump,
                                 (double)restore->still_s, err);
    if (rc == 0)
        rc = kiln_migrate(restore->cli->config, &migration, err);
    if (rc == 0 && migration.from != migration.to)
        kiln_say(restore->cli, "the schema went from version %d to %d", migration.from,
                 migration.to);
    return rc;
}

static int say_result(const struct restore *restore)
{
    const struct kiln_compare *compare = &restore->compare;
    const struct kiln_backup *backup = &restore->backup;
    struct kiln_cli *cli = restore->cli;
    if (!restore->check)
        kiln_say(cli, "the ledger has its %llu jobs back", (unsigned long long)backup->jobs);
    kiln_say(cli, "%llu objects: %llu missing from %s, %llu of other bytes; %llu more are in it",
             (unsigned long long)compare->looked, (unsigned long long)compare->missing,
             kiln_config_text(cli->config, KILN_KEY_STORE), (unsigned long long)compare->differ,
             (unsigned long long)compare->extra);
    if (compare->missing + compare->differ)
        kiln_say(cli, "      copy them from a copy of the store, then: kiln restore %s --check",
                 restore->dir);
    int bad = compare->missing + compare->differ > 0;
    int status = 0;
    if (cli->json)
        status = kiln_print_json(
            cli,
            json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:O}", "restored", !restore->check, "jobs",
                      (json_int_t)backup->jobs, "objects", (json_int_t)compare->looked, "missing",
                      (json_int_t)compare->missing, "differ", (json_int_t)compare->differ, "extra",
                      (json_int_t)compare->extra, "wrong", restore->wrong));
    return status ? status : bad;
}

int kiln_verb_restore(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    struct kiln_error err;
    struct restore restore = {.cli = cli};
    int status = kiln_args_parse(cli, argc, argv, 1, 1, &args);
    if (status == 0)
        status = kiln_arg_duration(cli, &args, "stall", STALL_S, &restore.still_s);
    if (status)
        return status;
    if (restore.still_s == 0)
        return kiln_usage(cli, "--stall 0 leaves no time for anything");
    restore.dir = args.rest[0];
    restore.yes = kiln_arg(&args, "yes") != NULL;
    restore.check = kiln_arg(&args, "check") != NULL;
    restore.hashes = kiln_arg(&args, "hashes") != NULL;
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
        status = EX_USAGE; /* as of every verb that needs a yes */
    json_decref(restore.wrong);
    return status;
}
