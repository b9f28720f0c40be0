/* depth.h - where in the schedule a redraw begins, and how many steps it runs.
 *
 * Defaults, with the sketch model (scripts/bench/RESULTS.md has such tables):
 *
 *     enlarge     sigma 0.75, three steps.  Handed over there, three steps reach 98 % of the
 *                 sharpness of a full run and four 99 %; attributes and whole prompts are equal
 *     variations  alike 50 (alike.h)
 *     edits       by difference, three eighths of the steps are skipped: with one colour changed
 *                 95 % of the prompts are whole then, as in full runs, and the rest of the picture
 *                 stays.  Image to image the first quarter: 92 %; with three eighths 77 %
 *
 * A schedule with steps even in u has sigma = 3u / (1 + 2u) at the usual shift of 3.
 */
#ifndef KILN_CLI_REDRAW_DEPTH_H
#define KILN_CLI_REDRAW_DEPTH_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/error.h"
#include "schemas/job.h"

#define KILN_ENLARGE_SIGMA 0.75
#define KILN_ENLARGE_STEPS 3
#define KILN_EDIT_STRENGTH 0.625 /* by difference */
#define KILN_PLAIN_STRENGTH 0.75 /* image to image */

/* What the command line asks for. */
struct kiln_depth_want {
    bool enlarges, edits; /* which default applies; neither: variations */
    bool differs;         /* an edit is by difference */
    double strength;      /* 0: not given */
    double sigma;         /* the same; at most one of the three is given */
    double alike;         /* below 0: not given */
    uint32_t run;         /* steps to run; 0: as many as follow */
};

/* The mode of a redraw and the steps of its schedule; exact: from noise, without the donor's
 * latent. KILN_BAD_INPUT if the schedule would be too long, or no step is left. */
int kiln_depth(const struct kiln_depth_want *want, const struct kiln_job *donor,
               struct kiln_mode *ret_mode, uint32_t *ret_steps,
               struct kiln_error *err) KILN_MUST_CHECK;

#endif
