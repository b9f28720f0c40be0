/* priority.c - see priority.h. */
#include "storage/ledger/priority.h"

#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "storage/daemon/proc_stat.h"

#define TURN_NS 4000000       /* longer than anybody's who asks for none: 0.7 to 2.8 ms */
#define LONG_TURN_NS 20000000 /* of what nobody waits for: */
#define LONG_TURN_NICE 10     /* this nice value and higher ones */

/* sched_setattr(2), of which older C libraries know nothing: SCHED_ATTR_SIZE_VER0. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

int kiln_nice(void)
{
    return getpriority(PRIO_PROCESS, 0);
}

/* Older kernels ignore the turn. */
static bool lower_task(pid_t task, int nice)
{
    struct attributes has = {0};
    if (syscall(SYS_sched_getattr, task, &has, sizeof has, 0) != 0)
        return false;
    if (has.policy != SCHED_OTHER && has.policy != SCHED_BATCH)
        return true; /* somebody has chosen for it */
    has.size = sizeof has;
    has.nice = has.nice > nice ? has.nice : nice;
    const uint64_t turn_ns = nice >= LONG_TURN_NICE ? LONG_TURN_NS : TURN_NS;
    has.runtime_ns = has.runtime_ns > turn_ns ? has.runtime_ns : turn_ns;
    return syscall(SYS_sched_setattr, task, &has, 0) == 0;
}

/* The file is missing in a kernel without autogroups, and empty for a process of none. */
static bool lower_session(pid_t leader, int nice)
{
    char path[64], text[64] = "";
    int has = nice;
    snprintf(path, sizeof path, "/proc/%ld/autogroup", (long)leader);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT;
    bool done = read(fd, text, sizeof text - 1) >= 0;
    (void)sscanf(text, "/autogroup-%*d nice %d", &has);
    if (done && has < nice)
        done = dprintf(fd, "%d", nice) > 0;
    const int failure = errno;
    close(fd);
    errno = failure;
    return done;
}

bool kiln_lower(pid_t task, int nice)
{
    return lower_task(task, nice) && (getsid(task) != task || lower_session(task, nice));
}

bool kiln_pg_lower(PGconn *conn, int nice)
{
    struct ucred server; /* of whoever listens; pid 0: not in our process namespace */
    socklen_t size = sizeof server;
    struct kiln_proc_stat stat;
    const pid_t backend = PQbackendPID(conn);
    if (getsockopt(PQsocket(conn), SOL_SOCKET, SO_PEERCRED, &server, &size) != 0 ||
        server.pid <= 0 || backend <= 0 || !kiln_proc_stat(backend, &stat) ||
        stat.parent != server.pid) {
        errno = ENOTSUP; /* TCP has no such credentials */
        return false;
    }
    return kiln_lower(backend, nice);
}
