/* process.h - what tests do with processes: start them so that none outlives the test, read what
 * they log, await their end.
 *
 * A step that fails prints why and exits.
 */
#ifndef KILN_TEST_PROCESS_H
#define KILN_TEST_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A program of ours with a log file, which it appends to. */
struct kiln_test_process {
    pid_t pid;     /* 0 = ended */
    char log[256]; /* path */
    long log_from; /* where this process began */
};

/* Path of a file in the build directory; false where $BUILD does not name one. */
bool kiln_test_built(const char *name, char *out, size_t size);

/* fork() whose child is killed when this process ends. */
pid_t kiln_test_fork(void);
/* Starts argv[0], found by $PATH, without input and with its output appended to the file log; it
 * gets the signal `death` when this process ends.  prepare, if given, is called in the child. */
pid_t kiln_test_spawn(const char *const *argv, const char *log, int death, void (*prepare)(void));

/* Starts $BUILD/argv[0] with its output behind what the file log holds. */
void kiln_test_launch(struct kiln_test_process *process, const char **argv, const char *log);
/* Waits for its end: the exit status, 128 + the signal that ended it, or -1 after limit_s. */
int kiln_test_await_end(struct kiln_test_process *process, double limit_s);
/* How often text occurs in what this process has logged. */
int kiln_test_said(const struct kiln_test_process *process, const char *text);
/* Waits until it has logged text; false after limit_s, or once it has ended without. */
bool kiln_test_hears(const struct kiln_test_process *process, const char *text, double limit_s);

/* Seconds on a clock that is never set. */
double kiln_test_now_s(void);
void kiln_test_sleep_ms(long ms);

#endif
