/* prompts.c - the prompts of a sheet for which no file was given: what people render, and what a
 * small first size could lose, such as faces in a crowd, lettering, thin lines and counts.
 */
#include <stddef.h>

#include "worker/bench/coarse/coarse.h"

const char *const kiln_coarse_prompts[] = {
    "portrait of an elderly fisherman with deep wrinkles, soft window light, 85mm photograph",
    "a young woman laughing on a rainy street at night, neon reflections on wet asphalt",
    "three children building a sandcastle on a beach, seen from behind",
    "a full orchestra on stage seen from the balcony, every musician in black",
    "close-up of two hands tying a climbing knot in a red rope",
    "a shop window with the words \"OPEN LATE\" in gold letters on dark green glass",
    "a hand-written menu on a blackboard: soup 4, bread 2, coffee 3",
    "the cover of a paperback novel titled \"The Quiet River\", woodcut style",
    "a mountain lake at sunrise, mist over the water, pine trees on both shores",
    "aerial photograph of terraced rice fields after rain",
    "a desert road to the horizon under a sky full of stars",
    "a narrow street of an old European town with laundry between the houses",
    "a glass bottle of orange juice on white marble, studio product photograph",
    "a pair of running shoes floating in front of a pale blue background, advertisement",
    "a mechanical wrist watch with an open dial, macro photograph, every gear sharp",
    "a bowl of ramen with a halved egg, spring onions and two slices of pork, from above",
    "a tabby cat asleep on a pile of open books",
    "a flock of flamingos taking off from a shallow lake",
    "a red fox in tall grass, snow falling",
    "blueprint of a sailing ship, white lines on blue paper",
    "isometric drawing of a small workshop with tools on the wall",
    "an oil painting of a harbour in a storm, thick brush strokes",
    "a flat vector illustration of a team around a table with laptops",
    "five green apples and two pears on a wooden table, still life",
    NULL,
};
