/* priority.h - a lower priority for work that can wait: of this process, one of its threads, or the
 * server process of a session.
 *
 * A gallery on the machine of its Postgres shares the processors with the commits of workers.  The
 * process that serves a connection is one of the server's, so the client lowers it by its number.
 *
 * A nice value alone seldom helps a commit.  Most of its waits are short, for whatever computes
 * when it wakes up, and Linux lets that go on to the end of its turn (base_slice, about 1.4 ms) at
 * any nice value, unless whoever wakes up asks for shorter turns.  And where
 * sched_autogroup_enabled is 1, as most distributions have it, nice values are compared within a
 * session (setsid) alone, and each process of Postgres is a session of its own.  So three things
 * are lowered: the nice value, that of the session's autogroup, and the wish for short turns
 * (sched_setattr, since Linux 6.12).  Turns of 4 ms are longer than those of whoever asks for none,
 * and short enough for searches to share a processor; at a nice value of 10 or more, which is for
 * work that nobody waits for, they are 20 ms, so that searches of a lower value interrupt it, too.
 */
#ifndef KILN_LEDGER_PRIORITY_H
#define KILN_LEDGER_PRIORITY_H

#include <stdbool.h>
#include <sys/types.h>

struct pg_conn; /* PGconn */

/* The nice value of the calling thread. */
int kiln_nice(void);

/* A thread, or a process before it starts threads, which inherit it, gets this nice value (1 to
 * 19), if it has no higher one; a process that leads its session, the session too.  False: not all
 * of it could be lowered, and errno says why.  EAGAIN: Linux lets one autogroup change in 100 ms,
 * so another call will do it. */
bool kiln_lower(pid_t task, int nice);

/* The same for the process that serves this connection.  False with ENOTSUP, and nothing is
 * changed, for a server on another machine or in another container, and one behind a proxy: the
 * number is only trusted if that process is a child of the one that listens on the socket. */
bool kiln_pg_lower(struct pg_conn *conn, int nice);

#endif
