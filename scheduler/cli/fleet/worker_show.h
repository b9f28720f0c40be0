/* worker_show.h - the workers of this machine: their names, what the guard says of them, their
 * logs.
 */
#ifndef KILN_CLI_WORKER_SHOW_H
#define KILN_CLI_WORKER_SHOW_H

#include "scheduler/cli/stack/guard.h"

/* --- worker_names.c --------------------------------------------------------------------------- */
/* HOST-gpu0, and HOST-cpu, HOST-cpu-1, ... for several on one device; host NULL: this one.  A
 * host's name that is too long ends with a hash of it: names of a fleet often differ in their last
 * letters, and two workers must not have one name. */
void kiln_worker_name_of(const char *host, const char *device, unsigned number,
                         char out[KILN_PROCESS_NAME_MAX]);
/* Whether both are workers of a private stack (worker-2), and the first has the lower number: so
 * many on its host and device are before a worker. */
bool kiln_worker_is_before(const char *name, const char *other);
/* The one row that is meant: by its name or the end of it, else by its device, for the workers of a
 * stack (worker-0) are known by the names above as well.  NULL: none, or several. */
struct kiln_guard_row *kiln_worker_row_meant(struct kiln_guard_plan *plan, const char *word);

/* --- worker_show.c ---------------------------------------------------------------------------- */
/* One line of `kiln worker ls`. */
struct kiln_worker_line {
    char name[KILN_NAME_MAX + 1], device[32], state[16], reason[KILN_GUARD_REASON_MAX];
    bool wanted;
    pid_t pid; /* 0: none */
    long restarts;
    int64_t since_ms; /* 0: not known */
};
void kiln_worker_heading(const struct kiln_cli *cli); /* for a person at a terminal */
void kiln_worker_print(struct kiln_cli *cli, const struct kiln_worker_line *line);

int kiln_worker_list(struct kiln_cli *cli, const struct kiln_stack *stack); /* an exit status */
/* args: logs NAME [--lines N] [--follow]. */
int kiln_worker_logs(struct kiln_cli *cli, const struct kiln_stack *stack,
                     const struct kiln_args *args);
/* What such words ask for: NAME, borrowed, and how many lines.  An exit status. */
int kiln_worker_logs_asked(struct kiln_cli *cli, const struct kiln_args *args,
                           const char **ret_name, long *ret_lines);

#endif
