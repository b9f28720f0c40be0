/* lora.c - `kiln lora`: its subcommands, and which options each of them has. */
#include <stdio.h>
#include <string.h>

#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/lora/registry.h"
#include "scheduler/cli/lora/try.h"

#define TEXTS                                                                                      \
    " triggers positive negative description examples category type base variant family "          \
    "of-tenant trigger-mode licence source scale min max commercial-use enable disable "

static const struct {
    const char *name;
    int (*run)(struct kiln_cli *cli, const struct kiln_args *args);
    const char *options; /* a blank on both sides of each */
} subcommands[] = {
    {"add", kiln_lora_add, " name" TEXTS},
    {"import", kiln_lora_import, ""},
    {"ls", kiln_lora_ls, " version at "},
    {"show", kiln_lora_show, " version at "},
    {"edit", kiln_lora_edit, TEXTS},
    {"replace", kiln_lora_replace, TEXTS},
    {"rename", kiln_lora_rename, ""},
    {"rm", kiln_lora_remove, " yes "},
    {"learn", kiln_lora_learn, " dry-run "},
    {"try", kiln_lora_try,
     " loras version at negative-prompt style base variant of-tenant commercial video "},
};

int kiln_verb_lora(struct kiln_cli *cli, const struct kiln_args *args)
{
    const char *word = args->rest[0];
    char what[32];
    for (size_t s = 0; s < sizeof subcommands / sizeof *subcommands; s++) {
        if (strcmp(word, subcommands[s].name) != 0)
            continue;
        snprintf(what, sizeof what, "kiln lora %s", word);
        int status = kiln_args_only(cli, args, subcommands[s].options, what);
        if (status)
            return status;
        const bool alone = kiln_arg(args, "loras") != NULL; /* a file needs no settings */
        return cli->config_error.code && !alone ? kiln_report(cli, &cli->config_error)
                                                : subcommands[s].run(cli, args);
    }
    return kiln_usage(cli,
                      "unknown subcommand '%.40s'; there are add, import, ls, show, edit, replace, "
                      "rename, rm, try and learn",
                      word);
}
