/* notify.c - the datagram.
 *
 * Written here and not taken from libsystemd, which would bring five libraries into every daemon
 * for one call of sendmsg; its manual page blesses that.
 */
#include "storage/daemon/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "schemas/clock.h"

#define STATUS_MS 5000
#define MORE_US 15000000 /* asked for while ending */

bool kiln_notify(const char *fmt, ...)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char text[512];
    va_list args;
    size_t len = path ? strlen(path) : 0;
    if (len < 2 || len >= sizeof address.sun_path || !strchr("/@", path[0]))
        return false;
    va_start(args, fmt);
    int size = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    memcpy(address.sun_path, path, len);
    if (path[0] == '@')
        address.sun_path[0] = '\0'; /* an abstract name */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    size_t bytes = (size_t)size < sizeof text ? (size_t)size : sizeof text - 1;
    ssize_t sent = sendto(fd, text, bytes, MSG_NOSIGNAL, (const struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    close(fd);
    return sent == (ssize_t)bytes;
}

/* A third of the supervisor's limit: one sign may be lost.  A limit that is meant for another
 * process, a parent's, is not ours. */
static void read_environment(struct kiln_watchdog *watchdog)
{
    const char *limit = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    const char *socket_path = getenv("NOTIFY_SOCKET");
    bool ours = !pid || strtol(pid, NULL, 10) == (long)getpid();
    int64_t limit_ms = limit && ours ? strtoll(limit, NULL, 10) / 1000 : 0;
    watchdog->known = true;
    watchdog->every_ms = socket_path ? STATUS_MS : 0;
    if (watchdog->every_ms && limit_ms > 0 && limit_ms / 3 < STATUS_MS)
        watchdog->every_ms = limit_ms / 3 > 0 ? limit_ms / 3 : 1;
}

static bool is_due(struct kiln_watchdog *watchdog)
{
    if (!watchdog->known)
        read_environment(watchdog);
    int64_t now_ms = watchdog->every_ms ? kiln_clock_ms() : 0;
    if (watchdog->every_ms == 0 || now_ms < watchdog->due_ms)
        return false;
    watchdog->due_ms = now_ms + watchdog->every_ms;
    return true;
}

void kiln_notify_alive(struct kiln_watchdog *watchdog, bool progress, const char *status)
{
    if (is_due(watchdog))
        (void)kiln_notify("%sSTATUS=%s", progress ? "WATCHDOG=1\n" : "", status);
}

void kiln_notify_ending(struct kiln_watchdog *watchdog, const char *status)
{
    if (is_due(watchdog))
        (void)kiln_notify("WATCHDOG=1\nEXTEND_TIMEOUT_USEC=%d\nSTATUS=%s", MORE_US, status);
}
