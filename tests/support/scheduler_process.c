/* scheduler_process.c - starts schedulers and plays the client for them. */
#include "tests/support/scheduler_process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/backoff.h"
#include "storage/bus.h"
#include "tests/support/stack_postgres.h"
#include "tests/support/worker_process.h"

#define LOG_MAX (8 << 20)
#define RECEIPT_WAIT_MS 30000

/* --- the process -------------------------------------------------------------------------------
 */
static void program_path(char *out, size_t size)
{
    const char *build = getenv("BUILD"), *source = getenv("KILN_SOURCE");
    if (!build)
        kiln_test_die("BUILD names the build directory; run this by tests/run.sh");
    bool whole = build[0] == '/' || !source;
    snprintf(out, size, "%s%s%s/kiln-scheduler", whole ? "" : source, whole ? "" : "/", build);
}

static pid_t spawn(const char *const *argv, const char *log)
{
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        kiln_test_die("fork failed");
    if (pid > 0)
        return pid;
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    dup2(fd, STDERR_FILENO);
    dup2(fd, STDOUT_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    execv(argv[0], (char *const *)argv);
    _exit(127);
}

void kiln_test_scheduler_launch(struct kiln_test_scheduler *scheduler,
                                struct kiln_test_stack *stack, const char *name)
{
    char program[512];
    program_path(program, sizeof(program));
    const char *argv[] = {program,
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
    snprintf(scheduler->log, sizeof(scheduler->log), "%s/scheduler-%s.log", stack->dir, name);
    FILE *before = fopen(scheduler->log, "re");
    if (before) {
        fseek(before, 0, SEEK_END);
        scheduler->log_from = ftell(before);
        fclose(before);
    }
    scheduler->pid = spawn(argv, scheduler->log);
}

void kiln_test_scheduler_start(struct kiln_test_scheduler *scheduler, struct kiln_test_stack *stack,
                               const char *name)
{
    kiln_test_scheduler_launch(scheduler, stack, name);
    if (!kiln_test_scheduler_hears(scheduler, "scheduler_ready", 30))
        kiln_test_die("scheduler %s did not get ready; see %s", name, scheduler->log);
}

static int end(struct kiln_test_scheduler *scheduler, int number)
{
    if (scheduler->pid == 0)
        return -1;
    kill(scheduler->pid, number);
    for (int64_t until = kiln_clock_ms() + 20000; kiln_clock_ms() < until;) {
        int status;
        if (waitpid(scheduler->pid, &status, WNOHANG) == scheduler->pid) {
            scheduler->pid = 0;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        kiln_test_sleep_ms(10);
    }
    return -1;
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
    int count = 0;
    char *all = malloc(LOG_MAX);
    FILE *file = fopen(scheduler->log, "re");
    if (all && file && fseek(file, scheduler->log_from, SEEK_SET) == 0) {
        all[fread(all, 1, LOG_MAX - 1, file)] = '\0';
        for (const char *at = all; (at = strstr(at, text)) != NULL; at++)
            count++;
    }
    if (file)
        fclose(file);
    free(all);
    return count;
}

bool kiln_test_scheduler_hears(const struct kiln_test_scheduler *scheduler, const char *text,
                               double limit_s)
{
    int64_t until = kiln_clock_ms() + (int64_t)(limit_s * 1000);
    while (kiln_test_scheduler_said(scheduler, text) == 0) {
        if (kiln_clock_ms() > until)
            return false;
        kiln_test_sleep_ms(20);
    }
    return true;
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

void kiln_test_control(struct kiln_test_stack *stack, const struct kiln_order *order)
{
    struct kiln_bus *bus = open_bus(stack);
    char *text = kiln_order_encode(order);
    const char *const fields[] = {"order", text};
    append(bus, "control", fields, 1);
    free(text);
    close_bus(bus);
}
