/* scheduler_process.h - real kiln-scheduler processes in a test, and a client that enqueues.
 *
 * A step that fails prints why and exits.
 */
#ifndef KILN_TEST_SCHEDULER_PROCESS_H
#define KILN_TEST_SCHEDULER_PROCESS_H

#include "schemas/wire/wire.h"
#include "tests/support/process.h"
#include "tests/support/stack.h"

struct kiln_test_scheduler {
    struct kiln_test_stack *stack;
    struct kiln_test_process process; /* one log a name */
};

/* Starts $BUILD/kiln-scheduler with short leases and pauses; waits until it says it is ready. */
void kiln_test_scheduler_start(struct kiln_test_scheduler *scheduler, struct kiln_test_stack *stack,
                               const char *name);
/* The same without waiting. */
void kiln_test_scheduler_launch(struct kiln_test_scheduler *scheduler,
                                struct kiln_test_stack *stack, const char *name);
/* kill -9, or SIGTERM; returns the exit status, 128 + signal, -1 if it did not end in 20 s. */
int kiln_test_scheduler_kill(struct kiln_test_scheduler *scheduler);
int kiln_test_scheduler_stop(struct kiln_test_scheduler *scheduler);
/* How often this process logged text, and waiting for it. */
int kiln_test_scheduler_said(const struct kiln_test_scheduler *scheduler, const char *text);
bool kiln_test_scheduler_hears(const struct kiln_test_scheduler *scheduler, const char *text,
                               double limit_s);

/* Appends one intake entry of these (name, value) pairs. */
void kiln_test_append(struct kiln_test_stack *stack, const char *const *fields, size_t count);
/* Appends count lines of one call; key = "k" and the number from `first`; with_end announces. */
void kiln_test_enqueue(struct kiln_test_stack *stack, const char *batch, const char *token,
                       const char *line, size_t first, size_t count, bool with_end);
/* Waits for the receipt of a call. */
struct kiln_receipt kiln_test_receipt(struct kiln_test_stack *stack, const char *token);
/* Appends an order to the control stream. */
void kiln_test_control(struct kiln_test_stack *stack, const struct kiln_control *order);

#endif
