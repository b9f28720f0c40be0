/* figures.c - see figures.h. */
#include "worker/bench/measured/figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kiln_figure_print(struct kiln_estimate e, double unit, int digits, bool sign)
{
    if (isnan(e.value))
        printf(" - |");
    else if (isnan(e.error))
        printf(sign ? " %+.*f |" : " %.*f |", digits, e.value * unit);
    else
        printf(sign ? " %+.*f ± %.*f |" : " %.*f ± %.*f |", digits, e.value * unit, digits,
               e.error * unit);
}

json_t *kiln_figure_json(double value)
{
    char text[32];
    if (isnan(value))
        return json_null();
    snprintf(text, sizeof text, "%.5g", value);
    return json_real(strtod(text, NULL));
}

json_t *kiln_figure_pair(struct kiln_estimate e)
{
    return isnan(e.value)
               ? json_null()
               : json_pack("[o, o]", kiln_figure_json(e.value), kiln_figure_json(e.error));
}

bool kiln_figure_within(const char *what, double loss, double error, double limit,
                        char why[KILN_FIGURE_WHY])
{
    if (loss + error <= limit)
        return true;
    const size_t len = strlen(why);
    char *to = why + len;
    const size_t left = KILN_FIGURE_WHY - len;
    if (isnan(loss + error))
        snprintf(to, left, "%s%s: not measured", len ? "; " : "", what);
    else if (loss <= limit)
        snprintf(to, left, "%s%s: too few pictures to tell (%+.1f ± %.1f points; -%.1f allowed)",
                 len ? "; " : "", what, -loss, error, limit);
    else
        snprintf(to, left, "%s%s: %+.1f ± %.1f points, more than the -%.1f allowed",
                 len ? "; " : "", what, -loss, error, limit);
    return false;
}

double kiln_figure_share_error(struct kiln_estimate difference, double count)
{
    return isnan(difference.error) ? NAN : 100 * fmax(difference.error, 1 / count);
}

bool kiln_figure_share_within(const char *what, struct kiln_estimate difference, double count,
                              double limit, char why[KILN_FIGURE_WHY])
{
    return kiln_figure_within(what, -100 * difference.value,
                              kiln_figure_share_error(difference, count), limit, why);
}
