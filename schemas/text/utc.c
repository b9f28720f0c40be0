/* utc.c - see utc.h. */
#include "schemas/text/utc.h"

#include <stdio.h>
#include <time.h>

/* "" for a moment that no calendar has. */
static const char *date_text(int64_t ms, char *out, size_t size)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm utc;
    if (!gmtime_r(&seconds, &utc) || strftime(out, size, "%Y-%m-%dT%H:%M:%S", &utc) == 0)
        snprintf(out, size, "%s", "");
    return out;
}

const char *kiln_time_text(int64_t ms, char *out, size_t size)
{
    char date[64];
    snprintf(out, size, "%s.%03dZ", date_text(ms, date, sizeof date), (int)(ms % 1000));
    return out;
}

const char *kiln_short_time(int64_t ms, char *out, size_t size)
{
    char date[64];
    date_text(ms, date, sizeof date);
    if (ms == 0 || date[0] == '\0')
        snprintf(out, size, "-");
    else
        snprintf(out, size, "%sZ", date);
    return out;
}
