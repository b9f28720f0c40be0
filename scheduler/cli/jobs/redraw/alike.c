/* alike.c - the table of alike.h. */
#include "scheduler/cli/jobs/redraw/alike.h"

#include <math.h>

/* By steps skipped: variety in percent of full runs' at 256 px and at 512 px. */
#define SMALL_PX 256.0
#define LARGE_PX 512.0
static const double variety[KILN_ALIKE_STEPS][2] = {
    {100, 100}, {69, 53}, {39, 24}, {24, 16}, {18, 11}, {13, 8}, {9, 6}, {6, 3},
};

double kiln_alike_variety(int skip, uint32_t width, uint32_t height)
{
    const double side = sqrt((double)width * height);
    const double at = log(side / SMALL_PX) / log(LARGE_PX / SMALL_PX);
    const double share = at < 0 ? 0 : at > 1 ? 1 : at;
    return variety[skip][0] + share * (variety[skip][1] - variety[skip][0]);
}

int kiln_alike_skip(double alike, uint32_t width, uint32_t height)
{
    const double wanted = KILN_ALIKE_MAX - alike;
    int best = 0;
    for (int skip = 1; skip < KILN_ALIKE_STEPS; skip++)
        if (fabs(kiln_alike_variety(skip, width, height) - wanted) <
            fabs(kiln_alike_variety(best, width, height) - wanted))
            best = skip;
    return best;
}
