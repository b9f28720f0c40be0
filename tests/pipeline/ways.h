/* ways.h - every way in which a batch may begin, for tests that a change of weights spares no step,
 * with the start and the mask that they use.  Call make_start() first. */
#ifndef KILN_TEST_WAYS_H
#define KILN_TEST_WAYS_H

#include "tests/pipeline/abi.h"

#define WIDE 160
#define HIGH 64
#define STEPS 4
#define VALUES (16 * (WIDE / 8) * (HIGH / 8))

static float start[VALUES], mask[VALUES / 16];

static inline void make_start(void)
{
    for (int i = 0; i < VALUES; i++)
        start[i] = (float)sin(i * 0.1);
    for (int i = 0; i < VALUES / 16; i++)
        mask[i] = i % 3 == 0;
}

static inline bool same(const DiffusionZOutput *a, const DiffusionZOutput *b)
{
    return memcmp(a->latent, b->latent, VALUES * sizeof(float)) == 0;
}

#define KILN_TEST_WAYS 8

/* Lets a batch of WIDE x HIGH px with these two items begin in way 0 .. KILN_TEST_WAYS - 1: exact,
 * with guidance, with variety, from a latent, with a mask, by difference, coarse first, and that
 * with a third level. */
static inline void kiln_test_way(int number, DiffusionZBatch *b, DiffusionZItem item[2])
{
    if (number == 1)
        b->guidance_scale = 3;
    if (number == 2)
        item[0].variety = 1;
    if (number >= 3 && number <= 5) {
        item[0].start_latent = item[1].start_latent = start;
        b->start = DIFFUSIONZ_FROM_STEP;
        b->start_step = number == 4 ? 0 : 1;
    }
    if (number == 4)
        item[0].start_mask = mask;
    if (number == 5) {
        item[0].start_prompt = item[1].start_prompt = "a ring";
        b->by_difference = 1;
    }
    if (number >= 6) {
        b->coarse_steps = 3;
        b->coarse_width = 80;
        b->coarse_height = 64;
        b->start = DIFFUSIONZ_FROM_SIGMA;
        b->start_sigma = 0.95;
        b->rest_steps = 4;
    }
    if (number == 7) {
        b->coarse_steps = 1;
        b->middle_steps = 2;
        b->middle_width = 112;
        b->middle_height = 64;
    }
}

#endif
