/* lora_files.h - where the LoRA files of an assignment are, and their hashes.
 *
 * A name may get another file at any time, so each commit records the hashes, and coarse=auto goes
 * by them.
 */
#ifndef KILN_LORA_FILES_H
#define KILN_LORA_FILES_H

#include <stdbool.h>

#include "pipeline/diffusionz_batch.h"
#include "schemas/config/config.h"
#include "schemas/wire/wire.h"

#define KILN_LORA_PATH_MAX 4096

struct kiln_lora_paths {
    char paths[KILN_LORAS_MAX][KILN_LORA_PATH_MAX];
    DiffusionZLora loras[KILN_LORAS_MAX]; /* their paths point into this struct */
    int32_t count;
};

/* lora_dir/NAME.safetensors, or loras/ in the model's folder if no lora_dir is set. */
void kiln_lora_paths_fill(struct kiln_lora_paths *p, const struct kiln_config *config,
                          const struct kiln_assignment *assignment);

/* "NAME:SHA256+NAME:SHA256" in order of the names, "" for no LoRAs.  False, and *out is "", where a
 * file cannot be read. */
bool kiln_lora_files_text(const struct kiln_lora_paths *paths,
                          const struct kiln_assignment *assignment, char out[KILN_LORA_FILES_MAX]);

#endif
