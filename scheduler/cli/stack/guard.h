/* guard.h - the process that restarts the workers of a machine, for `kiln up` and `kiln worker`.
 *
 *     DIR/crew.json        the plan: which workers shall run, written by the command
 *     DIR/run/crew.json    the report: what became of them, written by the guard
 *     DIR/run/NAME.pid, DIR/log/NAME.log      of each worker as in stack.h; the guard's are crew.*
 *
 * The guard outlives the shell.  It starts the workers of the plan, restarts those that die with
 * growing pauses, gives up those that die too often, and rotates the logs.  SIGHUP: read the plan
 * again.  SIGTERM: let all workers drain, then end, unless a later plan starts one again.  If the
 * guard is killed its workers keep running, and the next guard takes them over.  On disk it is
 * called crew, as in earlier releases, so that an upgrade finds the guard that runs.
 */
#ifndef KILN_CLI_GUARD_H
#define KILN_CLI_GUARD_H

#include "scheduler/cli/stack/stack.h"
#include "schemas/limits.h"

#define KILN_GUARD_NAME "crew" /* its pid file and log */
#define KILN_GUARD_PLAN "crew.json"
#define KILN_GUARD_MAX 128 /* a stack has at most 64, and there are those of `worker start` */
/* The last line of a log, how the worker ended, and a message around both fit a kiln_error. */
#define KILN_GUARD_REASON_MAX 800
#define KILN_GUARD_CRASHES_MAX 16

/* One worker of the plan. */
struct kiln_guard_row {
    char name[KILN_PROCESS_NAME_MAX]; /* of its files: worker-0 of a stack, else as the id */
    char id[KILN_PROCESS_NAME_MAX];   /* on the bus and for people: HOST-gpu0 */
    char device[32];
    bool wanted;
    uint32_t turn; /* grows when somebody starts it again: earlier crashes are forgiven */
};
struct kiln_guard_plan {
    struct kiln_guard_row at[KILN_GUARD_MAX];
    int count;
    int crashes; /* so many within `within_s` and a worker is given up */
    int64_t within_s;
    int64_t log_bytes;     /* a longer log is rotated */
    char config[PATH_MAX]; /* of all workers but those of the stack, which read DIR/kiln.conf */
};

/* What the guard last wrote about a worker. */
struct kiln_guard_report {
    char state[16], reason[KILN_GUARD_REASON_MAX];
    pid_t pid; /* 0: none, or it was signalled to end */
    uint32_t restarts, turn;
    int64_t since_ms;
};

/* --- guard_files.c ---------------------------------------------------------------------------- */
/* An empty plan with the usual limits when there is no file. */
int kiln_guard_read(const struct kiln_stack *stack, struct kiln_guard_plan *ret,
                    struct kiln_error *err) KILN_MUST_CHECK;
