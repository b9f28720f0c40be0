/* model_card.h - kiln.json: what was measured about a model (schemas/model.md).
 *
 * The file is beside the model's folders of diffusers.  A model without one was not measured: its
 * coarse=auto is exact.
 */
#ifndef KILN_MODEL_CARD_H
#define KILN_MODEL_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"
#include "schemas/job/coarse.h"
#include "schemas/job/mode.h"
#include "schemas/limits.h"

#define KILN_MODEL_CARD "kiln.json" /* in the model's directory */

/* Sizes whose width and height are both within the bounds, in pixels; equal bounds are one size. */
struct kiln_card_sizes {
    uint32_t width_min, height_min, width_max, height_max;
};

/* All zero: nothing was measured. */
struct kiln_model_card {
    struct kiln_mode coarse; /* what coarse=auto means: KILN_MODE_COARSE, or EXACT */
    uint32_t coarse_steps;   /* number of steps of the schedule that it was measured for */
    struct kiln_picture_size coarse_sizes[KILN_LIST_MAX]; /* good small sizes */
    uint32_t coarse_size_count;
    struct kiln_card_sizes coarse_for[KILN_LIST_MAX]; /* full sizes at which it was good */
    uint32_t coarse_for_count;
};

/* Reads dir/kiln.json; without such a file *ret is all zero.  KILN_CONFIG for a file that cannot
 * be read or is not valid; the error names it. */
int kiln_model_card_read(const char *dir, struct kiln_model_card *ret,
                         struct kiln_error *err) KILN_MUST_CHECK;
/* The same from its text; path is for errors. */
int kiln_model_card_parse(const char *text, size_t len, const char *path,
                          struct kiln_model_card *ret, struct kiln_error *err) KILN_MUST_CHECK;

/* What COARSE_AUTO means for a picture: the card's mode where it was measured for this size, number
 * of steps and without guidance, else EXACT.  Other modes are returned as they are. */
struct kiln_mode kiln_model_card_mode(const struct kiln_model_card *card,
                                      const struct kiln_mode *mode, uint32_t width, uint32_t height,
                                      uint32_t steps, double guidance);

#endif
