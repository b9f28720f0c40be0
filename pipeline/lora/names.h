/* names.h - which modules of a model a key of a LoRA file means.  Private to lora.c.
 *
 * All layouts spell the same module name with other separators: attention.to_q, attention_to_q,
 * attention.to.q.  Written with '_' for every '.', they are one; the table holds the model's own
 * names in that form, so no rule has to guess where "context_refiner" ends.
 */
#ifndef KILN_LORA_NAMES_H
#define KILN_LORA_NAMES_H

#include <stdbool.h>

#include "pipeline/lora/lora.h"

enum kiln_lora_role { KILN_LORA_A, KILN_LORA_B, KILN_LORA_ALPHA };

/* The kind of adapter that the key belongs to and Kiln does not read ("LoKr"), or NULL. */
const char *kiln_lora_refused_kind(const char *key);

/* Takes the prefix and the ending off; flat holds KILN_ST_NAME_MAX + 1 bytes.  false if the
 * ending is none of a LoRA's. */
bool kiln_lora_parse_key(const char *key, enum kiln_lora_role *ret_role, char *flat);

/* What a name stands for: one module, or the q, k and v of a fused projection. */
struct kiln_lora_target {
    char *flat;
    bool alias;        /* not the model's own name, but the one of a repack */
    size_t count;      /* 1 or 3 */
    size_t modules[3]; /* in the order of B's rows */
};

struct kiln_lora_names {
    struct kiln_lora_target *targets; /* sorted by flat */
    size_t count;
};

int kiln_lora_names_init(struct kiln_lora_names *names, const struct kiln_lora_module *modules,
                         size_t count, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_lora_names_release(struct kiln_lora_names *names);
const struct kiln_lora_target *kiln_lora_names_find(const struct kiln_lora_names *names,
                                                    const char *flat); /* or NULL */

#endif
