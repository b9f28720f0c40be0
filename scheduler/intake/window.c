/* window.c - see window.h. */
#include "scheduler/intake/window.h"

#include <stdio.h>
#include <string.h>

#define LOOK_AHEAD_S (2 * 86400 + 7200) /* daylight saving may skip a whole window */

/* "HH:MM" at *text, which moves behind it; -1 if it is none. */
static int parse_minute(const char **text)
{
    const char *at = *text;
    size_t hours = strspn(at, "0123456789");
    if (hours < 1 || hours > 2 || at[hours] != ':' || strspn(at + hours + 1, "0123456789") != 2)
        return -1;
    int hour = at[0] - '0';
    if (hours == 2)
        hour = hour * 10 + at[1] - '0';
    int minute = (at[hours + 1] - '0') * 10 + at[hours + 2] - '0';
    *text = at + hours + 3;
    if (minute > 59 || hour > 24 || (hour == 24 && minute > 0))
        return -1;
    return hour * 60 + minute;
}

int kiln_window_parse(const char *text, struct kiln_window *ret, struct kiln_error *err)
{
    const char *at = text;
    int from = parse_minute(&at), to = -1;
    if (from >= 0 && *at == '-') {
        at++;
        to = parse_minute(&at);
    }
    if (to < 0 || *at != '\0')
        return kiln_fail(err, KILN_BAD_INPUT,
                         "'%.40s' is not a window; write 22:00-06:00, in the local time of the "
                         "scheduler",
                         text);
    from %= KILN_DAY_MINUTES;
    to %= KILN_DAY_MINUTES;
    if (from == to)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "'%.40s' begins and ends at the same minute; leave the window out for the "
                         "whole day",
                         text);
    *ret = (struct kiln_window){from, to};
    return 0;
}

void kiln_window_text(const struct kiln_window *window, char *out, size_t size)
{
    if (window->from < 0)
        snprintf(out, size, "%s", "");
    else
        snprintf(out, size, "%02d:%02d-%02d:%02d", window->from / 60, window->from % 60,
                 window->to / 60, window->to % 60);
}

bool kiln_window_open(const struct kiln_window *window, time_t now)
{
    struct tm local;
    if (window->from < 0 || !localtime_r(&now, &local))
        return true;
    int minute = local.tm_hour * 60 + local.tm_min;
    if (window->from < window->to)
        return minute >= window->from && minute < window->to;
    return minute >= window->from || minute < window->to;
}

/* Walks by the minute, since any rule of a time zone may lie between: two days are three thousand
 * looks, less than a millisecond. */
time_t kiln_window_next(const struct kiln_window *window, time_t now)
{
    bool open = kiln_window_open(window, now);
    if (window->from < 0)
        return 0;
    for (time_t at = now - now % 60 + 60; at < now + LOOK_AHEAD_S; at += 60)
        if (kiln_window_open(window, at) != open)
            return at;
    return 0;
}
