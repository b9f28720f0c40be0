/* lora_paths.h - where the LoRAs of an assignment lie: lora_dir/NAME.safetensors, in the model's
 * folder loras/ where no lora_dir is set.
 */
#ifndef KILN_LORA_PATHS_H
#define KILN_LORA_PATHS_H

#include "pipeline/diffusionz_batch.h"
#include "schemas/config.h"
#include "schemas/wire.h"

#define KILN_LORA_PATH_MAX 4096

struct kiln_lora_paths {
    char paths[KILN_LORAS_MAX][KILN_LORA_PATH_MAX];
    DiffusionZLora loras[KILN_LORAS_MAX]; /* their paths point into this struct */
    int32_t count;
};

void kiln_lora_paths_fill(struct kiln_lora_paths *p, const struct kiln_config *config,
                          const struct kiln_assignment *assignment);

#endif
