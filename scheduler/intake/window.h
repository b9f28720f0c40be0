/* window.h - windows, as in "22:00-06:00": when they are open, and when they change next.
 *
 * Hours are those of the wall clock in the local time zone of the process that asks: the leading
 * scheduler's (its TZ, else /etc/localtime).  A window over midnight is open on both sides of it.
 * An hour skipped by daylight saving never opens, a repeated hour opens twice.  Pure: time is
 * passed in.
 */
#ifndef KILN_WINDOW_H
#define KILN_WINDOW_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "schemas/error.h"

#define KILN_DAY_MINUTES 1440

struct kiln_window {
    int from, to; /* minutes of the day, from inclusive; from < 0: always open */
};

/* "HH:MM-HH:MM"; 24:00 is midnight.  KILN_BAD_INPUT says what is wrong, also with one that is
 * empty or the whole day. */
int kiln_window_parse(const char *text, struct kiln_window *ret,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* "22:00-06:00", or "" for always. */
void kiln_window_text(const struct kiln_window *window, char *out, size_t size);

bool kiln_window_open(const struct kiln_window *window, time_t now);
/* When it opens or closes next, to the minute; 0: never within two days. */
time_t kiln_window_next(const struct kiln_window *window, time_t now);

#endif
