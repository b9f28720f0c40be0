/* duration.c - see duration.h. */
#include "scheduler/cli/core/duration.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST_S (100LL * 366 * 86400)

/* Seconds of a unit's letter; 0: it is none. */
static int64_t unit_s(char letter)
{
    switch (letter) {
    case 's':
        return 1;
    case 'm':
        return 60;
    case 'h':
        return 3600;
    case 'd':
        return 86400;
    case 'w':
        return 7 * 86400;
    default:
        return 0;
    }
}

bool kiln_duration_parse(const char *text, int64_t *ret_s)
{
    *ret_s = 0;
    do {
        size_t digits = strspn(text, "0123456789");
        int64_t unit = unit_s(text[digits]);
        if (digits == 0 || digits > 10 || unit == 0)
            return false;
        *ret_s += strtoll(text, NULL, 10) * unit;
        if (*ret_s > LONGEST_S)
            return false;
        text += digits + 1;
    } while (*text);
    return true;
}

int kiln_arg_duration(struct kiln_cli *cli, const struct kiln_args *args, const char *name,
                      int64_t fallback_s, int64_t *ret_s)
{
    const char *text = kiln_arg(args, name);
    *ret_s = fallback_s;
    if (!text)
        return 0;
    if (strcmp(text, "0") == 0) {
        *ret_s = 0;
        return 0;
    }
    if (kiln_duration_parse(text, ret_s))
        return 0;
    return kiln_usage(cli, "--%s: '%s' is no span of time; write 90s, 30m, 36h, 7d or 1d12h", name,
                      text);
}
