/* latent_values.h - the values of a latent file as tensors, in each encoding (schemas/latent.md).
 *
 * Private to latentfile.c, whose header names the encodings; it knows the frame, the metadata and
 * the limits of a file.
 *
 * i8-steps, per state and channel: m = the mean, d = the deviation, both over h x w values,
 *
 *     step = max(d / 8, largest |x - m| / 127)     code = round((x - m) / step), -127 .. 127
 *     x'   = m + code * step                       |x' - x| <= step / 2, and float rounding
 *
 * A channel of one value has step 0 and comes back exactly.  Why an eighth: RESULTS.md, "Encodings
 * of stored latents".
 */
#ifndef KILN_LATENT_VALUES_H
#define KILN_LATENT_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"
#include "storage/formats/latentfile.h"
#include "storage/formats/safetensors.h"

#define KILN_LATENT_STATES_MAX (KILN_STEPS_MAX + 1)

/* Number of values, or 0 if a side is 0 or the file would pass its limit. */
size_t kiln_latent_count(const struct kiln_latent *latent);

/* The bytes of a safetensors file with the values and this metadata; the caller frees *ret.
 * KILN_BAD_INPUT: a value that the encoding cannot hold. */
int kiln_latent_values_write(const struct kiln_latent *latent, enum kiln_latent_encoding encoding,
                             const char *const *metadata, uint8_t **ret, size_t *ret_size,
                             struct kiln_error *err) KILN_MUST_CHECK;
/* Shape and values, those of the last state only if `last`.  Trusts nothing in the file.  On
 * failure latent->values may be set; the caller frees it in any case. */
int kiln_latent_values_read(const struct kiln_st *st, enum kiln_latent_encoding encoding, bool last,
                            struct kiln_latent *latent, struct kiln_error *err) KILN_MUST_CHECK;

#endif
