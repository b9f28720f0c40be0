/* coarse.c - see coarse.h. */
#include "schemas/job/coarse.h"

#include <math.h>

#include "schemas/limits.h"

static bool allowed(struct kiln_picture_size size)
{
    return size.width >= KILN_SIDE_MIN && size.width <= KILN_SIDE_MAX &&
           size.height >= KILN_SIDE_MIN && size.height <= KILN_SIDE_MAX;
}

static double ratio_of(struct kiln_picture_size small, struct kiln_picture_size full)
{
    return sqrt((double)small.width * small.height / ((double)full.width * full.height));
}

static bool same_shape(struct kiln_picture_size a, struct kiln_picture_size b)
{
    const double shape = (double)a.width * b.height / ((double)a.height * b.width);
    return shape <= KILN_COARSE_SHAPE && shape >= 1 / KILN_COARSE_SHAPE;
}

static bool suits(struct kiln_picture_size small, struct kiln_picture_size full)
{
    const double ratio = ratio_of(small, full);
    return same_shape(small, full) && ratio >= KILN_COARSE_RATIO_MIN &&
           ratio <= KILN_COARSE_RATIO_MAX;
}

bool kiln_start_fits(struct kiln_picture_size from, struct kiln_picture_size to)
{
    return from.width > 0 && from.height > 0 && from.width <= to.width &&
           from.height <= to.height && (uint64_t)from.width * KILN_START_ENLARGE_MAX >= to.width &&
           (uint64_t)from.height * KILN_START_ENLARGE_MAX >= to.height && same_shape(from, to);
}

static uint32_t scaled(uint32_t side, double ratio)
{
    const uint32_t steps = (uint32_t)floor(side * ratio / KILN_SIDE_STEP + 0.5);
    return steps * KILN_SIDE_STEP < KILN_SIDE_MIN ? KILN_SIDE_MIN : steps * KILN_SIDE_STEP;
}

/* A side that would become too small raises the ratio of both, so that the shape stays. */
static bool halved(struct kiln_picture_size full, struct kiln_picture_size *ret)
{
    const uint32_t shorter = full.width < full.height ? full.width : full.height;
    const double least = (double)KILN_SIDE_MIN / shorter, ratio = least > 0.5 ? least : 0.5;
    *ret = (struct kiln_picture_size){scaled(full.width, ratio), scaled(full.height, ratio)};
    return ratio <= KILN_COARSE_RATIO_MAX;
}

bool kiln_coarse_size(struct kiln_picture_size full, const struct kiln_picture_size *good,
                      size_t count, struct kiln_picture_size *ret)
{
    if (!allowed(full))
        return false;
    if (count == 0)
        return halved(full, ret);
    bool found = false;
    for (size_t i = 0; i < count; i++)
        if (allowed(good[i]) && suits(good[i], full) &&
            (!found || fabs(ratio_of(good[i], full) - 0.5) < fabs(ratio_of(*ret, full) - 0.5))) {
            *ret = good[i];
            found = true;
        }
    return found;
}

/* Whether the picture is large enough for the mode's levels. */
static bool large_enough(const struct kiln_mode *mode, struct kiln_picture_size full)
{
    return mode->middle == 0 || (full.width >= KILN_COARSE_MIDDLE_SIDE_MIN &&
                                 full.height >= KILN_COARSE_MIDDLE_SIDE_MIN);
}

bool kiln_coarse_sizes(const struct kiln_mode *mode, struct kiln_picture_size full,
                       const struct kiln_picture_size *good, size_t count,
                       struct kiln_picture_size *ret_small, struct kiln_picture_size *ret_middle)
{
    *ret_middle = (struct kiln_picture_size){0, 0};
    if (mode->middle == 0)
        return kiln_coarse_size(full, good, count, ret_small);
    return large_enough(mode, full) && kiln_coarse_size(full, good, count, ret_middle) &&
           kiln_coarse_size(*ret_middle, good, count, ret_small);
}

int kiln_coarse_check(const char *key, const struct kiln_mode *mode, struct kiln_picture_size full,
                      uint32_t steps, struct kiln_error *err)
{
    const uint32_t early = mode->small + mode->middle;
    char text[KILN_MODE_MAX];
    if (mode->kind != KILN_MODE_COARSE)
        return 0;
    kiln_mode_steps_text(mode, text);
    if (early > steps)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s \"%s\": %u steps before the full size, but steps is %u", key, text,
                         early, steps);
    if (!large_enough(mode, full))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s \"%s\": %ux%u is too small for three sizes; both sides must be at "
                         "least %d",
                         key, text, full.width, full.height, KILN_COARSE_MIDDLE_SIDE_MIN);
    return 0;
}
