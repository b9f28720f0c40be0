/* coarse.h - the small sizes of a picture that is rendered coarse first, and the sizes of starts.
 *
 * What is in a picture is decided at the small size, so it must be one that the model is good at.
 * A model's kiln.json lists such sizes; without a list it is about half the side.  With a third
 * level that is the middle size, and the smallest is found from it in the same way.
 */
#ifndef KILN_COARSE_H
#define KILN_COARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"
#include "schemas/job/mode.h"

/* Small side to full side, as the root of the areas' ratio. */
#define KILN_COARSE_RATIO_MIN 0.3
#define KILN_COARSE_RATIO_MAX 0.67
/* By how much the shapes may differ: width to height of the one over that of the other. */
#define KILN_COARSE_SHAPE 1.07
/* The shorter side of a picture with a third level, at least.  The smallest size is a quarter of
 * it: from 256 px nothing was lost, from 192 px a tenth of the prompts (RESULTS.md). */
#define KILN_COARSE_MIDDLE_SIDE_MIN 1024

struct kiln_picture_size {
    uint32_t width, height;
};

/* Of the listed sizes with about the shape of `full` and a ratio within the bounds above, the one
 * nearest to half the side; the first of several.  With count 0, half the side rounded to
 * KILN_SIDE_STEP, and KILN_SIDE_MIN at least.  False if there is none: nothing suits in the list,
 * or the picture is too small to halve. */
bool kiln_coarse_size(struct kiln_picture_size full, const struct kiln_picture_size *good,
                      size_t count, struct kiln_picture_size *ret);
/* The same for the steps of a COARSE mode: *ret_middle is 0x0 without a third level.  False also
 * for a picture that is too small for that. */
bool kiln_coarse_sizes(const struct kiln_mode *mode, struct kiln_picture_size full,
                       const struct kiln_picture_size *good, size_t count,
                       struct kiln_picture_size *ret_small, struct kiln_picture_size *ret_middle);
/* Whether a schedule of `steps` has a COARSE mode's steps before the full size, and the picture is
 * large enough for a third level; any other mode is.  KILN_BAD_INPUT if not, with the mode's steps
 * behind the name of the key or option that says them. */
int kiln_coarse_check(const char *key, const struct kiln_mode *mode, struct kiln_picture_size full,
                      uint32_t steps, struct kiln_error *err) KILN_MUST_CHECK;

/* Whether a latent of a picture of one size may be the start of one of another: of about the same
 * shape, not larger, and enlarged at most so many times a side. */
#define KILN_START_ENLARGE_MAX 4
bool kiln_start_fits(struct kiln_picture_size from, struct kiln_picture_size to);

#endif
