/* notify.h - what a daemon tells the supervisor that started it: ready, alive, ending.
 *
 * systemd's protocol (sd_notify(3)): one datagram of NAME=VALUE lines to the socket that
 * $NOTIFY_SOCKET names; nothing where there is none.  The watchdog is fed by the program's main
 * loop alone and only while it gets on, so that a process that merely exists is started again.
 */
#ifndef KILN_NOTIFY_H
#define KILN_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/error.h"

/* Sends the lines; false if nobody listens or the message did not go out. */
bool kiln_notify(const char *fmt, ...) KILN_PRINTF(1, 2);

/* Starts as {0}. */
struct kiln_watchdog {
    bool known;       /* the environment was read */
    int64_t every_ms; /* between two signs of life; 0: nobody wants them */
    int64_t due_ms;
};

/* Says that the main loop goes round and what the program does, if it is time to: three times in
 * the supervisor's limit, or every five seconds where there is none but somebody listens.  Without
 * progress the status is told and the watchdog starves. */
void kiln_notify_alive(struct kiln_watchdog *watchdog, bool progress, const char *status);
/* The same while the program ends: asks for another fifteen seconds. */
void kiln_notify_ending(struct kiln_watchdog *watchdog, const char *status);

#endif
