/* hash.h - the identity of a model in latents and rows of the table image.
 *
 * SHA-256 over the four config files and, for every tensor of the three weight files, its name,
 * dtype, shape and first 4 KiB; and over `schedule` of kiln.json: sigmas, noise, and the weights
 * for ranges of steps, LoRAs and transformers.  Two fine-tunes of one architecture differ, a
 * checkpoint of 12 GB takes milliseconds, and resharding does not change the hash, unless kiln.json
 * names the shards' hash.
 */
#ifndef KILN_MODEL_HASH_H
#define KILN_MODEL_HASH_H

#include <stddef.h>

#include "schemas/error.h"

#define KILN_MODEL_HASH_LEN 16 /* hex digits */

int kiln_model_hash(const char *dir, char ret[KILN_MODEL_HASH_LEN + 1],
                    struct kiln_error *err) KILN_MUST_CHECK;
/* The name of a model's directory, links resolved. */
void kiln_model_name(const char *dir, char *name, size_t size);
/* The same of an image classifier (pipeline/vision): its two config files and its weights. */
int kiln_classifier_hash(const char *dir, char ret[KILN_MODEL_HASH_LEN + 1],
                         struct kiln_error *err) KILN_MUST_CHECK;

#endif
