/* names.h - from a key of a LoRA file to the modules of a model.  Private to lora.c.
 * Layouts differ in separators: attention.to_q, attention_to_q, attention.to.q.  With '_' for every
 * '.', the names are equal.  The table holds the model's names in that form, so no rule has to
 * guess where "context_refiner" ends.
 */
#ifndef KILN_LORA_NAMES_H
#define KILN_LORA_NAMES_H

#include <stdbool.h>

#include "pipeline/lora/file/lora.h"

enum kiln_lora_role { KILN_LORA_A, KILN_LORA_B, KILN_LORA_ALPHA };

/* The unsupported kind of adapter that the key belongs to ("LoKr"), or NULL. */
const char *kiln_lora_refused_kind(const char *key);

/* Removes prefix and ending, and flattens the rest into flat[KILN_ST_NAME_MAX + 1].  False if the
 * key has no ending of a LoRA. */
bool kiln_lora_parse_key(const char *key, enum kiln_lora_role *ret_role, char *flat);

/* What a flat name means: one module, or the q, k and v of a fused projection. */
struct kiln_lora_target {
    char *flat;
    bool alias;        /* a repack's name, not the model's own */
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
