/* object_key.h - the names of objects in the store.
 *
 *     images/<yyyy>/<mm>/<job>/<size>-<sha16>.webp             size: schemas/job/sizes.h
 *     latents/<model>/<yyyy>/<mm>/<job>-<sha16>.safetensors.zst
 *
 * sha16 is the first 16 hex digits of kiln_object_hash: of the SHA-256 of the bytes, and of how the
 * picture came about unless it is exact, so that nothing made coarse has the key of an exact one,
 * whether or not its bytes say so.  Year and month are those of the job's creation in UTC, so that
 * a repeated job gets the same keys: equal bytes then overwrite an object instead of leaving an
 * orphan.  Objects are looked up by the ledger's record alone; no key is computed to find one.
 */
#ifndef KILN_OBJECT_KEY_H
#define KILN_OBJECT_KEY_H

#include <stdint.h>

#include "schemas/limits.h"

#define KILN_OBJECT_HASH_MAX 65 /* 64 hex digits and a NUL */

/* How a picture came about; "" and 0 where it has none. */
struct kiln_object_origin {
    const char *mode;  /* as rendered, kiln_mode_text; "" is exact */
    const char *start; /* the job or the stored picture that the run began from */
    uint64_t parent;
    uint32_t steps; /* that the run took */
};

/* What a key is made of.  Exact, from noise and without a parent: sha256 itself, 64 hex digits.
 * Else SHA-256 of "sha256 NUL mode NUL start NUL parent NUL steps". */
void kiln_object_hash(char ret[KILN_OBJECT_HASH_MAX], const char *sha256,
                      const struct kiln_object_origin *origin);

/* created_ms: milliseconds since 1970; sha256: 64 hex digits of kiln_object_hash. */
void kiln_image_key(char ret[KILN_OBJECT_KEY_MAX + 1], int64_t created_ms, uint64_t job,
                    const char *size, const char *sha256);
/* model may hold anything: bytes outside [A-Za-z0-9._-] become '_', "" and dots alone "model". */
void kiln_latent_key(char ret[KILN_OBJECT_KEY_MAX + 1], int64_t created_ms, uint64_t job,
                     const char *model, const char *sha256);

#endif
