/* migrate.c - `kiln migrate`: upgrades the ledger's schema to the version of this program; --roles
 * (roles.c) makes users of Postgres and Redis with few rights.
 */
#include <stdio.h>
#include <string.h>

#include "scheduler/cli/core/cli.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/upkeep/roles.h"
#include "storage/ledger/migrate.h"

/* Prints a line when a phase begins, and for each further tenth. */
struct building {
    struct kiln_cli *cli;
    char phase[64];
    int tenths;
};

static void say_progress(void *arg, const char *index, const char *phase, double done)
{
    struct building *building = arg;
    int tenths = (int)(done * 10);
    if (strcmp(phase, building->phase) == 0 && tenths <= building->tenths)
        return;
    snprintf(building->phase, sizeof building->phase, "%s", phase);
    building->tenths = tenths;
    kiln_say(building->cli, "index %s: %s, %d %%", index, phase, tenths * 10);
}

int kiln_verb_migrate(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct building building = {.cli = cli};
    bool dry_run = kiln_arg(args, "dry-run") != NULL;
    bool roles = kiln_arg(args, "roles") != NULL;
    if (kiln_arg(args, "secrets") && !roles)
        return kiln_usage(cli, "--secrets needs --roles");
    if (kiln_arg(args, "acl") && !kiln_arg(args, "secrets"))
        return kiln_usage(cli, "--acl needs --secrets");
    if (roles && dry_run)
        return kiln_usage(cli, "--roles has no --dry-run");
    struct kiln_migration migration = {
        .dry_run = dry_run, .progress = say_progress, .arg = &building};
    if (kiln_migrate(cli->config, &migration, &err)) {
        const int status = kiln_report(cli, &err);
        if (err.code == KILN_DENIED)
            kiln_say(cli,
                     "      only the owner of the tables migrates: use the owner's settings, as "
                     "in --config /etc/kiln/kiln.conf, and password (PGPASSWORD)");
        return status;
    }
    int from = migration.from, to = migration.to;
    if (from == to)
        kiln_say(cli, "the schema has version %d, the newest; nothing to do", from);
    else
        kiln_say(cli,
                 dry_run ? "would upgrade the schema from version %d to %d"
                         : "upgraded the schema from version %d to %d",
                 from, to);
    if (roles)
        return kiln_roles_and_users(cli, kiln_arg(args, "secrets"), kiln_arg(args, "acl"));
    return cli->json ? kiln_print_json(cli, json_pack("{s:i, s:i, s:b}", "from", from, "to", to,
                                                      "dry_run", (int)dry_run))
                     : 0;
}
