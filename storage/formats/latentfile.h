/* latentfile.h - latents on disk: a zstd frame around a plain safetensors file (schemas/latent.md).
 *
 * Encodings: "f32" keeps fp32 values as one F32 tensor; "bf16-planes" rounds to bf16 (nearest
 * even) and stores high and low bytes as two U8 tensors, which zstd compresses 1.5x instead
 * of 1.3x; "i8-steps" rounds to steps of an eighth of a channel's deviation, for latents that only
 * begin other runs. `zstd -d` and any safetensors reader open the file.
 */
#ifndef KILN_LATENTFILE_H
#define KILN_LATENTFILE_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"
#include "schemas/job.h"
#include "schemas/job/inputs.h"
#include "schemas/job/mode.h"
#include "schemas/limits.h"

enum kiln_latent_encoding {
    KILN_LATENT_F32 = 0,
    KILN_LATENT_BF16_PLANES = 1,
    KILN_LATENT_I8_STEPS = 2, /* only finite values: else KILN_BAD_INPUT */
    KILN_LATENT_ENCODINGS
};
const char *kiln_latent_encoding_name(enum kiln_latent_encoding encoding);

struct kiln_latent {
    uint32_t states;                   /* 1 = the final latent alone */
    uint32_t channels, height, width;  /* of one state, in latent pixels */
    float *values;                     /* [states][channels][height][width] */
    double sigmas[KILN_STEPS_MAX + 1]; /* of each state; 0 = clean */
    char model[65];                    /* model hash */
    char lora_set[KILN_LORA_SET_MAX];
    char lora_files[KILN_LORA_FILES_MAX]; /* "name:sha256+...", "": none, or not known */
    char schedule[128];                   /* "euler steps=8" */
    char mode[KILN_MODE_MAX];             /* schemas/job/mode.h; "" = exact */
    char job[32];                         /* job id, "" if none */
    char start[KILN_INPUT_KEY_MAX];       /* "job:17" or a key; "": noise, not known */
    char parent[24];                      /* a job id; "" if none or not known */
    uint64_t seed;
};

/* The caller frees *ret_data.  level: zstd 1..19 (3 in Kiln). */
int kiln_latent_encode(const struct kiln_latent *latent, enum kiln_latent_encoding encoding,
                       int level, uint8_t **ret_data, size_t *ret_size,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* Trusts nothing in data.  Free with kiln_latent_release. */
int kiln_latent_decode(const uint8_t *data, size_t size, struct kiln_latent *ret,
                       enum kiln_latent_encoding *ret_encoding,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* Only the finished latent: the last state, whose sigma must be 0 and whose values must be finite,
 * else KILN_UNSUPPORTED or KILN_CORRUPT.  Takes memory for one state, however many there are. */
int kiln_latent_decode_finished(const uint8_t *data, size_t size, struct kiln_latent *ret,
                                struct kiln_error *err) KILN_MUST_CHECK;
void kiln_latent_release(struct kiln_latent *latent);

#endif
