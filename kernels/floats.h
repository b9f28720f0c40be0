/* floats.h - the two number formats of activations, and the vector-friendly pieces that the CPU
 * kernels share.
 *
 * bf16 is the upper half of an fp32; kernels compute in fp32 and round to nearest even where a
 * result is stored (tails.h keeps more), and between the steps of what they say so of.  A kernel is
 * written once, as an always-inline body whose format is a constant, and compiled for several
 * instruction sets (KILN_CLONES); the loader picks the one that the processor has.
 */
#ifndef KILN_FLOATS_H
#define KILN_FLOATS_H

#include <stdint.h>
#include <string.h>

enum kiln_float { KILN_F32, KILN_BF16 };

/* The longest row that is normed in one pass on a GPU, or quantised anywhere. */
#define KILN_ROW_MAX 16384

#define KILN_INLINE static inline __attribute__((always_inline))

/* Sanitizers run before the loader's choice could be made. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&      \
    !defined(__clang__)
#define KILN_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define KILN_CLONES
#endif

KILN_INLINE float kiln_from_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

KILN_INLINE uint16_t kiln_to_bf16(float value)
{
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    uint32_t rounded = (wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16;
    return (uint16_t)(value != value ? 0x7fc0u : rounded);
}

/* Of an fp16, which files of LoRAs may have. */
KILN_INLINE float kiln_from_half(uint16_t bits)
{
    uint32_t exponent = bits >> 10 & 31u, mantissa = bits & 1023u;
    uint32_t wide = (uint32_t)(bits & 0x8000u) << 16;
    float value = (float)mantissa * 0x1p-24f;
    if (exponent == 0)
        return wide ? -value : value;
    wide |= exponent == 31 ? 0x7f800000u | mantissa << 13 : (exponent + 112) << 23 | mantissa << 13;
    memcpy(&value, &wide, sizeof value);
    return value;
}

KILN_INLINE float kiln_load(const void *p, int64_t i, enum kiln_float format)
{
    return format == KILN_BF16 ? kiln_from_bf16(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

KILN_INLINE void kiln_store(void *p, int64_t i, float value, enum kiln_float format)
{
    if (format == KILN_BF16)
        ((uint16_t *)p)[i] = kiln_to_bf16(value);
    else
        ((float *)p)[i] = value;
}

KILN_INLINE int64_t kiln_float_size(enum kiln_float format)
{
    return format == KILN_BF16 ? 2 : 4;
}

/* The value as it would be after a store. */
KILN_INLINE float kiln_rounded(float value, enum kiln_float format)
{
    return format == KILN_BF16 ? kiln_from_bf16(kiln_to_bf16(value)) : value;
}

/* exp within 2 units in the last place, without a branch or a call: 2^n times a polynomial on
 * [-ln2/2, ln2/2] (Cody and Waite's reduction).  Saturates beyond the range of fp32; of NaN it is
 * NaN. */
KILN_INLINE float kiln_exp(float x)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    x = x > 88.0f ? 88.0f : x;
    x = x < -87.0f ? -87.0f : x;
    float shifted = x * 1.44269504f + shift; /* whose last bits are n */
    float n = shifted - shift;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    float scale;
    uint32_t power;
    memcpy(&power, &shifted, sizeof power);
    power = (power + 127u) << 23;
    memcpy(&scale, &power, sizeof scale);
    return p * scale;
}

KILN_INLINE float kiln_silu(float x)
{
    return x / (1.0f + kiln_exp(-x));
}

#endif
