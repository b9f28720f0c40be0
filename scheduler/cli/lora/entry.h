/* entry.h - the texts and numbers of a LoRA, as an entry of loras.json (schemas/loras.schema.json).
 *
 * They come from options, from a loras.json or from the header of a file, which strangers wrote.
 */
#ifndef KILN_CLI_LORA_ENTRY_H
#define KILN_CLI_LORA_ENTRY_H

#include "scheduler/cli/core/cli.h"
#include "scheduler/router/lora_file.h"
#include "schemas/limits.h"

/* Sets the keys that options name; "" removes one.  An exit status. */
int kiln_lora_entry_options(struct kiln_cli *cli, const struct kiln_args *args,
                            json_t *entry) KILN_MUST_CHECK;

/* Refuses what the router would refuse, and characters that steer a terminal.  where: in messages.
 * *ret_text: the entry as JSON, malloc'd. */
int kiln_lora_entry_check(const json_t *entry, const char *where,
                          const struct kiln_lexicon *lexicon, struct kiln_lora_facts *ret,
                          char **ret_text, struct kiln_error *err) KILN_MUST_CHECK;

/* Says which phrases the lexicon adds, which triggers other LoRAs have (others: loras.json's text)
 * and which count for nothing. */
void kiln_lora_entry_explain(const struct kiln_cli *cli, const json_t *entry,
                             const struct kiln_lexicon *lexicon, const char *others);

/* A stranger's text cut to `most` bytes, with a blank for what steers a terminal; "" if nothing is
 * left. */
void kiln_lora_clean_text(const char *text, char *out, size_t most);

#endif
