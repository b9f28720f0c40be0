/* depth.c - see depth.h. */
#include "scheduler/cli/jobs/redraw/depth.h"

#include <math.h>

#include "scheduler/cli/jobs/redraw/alike.h"
#include "schemas/limits.h"

#define SHIFT 3.0
#define SLACK 1e-9 /* of a quotient that should be whole */

static double sigma_of(double u)
{
    return SHIFT * u / (1 + (SHIFT - 1) * u);
}

static double u_of(double sigma)
{
    return sigma / (SHIFT - (SHIFT - 1) * sigma);
}

/* The schedule of which the last `run` steps are what is left of it from share `left` on. */
static int stretch(uint32_t run, double left, uint32_t *ret_steps, struct kiln_error *err)
{
    const double steps = floor(run / left + SLACK);
    if (steps > KILN_STEPS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%u steps from this depth are a schedule of %.0f steps; the limit is %d",
                         run, steps, KILN_STEPS_MAX);
    *ret_steps = (uint32_t)steps;
    return 0;
}

static int from_strength(const struct kiln_depth_want *want, double strength, uint32_t steps,
                         struct kiln_mode *ret_mode, uint32_t *ret_steps, struct kiln_error *err)
{
    int code = want->run ? stretch(want->run, strength, &steps, err) : 0;
    if (code)
        return code;
    bool runs = kiln_mode_of_strength(strength, steps, ret_mode);
    while (want->run && runs && steps - ret_mode->step > want->run) /* rounded as in diffusers */
        runs = kiln_mode_of_strength(strength, --steps, ret_mode);
    if (!runs)
        return kiln_fail(err, KILN_BAD_INPUT, "strength %g of %u steps leaves no step to run",
                         strength, steps);
    *ret_steps = steps;
    return 0;
}

/* From a share of the schedule that is left: at the step that begins there, or at its sigma. */
static int from_share(const struct kiln_depth_want *want, int skip, uint32_t steps,
                      struct kiln_mode *ret_mode, uint32_t *ret_steps, struct kiln_error *err)
{
    const double left = 1 - (double)skip / KILN_ALIKE_STEPS;
    int code = want->run ? stretch(want->run, left, &steps, err) : 0;
    if (code)
        return code;
    if (skip == 0)
        *ret_mode = (struct kiln_mode){.kind = KILN_MODE_EXACT};
    else if ((uint32_t)skip * steps % KILN_ALIKE_STEPS == 0)
        *ret_mode = (struct kiln_mode){.kind = KILN_MODE_START_STEP,
                                       .step = (uint32_t)skip * steps / KILN_ALIKE_STEPS};
    else {
        *ret_mode = (struct kiln_mode){.kind = KILN_MODE_START_SIGMA};
        (void)kiln_mode_sigma(sigma_of(left), &ret_mode->sigma); /* above 0 and below 1 */
    }
    *ret_steps = steps;
    return 0;
}

/* At a sigma, and down the rest of a schedule from there. */
static int from_sigma(double sigma, uint32_t run, uint32_t steps, struct kiln_mode *ret_mode,
                      uint32_t *ret_steps, struct kiln_error *err)
{
    *ret_mode = (struct kiln_mode){.kind = KILN_MODE_START_SIGMA, .sigma = sigma};
    *ret_steps = steps;
    return run ? stretch(run, u_of(sigma), ret_steps, err) : 0;
}

int kiln_depth(const struct kiln_depth_want *want, const struct kiln_job *donor,
               struct kiln_mode *ret_mode, uint32_t *ret_steps, struct kiln_error *err)
{
    const bool vary = !want->edits && !want->enlarges;
    const double alike = want->alike >= 0 ? want->alike : KILN_ALIKE_DEFAULT;
    if (want->strength > 0)
        return from_strength(want, want->strength, donor->steps, ret_mode, ret_steps, err);
    if (want->sigma > 0)
        return from_sigma(want->sigma, want->run, donor->steps, ret_mode, ret_steps, err);
    if (want->alike >= 0 || vary)
        return from_share(want, kiln_alike_skip(alike, donor->width, donor->height), donor->steps,
                          ret_mode, ret_steps, err);
    if (want->edits)
        return from_strength(want, want->differs ? KILN_EDIT_STRENGTH : KILN_PLAIN_STRENGTH,
                             donor->steps, ret_mode, ret_steps, err);
    return from_sigma(KILN_ENLARGE_SIGMA, want->run ? want->run : KILN_ENLARGE_STEPS, donor->steps,
                      ret_mode, ret_steps, err);
}
