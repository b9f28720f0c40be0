/* worker_process.h - real kiln-worker processes in a test, and the scheduler's part played by the
 * test: jobs into the ledger, assignments and orders into a worker's stream.
 *
 * Every worker draws test cards; see worker/engine/testcard.c for the words of a prompt that make
 * it slow or fail.  A step that fails prints why and exits.
 */
#ifndef KILN_TEST_WORKER_PROCESS_H
#define KILN_TEST_WORKER_PROCESS_H

#include "schemas/job.h"
#include "schemas/wire/wire.h"
#include "tests/support/process.h"
#include "tests/support/stack.h"

#define KILN_TEST_POOL "default"

struct kiln_test_worker {
    struct kiln_test_stack *stack;
    struct kiln_test_process process; /* one log a worker */
    char id[KILN_NAME_MAX + 1];
};

/* Starts $BUILD/kiln-worker on the stack with its store in STACK/store.  more: further arguments,
 * ended by NULL, or NULL.  With `ready` it waits until the worker says so. */
void kiln_test_worker_start(struct kiln_test_worker *worker, struct kiln_test_stack *stack,
                            const char *id, const char *const *more, bool ready);
void kiln_test_worker_signal(const struct kiln_test_worker *worker, int number);
/* Waits for its end: the exit status, 128 + the signal that ended it, or -1 after limit_s. */
int kiln_test_worker_wait(struct kiln_test_worker *worker, double limit_s);
/* SIGTERM and the exit status; -1 if it took longer than 20 s (it is then killed). */
int kiln_test_worker_stop(struct kiln_test_worker *worker);
/* How often text occurs in what this process has logged. */
int kiln_test_worker_said(const struct kiln_test_worker *worker, const char *text);
/* Waits until it has logged text; false after limit_s. */
bool kiln_test_worker_hears(const struct kiln_test_worker *worker, const char *text,
                            double limit_s);

/* Queues count jobs like *job (whose prompt, size and so on are taken over) in a batch of that
 * name; fills ids. */
void kiln_test_queue_jobs(struct kiln_test_stack *stack, const char *batch,
                          const struct kiln_job *job, size_t count, uint64_t *ids);
/* A job of 64x64, 2 steps. */
struct kiln_job kiln_test_job(const char *prompt);

/* Assigns the jobs in the ledger and tells the worker. */
void kiln_test_assign(struct kiln_test_stack *stack, const char *worker, const char *assignment,
                      const uint64_t *ids, size_t count);
void kiln_test_control_worker(struct kiln_test_stack *stack, const char *worker,
                              const struct kiln_control *order);
/* Reads the beat of a worker; false if it has none. */
bool kiln_test_heartbeat(struct kiln_test_stack *stack, const char *worker,
                         struct kiln_heartbeat *ret);

/* Waits until a worker's beat says that it is in the steps of a batch; false after limit_s. */
bool kiln_test_worker_draws(const struct kiln_test_worker *worker, double limit_s);

/* Polls the number that sql gives until it is `wanted`; false after limit_s. */
bool kiln_test_until(struct kiln_test_stack *stack, const char *sql, long long wanted,
                     double limit_s);

#endif
