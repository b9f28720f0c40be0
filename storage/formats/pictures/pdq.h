/* pdq.h - PDQ, a hash of what a picture looks like: near-duplicates differ in few of its 256 bits.
 *
 * Facebook's PDQ ("The TMK+PDQF Video-Hashing Algorithm and the PDQ Image-Hashing Algorithm",
 * 2019): luma, blurred and sampled at 64 x 64 places, the 16 lowest frequencies each way of its
 * cosine transform without the constant, and a bit for each that is above their median.
 */
#ifndef KILN_PDQ_H
#define KILN_PDQ_H

#include <stdint.h>

#include "schemas/error.h"

#define KILN_PDQ_BYTES 32
#define KILN_PDQ_TURNS 8        /* the picture, its rotations, and the mirror image of each */
#define KILN_PDQ_NEAR 31        /* bits by which near-duplicates differ at most */
#define KILN_PDQ_QUALITY_MIN 50 /* below, a picture is too flat for its hash to mean much */

struct kiln_pdq {
    uint8_t hash[KILN_PDQ_BYTES]; /* written in hexadecimal, these bytes are PDQ's usual text */
    uint8_t quality;              /* 0 .. 100: how much the picture changes from place to place */
};

/* rgb: [height][width][3], sides 1 .. KILN_PICTURE_SIDE_MAX.  ret[0] is the picture's; ret[1 .. 3]
 * are those of the picture turned clockwise by 90, 180 and 270 degrees; ret[4 .. 7] those of its
 * mirror image (left and right exchanged), turned likewise.  A side below 5: all bits and the
 * quality are 0.  KILN_NO_MEMORY.
 *
 * ret[1 .. 7] come from the transform of ret[0], as in the published program.  Where the blur's
 * window is even, they can be some 50 bits from the hash of a picture that was really turned. */
int kiln_pdq(const uint8_t *rgb, uint32_t width, uint32_t height,
             struct kiln_pdq ret[KILN_PDQ_TURNS], struct kiln_error *err) KILN_MUST_CHECK;

/* The number of bits that differ. */
int kiln_pdq_distance(const uint8_t *a, const uint8_t *b);

#endif
