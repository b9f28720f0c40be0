/* testcard_draw.h - the test card: a picture that nobody takes for a drawn one.
 *
 * Colour bars, a grey ramp, a strip of blocks whose colours come from the job's prompt and seed,
 * a grid to see scaling by, and the words TEST CARD with the seed and the mode.  Equal arguments
 * give equal bytes on every machine: only integers are used.
 */
#ifndef KILN_TESTCARD_DRAW_H
#define KILN_TESTCARD_DRAW_H

#include <stddef.h>
#include <stdint.h>

/* rgb: [height][width][3], sides of at least 16; mark: any number that stands for the prompt; mode:
 * a third line of text, of digits, ".+ " and the letters of COARSE and START; "" for none. */
void kiln_testcard_draw(uint8_t *rgb, uint32_t width, uint32_t height, uint64_t seed, uint64_t mark,
                        const char *mode);

/* latent: [16][height/8][width/8]; a stand-in of the right shape, sampled from the picture. */
void kiln_testcard_latent(const uint8_t *rgb, uint32_t width, uint32_t height, float *latent);

/* A number that follows from bytes (FNV-1a). */
uint64_t kiln_testcard_mark(const void *data, size_t size);

#endif
