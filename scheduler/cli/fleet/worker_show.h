/* worker_show.h - the workers of this machine: what the guard says of them, their logs.
 */
#ifndef KILN_CLI_WORKER_SHOW_H
#define KILN_CLI_WORKER_SHOW_H

#include "scheduler/cli/stack/guard.h"

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
