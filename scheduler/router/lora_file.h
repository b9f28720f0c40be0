/* lora_file.h - loras.json: the texts by which LoRAs are chosen; schemas/loras.schema.json has its
 * keys. */
#ifndef KILN_ROUTER_LORA_FILE_H
#define KILN_ROUTER_LORA_FILE_H

#include "scheduler/router/router.h"

#define KILN_LORA_FILE_MAX (64 << 20) /* bytes */

/* Reads text[0..len); `where` names it in messages.  *ret is malloc'd, its texts too
 * (kiln_router_lora_release, or kiln_router_build takes all over).  KILN_BAD_INPUT names the LoRA
 * and the key. */
int kiln_lora_file_read(const char *text, size_t len, const char *where,
                        struct kiln_router_lora **ret, size_t *ret_count,
                        struct kiln_error *err) KILN_MUST_CHECK;

/* "style", "subject", "character", "effect", "motion"; NULL for an unknown one. */
const char *kiln_lora_category_name(enum kiln_lora_category category);

#endif
