/* header.h - what the header of a LoRA file claims about it, for a person to read.
 *
 * Strangers wrote it.  Nothing of it is used: whoever adds the file gives what is right as options.
 */
#ifndef KILN_CLI_LORA_HEADER_H
#define KILN_CLI_LORA_HEADER_H

#include "pipeline/lora/file/lora.h"
#include "scheduler/cli/core/cli.h"

/* Prints each claim on a line of its own, cut and cleaned; name: of the LoRA. */
void kiln_lora_say_claims(const struct kiln_cli *cli, const struct kiln_lora_file *file,
                          const char *name);

#endif
