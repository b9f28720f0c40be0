/* lora.h - the LoRAs that a bench measures with. */
#ifndef KILN_BENCH_LORA_H
#define KILN_BENCH_LORA_H

#include "pipeline/diffusionz_batch.h"
#include "schemas/error.h"
#include "schemas/limits.h"
#include "storage/formats/file_hash.h"

/* Finds the file of a LoRA as it was typed: a name that is no file is one of the model's own, in
 * its folder loras; then lora->path becomes its path, which is never freed.  KILN_NOT_FOUND. */
int kiln_bench_lora_find(const char *model, DiffusionZLora *lora,
                         struct kiln_error *err) KILN_MUST_CHECK;
/* The name that workers know the file by, and its SHA-256.  KILN_NOT_FOUND. */
int kiln_bench_lora_identify(const DiffusionZLora *lora, char name[KILN_NAME_MAX + 1],
                             char sha256[KILN_FILE_HASH_MAX],
                             struct kiln_error *err) KILN_MUST_CHECK;

#endif
