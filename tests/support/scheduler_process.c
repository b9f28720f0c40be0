/* scheduler_process.c - starts schedulers and plays the client for them. */
#include "tests/support/scheduler_process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/bus/bus.h"
#include "tests/support/stack_postgres.h"
#include "tests/support/worker_process.h"

#define END_LIMIT_S 60
#define RECEIPT_WAIT_MS 60000

/* --- the process ------------------------------------------------------------------------------ */
void kiln_test_scheduler_launch(struct kiln_test_scheduler *scheduler,
                                struct kiln_test_stack *stack, const char *name)
{
    char log[256];
    const char *argv[] = {"kiln-scheduler",
                          "--config",
                          stack->conf,
                          "--pool",
                          KILN_TEST_POOL,
                          "--lease-s",
                          "1",
                          "--heartbeat-s",
                          "0.2",
                          "--backoff-base-s",
                          "0.1",
                          "--backoff-max-s",
                          "0.5",
                          "--connect-timeout-s",
                          "1",
                          "--log-level",
                          "debug",
                          NULL};
    *scheduler = (struct kiln_test_scheduler){.stack = stack};
    snprintf(log, sizeof(log), "%s/scheduler-%s.log", stack->dir, name);
    kiln_test_launch(&scheduler->process, argv, log);
}

void kiln_test_scheduler_start(struct kiln_test_scheduler *scheduler, struct kiln_test_stack *stack,
                               const char *name)
{
    kiln_test_scheduler_launch(scheduler, stack, name);
    if (!kiln_test_scheduler_hears(scheduler, "scheduler_ready", 60))
        kiln_test_die("scheduler %s did not get ready; see %s", name, scheduler->process.log);
}

static int end(struct kiln_test_scheduler *scheduler, int number)
{
    if (scheduler->process.pid == 0)
        return -1;
    kill(scheduler->process.pid, number);
    return kiln_test_await_end(&scheduler->process, END_LIMIT_S);
}

int kiln_test_scheduler_kill(struct kiln_test_scheduler *scheduler)
{
    return end(scheduler, SIGKILL);
}

int kiln_test_scheduler_stop(struct kiln_test_scheduler *scheduler)
{
    return end(scheduler, SIGTERM);
}

int kiln_test_scheduler_said(const struct kiln_test_scheduler *scheduler, const char *text)
{
    return kiln_test_said(&scheduler->process, text);
}

bool kiln_test_scheduler_hears(const struct kiln_test_scheduler *scheduler, const char *text,
                               double limit_s)
{
    return kiln_test_hears(&scheduler->process, text, limit_s);
}

/* --- the client ------------------------------------------------------------------------------ */
static struct kiln_bus *open_bus(struct kiln_test_stack *stack)
{
    struct kiln_bus *bus = NULL;
    struct kiln_error err;
    if (kiln_bus_open(stack->config, &bus, &err))
        kiln_test_die("bus: %s", err.text);
    return bus;
}

static void append(struct kiln_bus *bus, const char *part, const char *const *fields, size_t count)
{
    char key[KILN_NAME_MAX + 64];
    struct kiln_error err;
    kiln_wire_key(key, sizeof(key), KILN_TEST_POOL, part, NULL);
    if (kiln_bus_append_async(bus, key, fields, NULL, count, &err))
        kiln_test_die("append to %s: %s", key, err.text);
}

static void close_bus(struct kiln_bus *bus)
{
    struct kiln_error err;
    if (kiln_bus_flush(bus, &err))
        kiln_test_die("append: %s", err.text);
    kiln_bus_close(bus);
}

void kiln_test_append(struct kiln_test_stack *stack, const char *const *fields, size_t count)
{
    struct kiln_bus *bus = open_bus(stack);
    append(bus, "intake", fields, count);
    close_bus(bus);
}

void kiln_test_enqueue(struct kiln_test_stack *stack, const char *batch, const char *token,
                       const char *line, size_t first, size_t count, bool with_end)
{
    struct kiln_bus *bus = open_bus(stack);
    for (size_t i = first; i < first + count; i++) {
        char index[24], key[32];
        snprintf(index, sizeof(index), "%zu", i);
        snprintf(key, sizeof(key), "k%zu", i);
        const char *const fields[] = {"batch", batch, "job", line,    "index",
                                      index,   "key", key,   "token", token};
        append(bus, "intake", fields, 5);
    }
    if (with_end) {
        char announced[24];
        snprintf(announced, sizeof(announced), "%zu", count);
        const char *const fields[] = {"batch", batch, "token", token, "end", announced};
        append(bus, "intake", fields, 3);
    }
    close_bus(bus);
}

struct kiln_receipt kiln_test_receipt(struct kiln_test_stack *stack, const char *token)
{
    struct kiln_bus *bus = open_bus(stack);
    struct kiln_receipt receipt;
    struct kiln_error err;
    char key[KILN_NAME_MAX + KILN_WIRE_ID_MAX + 64], *text = NULL;
    kiln_wire_key(key, sizeof(key), KILN_TEST_POOL, "receipt", token);
    if (kiln_bus_pop(bus, key, RECEIPT_WAIT_MS, &text, &err) || !text)
        kiln_test_die("no receipt for %s", token);
    if (kiln_receipt_decode(text, strlen(text), &receipt, &err))
        kiln_test_die("receipt: %s", err.text);
    free(text);
    kiln_bus_close(bus);
    return receipt;
}

void kiln_test_control(struct kiln_test_stack *stack, const struct kiln_control *order)
{
    struct kiln_bus *bus = open_bus(stack);
    char *text = kiln_control_encode(order);
    const char *const fields[] = {"order", text};
    append(bus, "control", fields, 1);
    free(text);
    close_bus(bus);
}
