/* four_items.h - the items of most batches in these tests: two lengths of captions, so that their
 * paddings and groups differ, an empty prompt, and one prompt twice. */
#ifndef KILN_TEST_FOUR_ITEMS_H
#define KILN_TEST_FOUR_ITEMS_H

#include "pipeline/diffusionz_batch.h"

static const DiffusionZItem items[4] = {
    {.prompt = "a star", .seed = 1},
    {.prompt = "a much longer prompt with many words, so that its tokens need more than one "
               "multiple of thirty-two rows in the joint sequence of the transformer",
     .seed = 2},
    {.prompt = "", .seed = 3},
    {.prompt = "a star", .seed = 4},
};

#endif
