/* picture.h - pictures for tests that look a little like photographs. */
#ifndef KILN_TEST_PICTURE_H
#define KILN_TEST_PICTURE_H

#include <stdint.h>

/* malloc'd [height][width][3]: smooth waves with `noise` (0..255) levels of grain. */
uint8_t *test_picture(uint32_t width, uint32_t height, uint64_t seed, uint32_t noise);

/* Peak signal to noise ratio of two pictures in dB; 99 when equal. */
double test_psnr(const uint8_t *a, const uint8_t *b, uint32_t width, uint32_t height);

#endif
