/* priority.c - see priority.h. */
#include "storage/ledger/priority.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include "storage/daemon/proc_stat.h"

bool kiln_pg_lower(PGconn *conn, int nice)
{
    struct ucred server; /* of whoever listens; pid 0: not in our process namespace */
    socklen_t size = sizeof server;
    struct kiln_proc_stat stat;
    const pid_t backend = PQbackendPID(conn);
    if (getsockopt(PQsocket(conn), SOL_SOCKET, SO_PEERCRED, &server, &size) != 0 ||
        server.pid <= 0 || backend <= 0)
        return false; /* TCP has no such credentials */
    return kiln_proc_stat(backend, &stat) && stat.parent == server.pid &&
           (getpriority(PRIO_PROCESS, (id_t)backend) >= nice ||
            setpriority(PRIO_PROCESS, (id_t)backend, nice) == 0);
}
