/* times.c - see times.h.  Times are UTC, as everywhere in what kiln prints, so that a line of its
 * output can be given back to it and no change of clocks makes an hour ambiguous. */
#include "scheduler/cli/core/times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "schemas/clock.h"

#define LONGEST_S (100LL * 366 * 86400)

bool kiln_duration_parse(const char *text, int64_t *ret_s)
{
    static const char letters[] = "smhdw";
    static const int64_t units_s[] = {1, 60, 3600, 86400, 7 * 86400};
    *ret_s = 0;
    do {
        size_t digits = strspn(text, "0123456789");
        const char *letter = text[digits] ? strchr(letters, text[digits]) : NULL;
        if (digits == 0 || digits > 10 || !letter)
            return false;
        *ret_s += strtoll(text, NULL, 10) * units_s[letter - letters];
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
    return kiln_usage(cli, "--%s: '%s' is not a span of time, such as 90s, 30m, 36h, 7d or 1d12h",
                      name, text);
}

/* --- moments ---------------------------------------------------------------------------------- */

/* timegm rolls the 31st of November over into December; a typed date must be a day. */
static bool calendar_time(struct tm tm, int64_t *ret)
{
    struct tm rolled = tm;
    time_t seconds = timegm(&rolled);
    if (seconds < 0 || rolled.tm_mday != tm.tm_mday || rolled.tm_mon != tm.tm_mon)
        return false;
    *ret = (int64_t)seconds * 1000;
    return true;
}

/* "Z", nothing (UTC too) or "+01:00"; the minutes by which that zone is ahead. */
static bool parse_zone(const char *text, int *ret_ahead)
{
    int hours, minutes, used = 0;
    *ret_ahead = 0;
    if (text[0] == '\0' || strcmp(text, "Z") == 0)
        return true;
    if ((text[0] != '+' && text[0] != '-') || strspn(text + 1, "0123456789:") != 5 ||
        sscanf(text + 1, "%2d:%2d%n", &hours, &minutes, &used) != 2 || used != 5 || text[6] ||
        hours > 14 || minutes > 59)
        return false;
    *ret_ahead = (text[0] == '-' ? -1 : 1) * (hours * 60 + minutes);
    return true;
}

/* What may stand behind the minutes: nothing, seconds, their fraction, a zone. */
static bool parse_seconds(const char *text, struct tm *tm, int *ret_ahead)
{
    if (text[0] == ':') {
        char *end;
        if (strspn(text + 1, "0123456789") != 2)
            return false;
        tm->tm_sec = (int)strtol(text + 1, &end, 10);
        text = end;
        if (text[0] == '.')
            text += 1 + strspn(text + 1, "0123456789");
    }
    return tm->tm_sec < 60 && parse_zone(text, ret_ahead);
}

bool kiln_moment_parse(const char *text, int64_t now_ms, int64_t *ret)
{
    struct tm tm = {0};
    int used = 0, ahead = 0;
    char between;
    int64_t ago_s;
    if (kiln_duration_parse(text, &ago_s)) {
        *ret = ago_s * 1000 < now_ms ? now_ms - ago_s * 1000 : 0;
        return true;
    }
    if (sscanf(text, "%4d-%2d-%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &used) != 3 ||
        used != 10)
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    if (text[used] == '\0')
        return calendar_time(tm, ret);
    text += used;
    used = 0;
    if (sscanf(text, "%c%2d:%2d%n", &between, &tm.tm_hour, &tm.tm_min, &used) != 3 || used != 6 ||
        (between != 'T' && between != ' ') || tm.tm_hour > 23 || tm.tm_min > 59)
        return false;
    if (!parse_seconds(text + used, &tm, &ahead) || !calendar_time(tm, ret))
        return false;
    *ret -= (int64_t)ahead * 60000;
    return true;
}

int kiln_arg_since(struct kiln_cli *cli, const struct kiln_args *args, int64_t fallback_ms,
                   int64_t *ret)
{
    const char *text = kiln_arg(args, "since");
    *ret = fallback_ms;
    if (!text || kiln_moment_parse(text, kiln_wall_ms(), ret))
        return 0;
    return kiln_usage(cli,
                      "--since '%s' is not a date or time, such as 2026-11-21, 2026-11-21T08:30Z "
                      "or 2026-11-21T08:30+01:00, nor a span before now, such as 90m, 24h or 7d",
                      text);
}
