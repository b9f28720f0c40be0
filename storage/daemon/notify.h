/* notify.h - tells the supervisor of a daemon that it is ready, alive or ending.
 *
 * systemd's protocol (sd_notify(3)): one datagram of NAME=VALUE lines to the socket that
 * $NOTIFY_SOCKET names; nothing if there is none.  Only the program's main loop feeds the
 * watchdog, and only while it makes progress, so that a stuck process is restarted.
 */
#ifndef KILN_NOTIFY_H
#define KILN_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/error.h"

/* Sends the lines; false if there is no socket or sending failed. */
bool kiln_notify(const char *fmt, ...) KILN_PRINTF(1, 2);

/* Starts as {0}. */
struct kiln_watchdog {
    bool known;       /* the environment was read */
    int64_t every_ms; /* between two messages; 0: not wanted */
    int64_t due_ms;
};

/* Sends the status and feeds the watchdog, if it is time: three times in the supervisor's limit, or
 * every five seconds without a limit.  Without progress only the status is sent. */
void kiln_notify_alive(struct kiln_watchdog *watchdog, bool progress, const char *status);
/* The same while the program ends: asks for another fifteen seconds. */
void kiln_notify_ending(struct kiln_watchdog *watchdog, const char *status);

#endif
