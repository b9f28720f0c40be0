/* migrate.c - `kiln migrate`: brings the ledger's schema to the version of this program. */
#include "storage/migrate.h"

#include "scheduler/cli/cli.h"
#include "scheduler/cli/verbs.h"

int kiln_verb_migrate(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    struct kiln_error err;
    int from = 0, to = 0;
    int status = kiln_args_parse(cli, argc, argv, 0, 0, &args);
    if (status)
        return status;
    bool dry_run = kiln_arg(&args, "dry-run") != NULL;
    if (kiln_migrate(cli->config, dry_run, &from, &to, &err))
        return kiln_report(cli, &err);
    if (from == to)
        kiln_say(cli, "the schema is version %d: nothing to do", from);
    else
        kiln_say(cli,
                 dry_run ? "the schema would go from version %d to %d"
                         : "the schema went from version %d to %d",
                 from, to);
    return cli->json ? kiln_print_json(cli, json_pack("{s:i, s:i, s:b}", "from", from, "to", to,
                                                      "dry_run", (int)dry_run))
                     : 0;
}
