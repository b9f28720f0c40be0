/* figures.c - see figures.h. */
#include "worker/bench/measured/figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker/state/device_class.h"

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

bool kiln_figure_share_within(const char *what, struct kiln_estimate difference, double count,
                              double limit, char why[KILN_FIGURE_WHY])
{
    const double one = 100 / count; /* of the pictures or attributes */
    return kiln_figure_within(what, -100 * difference.value,
                              isnan(difference.error) ? NAN : fmax(100 * difference.error, one),
                              limit, why);
}

void kiln_measured_now(int32_t device, struct kiln_measured_at *ret)
{
    const time_t now = time(NULL);
    struct tm day;
    strftime(ret->date, sizeof ret->date, "%Y-%m-%d", gmtime_r(&now, &day));
    snprintf(ret->device, sizeof ret->device, device < 0 ? "cpu" : "cuda:%d", device);
    kiln_device_class(ret->device, ret->device_class, sizeof ret->device_class);
}

static bool is_local(const char *const *local, const char *word)
{
    for (; *local; local++)
        if (strcmp(word, *local) == 0)
            return true;
    return false;
}

void kiln_measured_command(const char *verb, const char *const *local, int argc, char **argv,
                           char *out, size_t size)
{
    size_t len = (size_t)snprintf(out, size, "kiln %s", verb);
    for (int i = 1; i < argc && len < size; i++) {
        if (is_local(local, argv[i])) {
            i++;
            continue;
        }
        const char *slash = strrchr(argv[i], '/');
        len += (size_t)snprintf(out + len, size - len, " %s", slash ? slash + 1 : argv[i]);
    }
}
