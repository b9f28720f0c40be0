/* crew.h - the workers of this machine under a guard that restarts them: `kiln worker`.
 *
 *     DIR/crew.json        who shall run, where, and when to give up: written by the command
 *     DIR/run/crew.json    what has become of them: written by the guard
 *     DIR/run/NAME.pid, DIR/log/NAME.log      as those of the stack (stack.h), crew.pid is the
 * guard's
 *
 * The guard is a small process of its own that outlives the shell: it starts one kiln-worker a row,
 * starts again what dies, with growing pauses, gives up what dies too often, and turns the logs.
 * SIGHUP: read crew.json again.  SIGTERM: let all of them drain, then end.  Should it be killed,
 * its workers go on, and the next guard takes them over.
 */
#ifndef KILN_CLI_CREW_H
#define KILN_CLI_CREW_H

#include "scheduler/cli/stack/stack.h"
#include "schemas/limits.h"

#define KILN_CREW_MAX 64
#define KILN_CREW_REASON_MAX 240
#define KILN_CREW_CRASHES_MAX 16

/* One worker. */
struct kiln_hand_row {
    char name[KILN_PROCESS_NAME_MAX], device[32];
    bool wanted;
    uint32_t turn; /* grows when somebody starts it again: what it did before is forgiven */
};
struct kiln_crew_plan {
    struct kiln_hand_row at[KILN_CREW_MAX];
    int count;
    int crashes; /* so many within `within_s` and it is given up */
    int64_t within_s;
    int64_t log_bytes; /* a log that is longer is turned */
    char config[PATH_MAX];
};

/* --- crew_files.c ----------------------------------------------------------------------------- */
/* An empty plan with the usual limits when there is no file. */
int kiln_crew_read(const struct kiln_stack *stack, struct kiln_crew_plan *ret,
                   struct kiln_error *err) KILN_MUST_CHECK;
int kiln_crew_write(const struct kiln_stack *stack, const struct kiln_crew_plan *plan,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* --- crew_rule.c: when to start again (pure) -------------------------------------------------- */
enum kiln_hand_state {
    KILN_HAND_RUNNING,
    KILN_HAND_WAITING,  /* for its next start, at due_s */
    KILN_HAND_STOPPED,  /* because somebody said so */
    KILN_HAND_ENDED,    /* by itself, well: it was drained */
    KILN_HAND_GIVEN_UP, /* the reason says why */
};
const char *kiln_hand_state_name(enum kiln_hand_state state);

struct kiln_hand_life {
    enum kiln_hand_state state;
    double started_s, due_s;
    double crashed_s[KILN_CREW_CRASHES_MAX]; /* a ring */
    uint32_t crashes, restarts, in_row;
    char reason[KILN_CREW_REASON_MAX];
};
/* It has ended: status as of waitpid, or -1 when nobody could see how; words: the last line of its
 * log.  Decides what comes next. */
void kiln_hand_ended(struct kiln_hand_life *life, const struct kiln_crew_plan *plan, int status,
                     const char *words, double now_s);

/* --- log_turn.c ------------------------------------------------------------------------------- */
#define KILN_LOGS_KEPT 4
/* Moves what is in the file to PATH.1, that to PATH.2, ..., once it is longer than max bytes.  The
 * file itself stays the one that its writer holds (which appends). */
int kiln_log_turn(const char *path, int64_t max, struct kiln_error *err) KILN_MUST_CHECK;

/* --- crew_guard.c ----------------------------------------------------------------------------- */
/* The guard's whole life; an exit status. */
int kiln_crew_guard(struct kiln_cli *cli, struct kiln_stack *stack);
/* The pid of the guard, 0 if there is none. */
pid_t kiln_crew_find_guard(const struct kiln_stack *stack);
/* The pid of a worker of the crew, 0 if it does not run. */
pid_t kiln_crew_find_hand(const struct kiln_stack *stack, const char *name);
/* Ends guard and workers the gentle way; how many processes that were. */
int kiln_crew_stop(struct kiln_stack *stack, struct kiln_cli *cli, double limit_s);

#endif