int kiln_guard_write(const struct kiln_stack *stack, const struct kiln_guard_plan *plan,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* NULL: the plan has no such row. */
struct kiln_guard_row *kiln_guard_row(struct kiln_guard_plan *plan, const char *name);
/* The same by its id. */
struct kiln_guard_row *kiln_guard_row_of_id(struct kiln_guard_plan *plan, const char *id);
/* That row, or a new one whose id is its name; KILN_FULL at KILN_GUARD_MAX. */
int kiln_guard_add(struct kiln_guard_plan *plan, const char *name, struct kiln_guard_row **ret,
                   struct kiln_error *err) KILN_MUST_CHECK;
/* The id of the row of that name; without such a row the name. */
void kiln_guard_id(const struct kiln_stack *stack, const char *name,
                   char out[KILN_PROCESS_NAME_MAX]);
/* False: the guard has not written anything about that worker. */
bool kiln_guard_report(const struct kiln_stack *stack, const char *name,
                       struct kiln_guard_report *ret);
/* reports: an array of objects; takes the reference. */
int kiln_guard_write_reports(const struct kiln_stack *stack, json_t *reports,
                             struct kiln_error *err) KILN_MUST_CHECK;

#define KILN_LOGS_KEPT 4
/* Moves what is in the file to PATH.1, that to PATH.2, ..., once it is longer than max bytes.  The
 * writer must append: its file stays the same one. */
int kiln_log_rotate(const char *path, int64_t max, struct kiln_error *err) KILN_MUST_CHECK;

/* --- worker_names.c --------------------------------------------------------------------------- */
/* HOST-gpu0, and HOST-cpu, HOST-cpu-1, ... for several on one device; host NULL: this one.  A
 * host's name that is too long ends with a hash of it: names of a fleet often differ in their last
 * letters, and two workers must not have one name. */
void kiln_worker_name_of(const char *host, const char *device, unsigned number,
                         char out[KILN_PROCESS_NAME_MAX]);
/* Whether a worker of this host on that device may have the id. */
bool kiln_worker_id_fits(const char *id, const char *device);
/* Gives the row the first such id that no row of the plan has. */
void kiln_worker_id_set(struct kiln_guard_plan *plan, struct kiln_guard_row *row);
/* The one row that is meant: by its id, the end of it, or the name of its files (worker-0, the id
 * in earlier releases).  NULL: none, or several. */
struct kiln_guard_row *kiln_worker_row_meant(struct kiln_guard_plan *plan, const char *word);

/* --- guard_rule.c: when to restart (pure) ----------------------------------------------------- */
enum kiln_guard_state {
    KILN_GUARD_RUNNING,
    KILN_GUARD_WAITING,  /* for its next start, at due_s */
    KILN_GUARD_STOPPED,  /* on command */
    KILN_GUARD_ENDED,    /* by itself, with status 0: it was drained */
    KILN_GUARD_GIVEN_UP, /* the reason says why */
};
const char *kiln_guard_state_name(enum kiln_guard_state state);

struct kiln_guard_life {
    enum kiln_guard_state state;
    double started_s, due_s;
    double crashed_s[KILN_GUARD_CRASHES_MAX]; /* a ring */
    uint32_t crashes, restarts, in_row;
    char reason[KILN_GUARD_REASON_MAX];
};
/* The worker has ended: status as of waitpid, or -1 when nobody saw how; line: the last one of its
 * log, of which the reason keeps the field `error` if it has one.  Decides what comes next.  A
 * reason that is too long ends after a word and names the log. */
void kiln_guard_ended(struct kiln_guard_life *life, const struct kiln_guard_plan *plan, int status,
                      const char *line, double now_s);

/* --- guard.c ---------------------------------------------------------------------------------- */
/* The guard's whole life; an exit status. */
int kiln_guard_run(struct kiln_cli *cli, struct kiln_stack *stack);

/* --- guard_client.c: what commands do with the guard; under the stack's lock where they change --
 */
/* The pid of the row's worker, 0 if it does not run.  It may have been started by an earlier
 * release, which called it by the name of its files. */
pid_t kiln_guard_worker(const struct kiln_stack *stack, const struct kiln_guard_row *row);
/* The pid of the guard, 0 if there is none. */
pid_t kiln_guard_find(const struct kiln_stack *stack);
/* Writes the plan; the guard reads it now, or is started when a row is wanted. */
int kiln_guard_apply(const struct kiln_stack *stack, const struct kiln_guard_plan *plan,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* How long a worker may take to drain before it is stopped at its next step, and then killed. */
double kiln_drain_limit_s(const struct kiln_cli *cli);

/* The rows that a command is about, by their place in the plan. */
struct kiln_guard_chosen {
    bool at[KILN_GUARD_MAX];
    bool ran[KILN_GUARD_MAX]; /* it ran before the command */
};
/* The row's worker shall run: earlier crashes are forgiven, and one that is down starts at once. */
void kiln_guard_want(const struct kiln_stack *stack, struct kiln_guard_plan *plan,
                     struct kiln_guard_row *row, struct kiln_guard_chosen *chosen);
/* Waits for the heartbeats of the chosen rows and says of each that it runs.  A worker that ran
 * before and ends now (it was drained, or is dying of a kill) is started again; one that was
 * started and ends is an error, which shows the end of its log. */
int kiln_guard_wait_started(struct kiln_cli *cli, struct kiln_stack *stack,
                            struct kiln_guard_plan *plan, struct kiln_guard_chosen *chosen,
                            struct kiln_error *err) KILN_MUST_CHECK;
int kiln_guard_wait_stopped(struct kiln_cli *cli, struct kiln_stack *stack,
                            const struct kiln_guard_plan *plan,
                            const struct kiln_guard_chosen *chosen,
                            struct kiln_error *err) KILN_MUST_CHECK;
/* Drains all workers, then ends the guard; returns how many workers there were. */
int kiln_guard_stop(struct kiln_stack *stack, struct kiln_cli *cli);

#endif
