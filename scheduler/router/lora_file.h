/* lora_file.h - loras.json: the texts by which LoRAs are chosen; schemas/loras.schema.json has its
 * keys. */
#ifndef KILN_ROUTER_LORA_FILE_H
#define KILN_ROUTER_LORA_FILE_H

#include <jansson.h>

#include "scheduler/router/router.h"

#define KILN_LORA_FILE_MAX (64 << 20)   /* bytes */
#define KILN_LORA_ENTRY_MAX (256 << 10) /* bytes of one LoRA in the registry, as JSON */

/* Reads text[0..len); `where` names it in messages.  *ret is malloc'd, its texts too
 * (kiln_router_lora_release, or kiln_router_build takes all over).  KILN_BAD_INPUT names the LoRA
 * and the key. */
int kiln_lora_file_read(const char *text, size_t len, const char *where,
                        struct kiln_router_lora **ret, size_t *ret_count,
                        struct kiln_error *err) KILN_MUST_CHECK;

/* What the router makes of one LoRA. */
struct kiln_lora_facts {
    char tenant[KILN_NAME_MAX + 1]; /* "": everybody's */
    bool enabled;
    bool routable; /* enabled, and there is a text by which a prompt can choose it */
};
/* Reads an object of the list alone, and builds a router of it.  KILN_BAD_INPUT: this release
 * cannot route to it, or it is longer than KILN_LORA_ENTRY_MAX. */
int kiln_lora_file_try(const char *lora, const char *where, const struct kiln_lexicon *lexicon,
                       struct kiln_lora_facts *ret, struct kiln_error *err) KILN_MUST_CHECK;

/* Removes what a registry knows by itself: keys that describe the file, and what ratings taught
 * another registry. */
void kiln_lora_file_forget(json_t *entry);

/* The first character of a text that steers a terminal (kiln_utf8_steering; 0: what is no
 * character), or -1.  Triggers are shown, and put in front of prompts. */
int kiln_lora_text_steers(const char *text);

/* "style", "subject", "character", "effect", "motion"; NULL for an unknown one. */
const char *kiln_lora_category_name(enum kiln_lora_category category);

#endif
