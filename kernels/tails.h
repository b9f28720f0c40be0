/* tails.h - rows of a residual stream in bf16, with four more bits of each value.
 *
 * The stream of a transformer is a sum that grows by a term with each sublayer; rounding it to bf16
 * each time is most of what bf16 costs a forward (LAB.md has the shares).  A row with tails has n
 * values cut to bf16, the upper halves of their fp32, and behind them n / 2 bytes with the next
 * four bits of each, the even value's in the lower half: together fp32 rounded to 20 bits, in a
 * quarter more columns than bf16.  What fills the last 16 bytes of a row is nobody's.
 */
#ifndef KILN_TAILS_H
#define KILN_TAILS_H

#include "kernels/floats.h"

/* Rows with tails have a multiple of this many values. */
#define KILN_TAILS_MULTIPLE 8

/* 16-bit words from the start of one row with tails to that of the next: all begin on 16 bytes. */
#define KILN_TAILED(n) (((n) + (n) / 4 + 7) / 8 * 8)

KILN_INLINE float kiln_from_20(uint16_t high, uint32_t tail)
{
    const uint32_t bits = (uint32_t)high << 16 | tail << 12;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The n values of a row. */
KILN_INLINE void kiln_unpack_tailed(const uint16_t *row, int64_t n, float *values)
{
    const uint8_t *tails = (const uint8_t *)(row + n);
    for (int64_t pair = 0; pair < n / 2; pair++) {
        const uint32_t both = tails[pair];
        values[2 * pair] = kiln_from_20(row[2 * pair], both & 15);
        values[2 * pair + 1] = kiln_from_20(row[2 * pair + 1], both >> 4);
    }
}

/* The upper 20 bits of the nearest such value; of two the one away from zero.  NaN stays one. */
KILN_INLINE uint32_t kiln_rounded_to_20(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return value != value ? 0x7fc00u : (bits + 0x800u) >> 12;
}

KILN_INLINE void kiln_pack_tailed(const float *values, int64_t n, uint16_t *row)
{
    uint8_t *tails = (uint8_t *)(row + n);
    for (int64_t pair = 0; pair < n / 2; pair++) {
        const uint32_t even = kiln_rounded_to_20(values[2 * pair]);
        const uint32_t odd = kiln_rounded_to_20(values[2 * pair + 1]);
        row[2 * pair] = (uint16_t)(even >> 4);
        row[2 * pair + 1] = (uint16_t)(odd >> 4);
        tails[pair] = (uint8_t)((even & 15) | (odd & 15) << 4);
    }
}

#endif
