/* worker_show.h - what the guard says of the workers of this machine, and their logs. */
#ifndef KILN_CLI_WORKER_SHOW_H
#define KILN_CLI_WORKER_SHOW_H

#include "scheduler/cli/stack/crew.h"

/* As the guard last wrote it down. */
struct kiln_hand_report {
    char state[16], reason[KILN_CREW_REASON_MAX];
    pid_t pid; /* 0: none */
    uint32_t restarts, turn;
};
/* False: it has not written anything about that worker. */
bool kiln_hand_report(const struct kiln_stack *stack, const char *name,
                      struct kiln_hand_report *ret);

/* One line of `kiln worker ls`. */
struct kiln_hand_line {
    char name[KILN_NAME_MAX + 1], device[32], state[16], reason[KILN_CREW_REASON_MAX];
    bool wanted;
    pid_t pid; /* 0: none */
    long restarts;
    int64_t since_ms; /* 0: not known */
};
void kiln_hand_heading(const struct kiln_cli *cli); /* for a person at a terminal */
void kiln_hand_print(struct kiln_cli *cli, const struct kiln_hand_line *line);

int kiln_worker_list(struct kiln_cli *cli, const struct kiln_stack *stack); /* an exit status */
/* args: logs NAME [--lines N] [--follow]. */
int kiln_worker_logs(struct kiln_cli *cli, const struct kiln_stack *stack,
                     const struct kiln_args *args);
/* What such words ask for: NAME, borrowed, and how many lines.  An exit status. */
int kiln_worker_logs_asked(struct kiln_cli *cli, const struct kiln_args *args,
                           const char **ret_name, long *ret_lines);

#endif
