/* fp8.h - the 8-bit float e4m3 (no infinities, largest value 448) and rows of it with a scale.
 *
 *     scale = max(largest |v| of the row, 1e-12) / code_max        v ~ scale * e4m3
 *
 * code_max, what the largest value becomes, is 448, or less where something larger is to have the
 * same scale.  The floor keeps a row of zeros from dividing by zero.  A NaN or an infinity in a row
 * stays visible: its own value becomes NaN, and so does every product with it.
 */
#ifndef KILN_FP8_H
#define KILN_FP8_H

#include "kernels/floats.h"

#include <math.h>

#define KILN_E4M3_MAX 448.0f
#define KILN_E4M3_FLOOR 1e-12f /* the least "largest |v|" of a row */
/* code_max of rows behind which a product of low rank is put: 16 times the largest value has a code
 * there.  The steps of small values are still 2^-14 of the largest one.  Rows without room use the
 * whole range of codes for themselves, so that a product larger than they are, a strong set's, is
 * cut at 448. */
#define KILN_E4M3_BESIDE_MAX 28.0f

/* To nearest, ties to even, values beyond 448 to 448, as the conversion instruction does. */
KILN_INLINE uint8_t kiln_to_e4m3(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint8_t sign = (uint8_t)(bits >> 24 & 0x80u);
    const float size = fabsf(value);
    bits &= 0x7fffffffu;
    if (value != value)
        return 0x7f;
    if (size >= KILN_E4M3_MAX)
        return (uint8_t)(sign | 0x7eu);
    if (size < 0x1p-6f) /* below the normal numbers the step is 2^-9 */
        return (uint8_t)(sign | (uint8_t)rintf(size * 512.0f));
    const uint32_t rounded = (bits + 0x7ffffu + (bits >> 20 & 1u)) >> 20;
    return (uint8_t)(sign | (uint8_t)(rounded - ((127u - 7u) << 3)));
}

KILN_INLINE float kiln_from_e4m3(uint8_t code)
{
    const int exponent = code >> 3 & 15, fraction = code & 7;
    if ((code & 0x7f) == 0x7f)
        return NAN;
    const float size =
        exponent ? ldexpf((float)(8 + fraction), exponent - 10) : ldexpf((float)fraction, -9);
    return code & 0x80 ? -size : size;
}

/* n values of the format to e4m3 and their scale; code_max 0 is 448. */
KILN_INLINE void kiln_quantise_row(const void *row, int64_t n, enum kiln_float format,
                                   float code_max, uint8_t *out, float *scale)
{
    const float most = code_max ? code_max : KILN_E4M3_MAX;
    float top = KILN_E4M3_FLOOR;
    for (int64_t i = 0; i < n; i++)
        top = fmaxf(top, fabsf(kiln_load(row, i, format)));
    const float inverse = most / top;
    for (int64_t i = 0; i < n; i++)
        out[i] = kiln_to_e4m3(kiln_load(row, i, format) * inverse);
    *scale = top / most;
}

#endif
