/* lora.c - `kiln lora`: its subcommands. */
#include <string.h>

#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/lora/try.h"

int kiln_verb_lora(struct kiln_cli *cli, const struct kiln_args *args)
{
    if (strcmp(args->rest[0], "try") == 0)
        return kiln_lora_try(cli, args);
    return kiln_usage(cli, "unknown subcommand '%.40s'; there is `kiln lora try`", args->rest[0]);
}
