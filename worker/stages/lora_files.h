/* lora_files.h - where the LoRA files of an assignment are, and their hashes.
 *
 * A LoRA with a hash is the file of lora_dir if that has it, else the one of the disk cache
 * (worker/state/lora_disk.h).  One without is whatever lora_dir has under the name, which may get
 * another file at any time.  So each commit records the hashes, coarse=auto goes by them, and a
 * file is checked when it is used.
 */
#ifndef KILN_LORA_FILES_H
#define KILN_LORA_FILES_H

#include <stdbool.h>

#include "pipeline/diffusionz_batch.h"
#include "schemas/config/config.h"
#include "worker/state/flights.h"

#define KILN_LORA_PATH_MAX 4096

struct kiln_lora_paths {
    char paths[KILN_LORAS_MAX][KILN_LORA_PATH_MAX];
    DiffusionZLora loras[KILN_LORAS_MAX]; /* their paths point into this struct */
    int32_t count;
};

/* Whether each LoRA of the flight that has a hash is on this machine; pins those of the disk cache.
 * Asks no server. */
bool kiln_lora_files_here(const struct kiln_config *config, struct kiln_lora_disk *disk,
                          struct kiln_flight *flight);
/* Fetches those that are not, and pins them; errors of kiln_lora_disk_fetch. */
int kiln_lora_files_fetch(const struct kiln_config *config, struct kiln_lora_disk *disk,
                          struct kiln_store *store, struct kiln_flight *flight,
                          struct kiln_error *err) KILN_MUST_CHECK;

/* The file of the flight's pin, or lora_dir/NAME.safetensors, or loras/ in the model's folder if no
 * lora_dir is set. */
void kiln_lora_paths_fill(struct kiln_lora_paths *p, const struct kiln_config *config,
                          const struct kiln_flight *flight);

/* "NAME:SHA256+NAME:SHA256" in order of the names, "" for no LoRAs.  False, and *out is "", where a
 * file cannot be read. */
bool kiln_lora_files_text(const struct kiln_lora_paths *paths,
                          const struct kiln_assignment *assignment, char out[KILN_LORA_FILES_MAX]);

/* Names the LoRA in an error about its file, which in the disk cache is called by its hash. */
void kiln_lora_files_name(const struct kiln_lora_paths *paths,
                          const struct kiln_assignment *assignment, struct kiln_error *err);
/* Whether such a text, which may be "", has each hash that the assignment names.  KILN_UNAVAILABLE:
 * a file was exchanged, so the job may be rendered later or elsewhere. */
int kiln_lora_files_check(const struct kiln_assignment *assignment, const char *text,
                          struct kiln_error *err) KILN_MUST_CHECK;

#endif
