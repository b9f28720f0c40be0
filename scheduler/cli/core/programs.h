/* programs.h - other programs: where they are, and how to run one. */
#ifndef KILN_CLI_PROGRAMS_H
#define KILN_CLI_PROGRAMS_H

#include <limits.h>
#include <stdio.h>
#include <sys/types.h>

#include "scheduler/cli/core/cli.h"

/* Replaces this process by a program that is installed beside it; sets argv[0].  Returns only when
 * that failed: an exit status, after a message. */
int kiln_program_become(const struct kiln_cli *cli, const char *name, char **argv);

/* The first executable of that name on PATH or in the usual places, into out[PATH_MAX]. */
bool kiln_program_find(const char *name, char *out);
/* The path of a program of Postgres ("pg_dump"), of a major version or, for 0, of the newest one
 * that is installed; Debian keeps them off the PATH. */
bool kiln_postgres_program(const char *name, int major, char *out);

/* How a program is started: the one way, for daemons and for helpers. */
struct kiln_launch {
    const char *const *argv;   /* argv[0] is the path of the program; NULL ends it */
    char *const *environment;  /* NULL: ours */
    const char *cwd;           /* NULL: ours */
    int in_fd, out_fd, err_fd; /* -1: /dev/null; no other descriptor below 256 stays open */
    bool own_session;          /* no Ctrl-C of our terminal reaches it */
    bool dies_with_us;         /* it is killed when we end */
    bool holds_hup;            /* SIGHUP is blocked until the program unblocks it */
    bool as_user;              /* as the user below, without further groups */
    uid_t uid;
    gid_t gid;
};
/* Returns when the program runs, or why it could not be started. */
int kiln_launch(const struct kiln_launch *launch, pid_t *ret,
                struct kiln_error *err) KILN_MUST_CHECK;

/* A helper whose complaints are kept for the error. */
struct kiln_child {
    const char *name;
    pid_t pid;        /* 0: none */
    FILE *complaints; /* its stderr; NULL: it goes elsewhere */
    bool own_session; /* its own children end with it */
};
/* Starts argv[0].  in_fd, out_fd become its stdin and stdout, -1: /dev/null.  environment NULL:
 * ours. The child is killed when we end. */
int kiln_child_start(struct kiln_child *child, char *const *argv, char *const *environment,
                     int in_fd, int out_fd, struct kiln_error *err) KILN_MUST_CHECK;
/* Waits for its end, at most limit_s (then it is killed); an error ends with what it said last. */
int kiln_child_end(struct kiln_child *child, double limit_s,
                   struct kiln_error *err) KILN_MUST_CHECK;
/* The same, and a child that has neither read nor written anything for still_s is killed: one that
 * is at work may take a day. */
int kiln_child_end_moving(struct kiln_child *child, double still_s,
                          struct kiln_error *err) KILN_MUST_CHECK;
/* For the way out: kills it if it is still there. */
void kiln_child_drop(struct kiln_child *child);

/* Moves to where the last lines of a file begin. */
void kiln_seek_lines(FILE *file, long lines);
/* The last line of a file into out[size], cut to the end of a long one; "" if there is none. */
void kiln_last_line(FILE *file, char *out, size_t size);

#endif
