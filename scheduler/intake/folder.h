/* folder.h - the LoRAs of a directory, registered on sight.
 *
 * Each NAME.safetensors of lora_dir (or MODEL/loras) becomes a LoRA of the registry, with the
 * texts that the loras.json there has of it, so that "auto" can choose it.  The file itself stays
 * where it is: workers use the one of their own lora_dir.  A LoRA that a person has added takes
 * precedence.  Texts that this release cannot read are logged, and the LoRA has none.  When a file
 * is removed, its LoRA leaves the registry; while the directory itself cannot be read, all LoRAs
 * stay.
 */
#ifndef KILN_INTAKE_FOLDER_H
#define KILN_INTAKE_FOLDER_H

#include <stdint.h>

#include "scheduler/router/lexicon.h"
#include "schemas/config/config.h"
#include "schemas/error.h"

struct kiln_ledger;
struct kiln_lora_folder;

/* config and lexicon must outlive it; the lexicon is only read.  NULL without memory. */
struct kiln_lora_folder *kiln_lora_folder_new(const struct kiln_config *config,
                                              const struct kiln_lexicon *lexicon);
void kiln_lora_folder_free(struct kiln_lora_folder *folder); /* accepts NULL */

/* Registers what is new or changed since the last call, and ends what is gone; looks every few
 * seconds at most.  Files are hashed for about limit_ms, and the rest at the next calls.  A
 * directory or file that cannot be read is no error: errors are those of the ledger. */
int kiln_lora_folder_register(struct kiln_lora_folder *folder, struct kiln_ledger *ledger,
                              int64_t limit_ms, struct kiln_error *err) KILN_MUST_CHECK;

#endif
