/* modules.h - the modules of a model that LoRAs may change, from the headers of its weights.
 *
 * They are the matrices NAME.weight of transformer/, so no configuration has to be believed.
 */
#ifndef KILN_LORA_MODULES_H
#define KILN_LORA_MODULES_H

#include "pipeline/lora/file/lora.h"

struct kiln_lora_modules {
    struct kiln_lora_module *at;
    size_t count;
    struct kiln_st *st; /* the weights, mapped */
    char *names;        /* of the modules */
};

/* dir: a model in the diffusers layout.  KILN_NOT_FOUND without weights there. */
int kiln_lora_modules_open(const char *dir, struct kiln_lora_modules *ret,
                           struct kiln_error *err) KILN_MUST_CHECK;
void kiln_lora_modules_close(struct kiln_lora_modules *modules); /* takes a zeroed one */

/* The weight of module i, [rows, cols]. */
const struct kiln_st_tensor *kiln_lora_modules_weight(const struct kiln_lora_modules *modules,
                                                      size_t i);

#endif
