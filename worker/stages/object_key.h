/* object_key.h - the names of objects in the store.
 *
 *     images/<yyyy>/<mm>/<job>/<size>-<sha16>.webp             size: schemas/job/sizes.h
 *     latents/<model>/<yyyy>/<mm>/<job>-<sha16>.safetensors.zst
 *
 * sha16 is the first 16 hex digits of the SHA-256 of the bytes.  Year and month are
 * those of the job's creation in UTC, so that a repeated job gets the same keys: equal bytes then
 * overwrite an object instead of leaving an orphan.
 */
#ifndef KILN_OBJECT_KEY_H
#define KILN_OBJECT_KEY_H

#include <stdint.h>

#include "schemas/limits.h"

/* created_ms: milliseconds since 1970; sha256: 64 hex digits. */
void kiln_image_key(char ret[KILN_OBJECT_KEY_MAX + 1], int64_t created_ms, uint64_t job,
                    const char *size, const char *sha256);
/* model may hold anything: bytes outside [A-Za-z0-9._-] become '_', "" and dots alone "model". */
void kiln_latent_key(char ret[KILN_OBJECT_KEY_MAX + 1], int64_t created_ms, uint64_t job,
                     const char *model, const char *sha256);

#endif
