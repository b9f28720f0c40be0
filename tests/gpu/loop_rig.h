/* loop_rig.h - what the tests of the denoising loop on a GPU share: pictures of many shapes, told
 * apart bit by bit.  A function fails the test where it says nothing else.
 */
#ifndef KILN_TEST_LOOP_RIG_H
#define KILN_TEST_LOOP_RIG_H

#include "tests/gpu/gpu.h"

#define LONG_PROMPT                                                                                \
    "two red stars above a blue circle at sunset, a yellow ring, three orange flowers in the "     \
    "grass, a purple heart and a green triangle beside a white square, all of it very small"
#define STEPS 8

/* Two pictures and their latents, bit by bit; releases both. */
void expect_same(const char *what, DiffusionZOutput *a, DiffusionZOutput *b, int width, int height);

/* How many steps the context has recorded, and that it has, without a word of complaint. */
size_t graphs_of(const DiffusionZContext *ctx);
void expect_recorded(const DiffusionZContext *ctx);

/* Of a clock that never goes back. */
double seconds(void);

#endif
