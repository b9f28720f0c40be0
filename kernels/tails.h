/* tails.h - rows of a residual stream in bf16, with four more bits of each value.
 *
 * The stream of a transformer is a sum that grows by a term with each sublayer; rounding it to bf16
 * each time is most of what bf16 costs a forward (LAB.md has the shares).  A row with tails has n
 * values cut to bf16, the upper halves of their fp32, and behind them n / 2 bytes with the next
 * four bits of each, the even value's in the lower half: together fp32 rounded to 20 bits, in an
 * eighth more memory than bf16.
 */
#ifndef KILN_TAILS_H
#define KILN_TAILS_H

#include "kernels/floats.h"

/* Rows with tails have a multiple of this many values, so that each begins on 16 bytes. */
#define KILN_TAILS_MULTIPLE 32

/* 16-bit words from the start of one row with tails to that of the next. */
#define KILN_TAILED(n) ((n) + (n) / 4)

/* Value i of a row of n. */
KILN_INLINE float kiln_load_tailed(const uint16_t *row, int64_t n, int64_t i)
{
    const uint8_t both = ((const uint8_t *)(row + n))[i / 2];
    const uint32_t tail = i % 2 ? both >> 4 : both & 15;
    const uint32_t bits = (uint32_t)row[i] << 16 | tail << 12;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The upper 20 bits of the nearest such value; of two the one away from zero.  NaN stays one. */
KILN_INLINE uint32_t kiln_rounded_to_20(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return value != value ? 0x7fc00u : (bits + 0x800u) >> 12;
}

/* Values 2 * pair and the one behind it. */
KILN_INLINE void kiln_store_tailed(uint16_t *row, int64_t n, int64_t pair, float even, float odd)
{
    const uint32_t a = kiln_rounded_to_20(even), b = kiln_rounded_to_20(odd);
    row[2 * pair] = (uint16_t)(a >> 4);
    row[2 * pair + 1] = (uint16_t)(b >> 4);
    ((uint8_t *)(row + n))[pair] = (uint8_t)((a & 15) | (b & 15) << 4);
}

#endif
