/* try.h - `kiln lora try`: the LoRAs that a prompt would get. */
#ifndef KILN_CLI_LORA_TRY_H
#define KILN_CLI_LORA_TRY_H

#include "scheduler/cli/core/cli.h"

/* An exit status. */
int kiln_lora_try(struct kiln_cli *cli, const struct kiln_args *args);

#endif
