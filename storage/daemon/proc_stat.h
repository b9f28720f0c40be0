/* proc_stat.h - reads a process's /proc/PID/stat and status (proc(5)). */
#ifndef KILN_PROC_STAT_H
#define KILN_PROC_STAT_H

#include <stdbool.h>
#include <sys/types.h>

struct kiln_proc_stat {
    char state; /* Z and X: it has ended */
    pid_t parent;
    long threads;
    /* In ticks of 1 / sysconf(_SC_CLK_TCK) s; children: those that were waited for; start: since
     * the machine started. */
    unsigned long long user, system, children_user, children_system, start;
    unsigned long long virtual_bytes, resident_pages;
};

/* False: no such process, or it cannot be read. */
bool kiln_proc_stat(pid_t pid, struct kiln_proc_stat *ret);
/* The same of the file's text. */
bool kiln_proc_stat_parse(const char *text, struct kiln_proc_stat *ret);

/* Whether a SIGKILL is pending (/proc/PID/status): the process still exists, but will run no
 * instruction of its own.  On a busy machine that lasts until it is scheduled. */
bool kiln_proc_killed(pid_t pid);

#endif
