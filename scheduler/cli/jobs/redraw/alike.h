/* alike.h - how alike two pictures of one prompt are if the second starts from the first's latent.
 *
 * Skipping the early steps of a schedule keeps what those steps decide: layout first, detail last.
 * Accuracy holds at any depth, variety does not.  So the dial `--alike` (0..100) asks for a share
 * of the variety that fresh seeds have, 100 - alike in percent, and the table says how many of 8
 * steps to skip for it.
 *
 * The one table of this mapping is in alike.c.  Measured with the sketch model (2f789df05cc61238),
 * 20 prompts, pictures from one donor of each (`kiln bench teleport --soften 0`, "mean, 1"): the
 * distance of low-pass latents as a share of that of full runs.
 */
#ifndef KILN_CLI_REDRAW_ALIKE_H
#define KILN_CLI_REDRAW_ALIKE_H

#include <stdint.h>

#define KILN_ALIKE_STEPS 8 /* of the schedule that was measured */
#define KILN_ALIKE_MAX 100
#define KILN_ALIKE_DEFAULT 50

/* How many of KILN_ALIKE_STEPS to skip, 0 .. 7: those whose variety is nearest to 100 - alike, and
 * of two that are equally near the fewer.  0: start from noise, nothing is kept. */
int kiln_alike_skip(double alike, uint32_t width, uint32_t height);
/* The variety at this depth in percent of full runs'.  Between the measured sizes by the logarithm
 * of the side (of a square of that area); beyond them as at the nearest one. */
double kiln_alike_variety(int skip, uint32_t width, uint32_t height);

#endif
