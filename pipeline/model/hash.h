/* hash.h - the name a model goes by in latents and image rows.
 *
 * SHA-256 over the four config files and, for every tensor of the three weight files, its name,
 * dtype, shape and first 4 KiB: two fine-tunes of one architecture differ, a 12 GB checkpoint is
 * named in milliseconds, and re-sharding a model does not rename it.
 */
#ifndef KILN_MODEL_HASH_H
#define KILN_MODEL_HASH_H

#include "schemas/error.h"

#define KILN_MODEL_HASH_LEN 16 /* hex digits */

int kiln_model_hash(const char *dir, char ret[KILN_MODEL_HASH_LEN + 1],
                    struct kiln_error *err) KILN_MUST_CHECK;

#endif
