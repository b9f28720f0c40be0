/* daemons.c - kiln-scheduler and the kiln-workers of a stack.
 *
 * Ready is what others can see: a scheduler leads the pool in the ledger, a worker's heartbeat with
 * its pid is on the bus.  A worker that loads a large model takes minutes, so its limit is long; a
 * daemon that ends meanwhile is noticed at once and the end of its log is shown.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/stack/stack.h"
#include "schemas/clock.h"
#include "schemas/wire.h"
#include "storage/bus/bus.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/read.h"
#include "storage/objects/store.h"

#define SCHEDULER_LIMIT_S 60
#define WORKER_LIMIT_S 600
#define STORE_LOOK_S 3 /* a worker that is not ready by then: is it the store? */

/* --- the scheduler ---------------------------------------------------------------------------- */

pid_t kiln_stack_find_scheduler(const struct kiln_stack *stack)
{
    return kiln_process_find(stack, "scheduler",
                             (const char *const[]){"kiln-scheduler\n", stack->conf, NULL});
}

/* The end of its log is the reason; it is shown here, where somebody looks. */
static int died(struct kiln_cli *cli, const struct kiln_stack *stack, const char *name,
                struct kiln_error *err)
{
    kiln_process_forget(stack, name);
    kiln_process_tail(cli, stack, name);
    return kiln_fail(err, KILN_UNAVAILABLE, "%s ended as soon as it was started", name);
}

/* Ready when the pool has a leader: until then nothing would be taken in. */
static int wait_scheduler(struct kiln_stack *stack, struct kiln_cli *cli, pid_t pid,
                          struct kiln_error *err)
{
    const char *pool = kiln_config_text(cli->config, KILN_KEY_POOL);
    struct kiln_ledger *ledger = NULL;
    int rc = kiln_open_ledger(cli, &ledger, err);
    bool led = false;
    for (int64_t until = kiln_clock_ms() + SCHEDULER_LIMIT_S * 1000; rc == 0 && !led;) {
        if (!kiln_process_alive(pid))
            rc = died(cli, stack, "scheduler", err);
        else if (kiln_clock_ms() > until)
            rc = kiln_fail(err, KILN_TIMEOUT,
                           "the scheduler did not lead pool %s within %d s; its "
                           "log is %s/log/scheduler.log",
                           pool, SCHEDULER_LIMIT_S, stack->dir);
        else if ((rc = kiln_ledger_led(ledger, pool, &led, err)) == 0 && !led)
            kiln_sleep_s(0.03);
    }
    kiln_ledger_close(ledger);
    return rc;
}

int kiln_stack_scheduler(struct kiln_stack *stack, struct kiln_cli *cli, bool restart,
                         struct kiln_error *err)
{
    pid_t pid = kiln_stack_find_scheduler(stack);
    if (pid && restart) {
        (void)kiln_process_stop(stack, "scheduler", pid, SIGTERM, 20);
        pid = 0;
    }
    if (pid) {
        kiln_say(cli, "scheduler  runs (pid %ld)", (long)pid);
        return wait_scheduler(stack, cli, pid, err);
    }
    char program[PATH_MAX];
    const char *argv[] = {kiln_join(program, stack->bin, "kiln-scheduler"), "--config", stack->conf,
                          NULL};
    struct kiln_spawn spawn = {.name = "scheduler", .argv = argv, .cwd = stack->dir};
    int rc = kiln_process_start(stack, &spawn, &pid, err);
    if (rc == 0)
        rc = wait_scheduler(stack, cli, pid, err);
    if (rc == 0)
        kiln_say(cli, "scheduler  %s (pid %ld)", restart ? "restarted" : "started", (long)pid);
    return rc;
}

/* --- workers ---------------------------------------------------------------------------------- */

/* device NULL: on any. */
static pid_t find_worker(const struct kiln_stack *stack, int number, const char *device)
{
    char name[KILN_PROCESS_NAME_MAX], id[KILN_PROCESS_NAME_MAX + 8], on[64];
    kiln_stack_worker_name(number, name);
    snprintf(id, sizeof id, "--id\n%s\n", name);
    snprintf(on, sizeof on, "--device\n%s\n", device ? device : "");
    return kiln_process_find(
        stack, name,
        (const char *const[]){"kiln-worker\n", stack->conf, id, device ? on : NULL, NULL});
}

pid_t kiln_stack_find_worker(const struct kiln_stack *stack, int number)
{
    return find_worker(stack, number, NULL);
}

int kiln_stack_extra_worker(const struct kiln_stack *stack, int from)
{
    char path[PATH_MAX];
    int found = -1;
    DIR *dir = opendir(kiln_join(path, stack->dir, "run"));
    for (struct dirent *entry; dir && found < 0 && (entry = readdir(dir)) != NULL;) {
        int number = -1, end = 0;
        if (sscanf(entry->d_name, "worker-%d.pid%n", &number, &end) == 1 && end > 0 &&
            entry->d_name[end] == '\0' && number >= from &&
            kiln_stack_find_worker(stack, number) != 0)
            found = number;
    }
    if (dir)
        closedir(dir);
    return found;
}

/* Workers go round the devices. */
static const char *device_of(const struct kiln_stack *stack, int number)
{
    return stack->devices[number % stack->device_count];
}

/* Ends worker NUMBER the gentle way: it finishes the batch in hand. */
static void end_worker(struct kiln_stack *stack, struct kiln_cli *cli, int number, const char *why)
{
    char name[KILN_PROCESS_NAME_MAX];
    kiln_stack_worker_name(number, name);
    pid_t pid = kiln_stack_find_worker(stack, number);
    if (!pid)
        return;
    kiln_say(cli, "%-10s stopping (pid %ld): %s", name, (long)pid, why);
    (void)kiln_process_stop(stack, name, pid, SIGTERM,
                            kiln_config_number(cli->config, KILN_KEY_DRAIN_S) + 15);
}

static int start_worker(struct kiln_stack *stack, int number, pid_t *ret, struct kiln_error *err)
{
    char program[PATH_MAX], name[KILN_PROCESS_NAME_MAX];
    kiln_stack_worker_name(number, name);
    const char *argv[] = {kiln_join(program, stack->bin, "kiln-worker"),
                          "--config",
                          stack->conf,
                          "--id",
                          name,
                          "--device",
                          device_of(stack, number),
                          NULL};
    struct kiln_spawn spawn = {.name = name, .argv = argv, .cwd = stack->dir};
    return kiln_process_start(stack, &spawn, ret, err);
}

struct beats {
    const pid_t *pids;
    bool *seen;
    int count, missing;
};

/* Counts a worker as ready by number and pid: an old heartbeat may outlive its process by a
 * lease. */
static int see_beat(void *arg, const char *worker, const char *text, size_t len)
{
    struct beats *beats = arg;
    struct kiln_heartbeat beat;
    int number;
    (void)worker;
    if (kiln_heartbeat_decode(text, len, &beat, NULL) != 0 ||
        sscanf(beat.worker, "worker-%d", &number) != 1 || number < 0 || number >= beats->count)
        return 0;
    if (!beats->seen[number] && (pid_t)beat.pid == beats->pids[number]) {
        beats->seen[number] = true;
        beats->missing--;
    }
    return 0;
}

/* Worker NUMBER has ended before it was seen at work.  One that was there already was on its way
 * out (drained a moment ago, or killed) and is started; one that we have started is a failure. */
static int replace_worker(struct kiln_stack *stack, struct kiln_cli *cli, int number, pid_t *pid,
                          bool *found, struct kiln_error *err)
{
    char name[KILN_PROCESS_NAME_MAX];
    kiln_stack_worker_name(number, name);
    if (!*found)
        return died(cli, stack, name, err);
    *found = false;
    int rc = start_worker(stack, number, pid, err);
    if (rc == 0)
        kiln_say(cli, "%-10s has ended; starting (pid %ld, %s)", name, (long)*pid,
                 device_of(stack, number));
    return rc;
}

/* A worker whose store is full waits for room, and says so in its log alone: here it is an error.
 * Whatever else is wrong with the store ends the worker, whose log is shown then. */
static int check_store(struct kiln_cli *cli, struct kiln_error *err)
{
    struct kiln_store *store = NULL;
    struct kiln_error refusal;
    int rc = kiln_store_open(cli->config, &store, &refusal);
    if (rc == 0)
        rc = kiln_store_probe(store, &refusal);
    kiln_store_close(store);
    return rc != KILN_FULL ? 0
                           : kiln_fail(err, rc,
                                       "the store is full: %s; make room there (`kiln gc`, "
                                       "`df -h`, `df -i`), then `kiln up` again",
                                       refusal.text);
}

/* Waits for the heartbeats of all workers; pids[i] runs as worker-i, and did before if found[i]. */
static int wait_workers(struct kiln_stack *stack, struct kiln_cli *cli, pid_t *pids, bool *found,
                        struct kiln_error *err)
{
    bool seen[KILN_STACK_WORKERS_MAX] = {false};
    struct beats beats = {pids, seen, stack->workers, stack->workers};
    struct kiln_bus *bus = NULL;
    int rc = kiln_open_bus(cli, &bus, err);
    int64_t look_at = kiln_clock_ms() + STORE_LOOK_S * 1000;
    for (int64_t until = kiln_clock_ms() + WORKER_LIMIT_S * 1000; rc == 0 && beats.missing > 0;) {
        if (kiln_clock_ms() >= look_at) {
            look_at = kiln_clock_ms() + STORE_LOOK_S * 1000;
            if ((rc = check_store(cli, err)) != 0)
                break;
        }
        rc = kiln_bus_heartbeats(bus, kiln_config_text(cli->config, KILN_KEY_POOL), see_beat,
                                 &beats, err);
        for (int i = 0; rc == 0 && i < stack->workers; i++) {
            char name[KILN_PROCESS_NAME_MAX];
            kiln_stack_worker_name(i, name);
            if (!seen[i] && !kiln_process_alive(pids[i]))
                rc = replace_worker(stack, cli, i, &pids[i], &found[i], err);
            else if (!seen[i] && kiln_clock_ms() > until)
                rc = kiln_fail(err, KILN_TIMEOUT,
                               "%s was not ready within %d s; its log is "
                               "%s/log/%s.log",
                               name, WORKER_LIMIT_S, stack->dir, name);
        }
        if (rc == 0 && beats.missing > 0)
            kiln_sleep_s(0.05);
    }
    kiln_bus_close(bus);
    return rc;
}

int kiln_stack_workers(struct kiln_stack *stack, struct kiln_cli *cli, bool restart,
                       struct kiln_error *err)
{
    pid_t pids[KILN_STACK_WORKERS_MAX] = {0};
    bool found[KILN_STACK_WORKERS_MAX] = {false};
    int rc = 0, extra;
    while ((extra = kiln_stack_extra_worker(stack, stack->workers)) >= 0)
        end_worker(stack, cli, extra, "one too many");
    for (int i = 0; rc == 0 && i < stack->workers; i++) {
        char name[KILN_PROCESS_NAME_MAX];
        kiln_stack_worker_name(i, name);
        if (restart)
            end_worker(stack, cli, i, "the settings changed");
        pid_t any = kiln_stack_find_worker(stack, i);
        if (any && !find_worker(stack, i, device_of(stack, i))) {
            /* The pid file went with the device that did not match; the process is still ours. */
            (void)kiln_process_stop(stack, name, any, SIGTERM,
                                    kiln_config_number(cli->config, KILN_KEY_DRAIN_S) + 15);
            any = 0;
        }
        pids[i] = any;
        found[i] = any != 0;
        if (any)
            kiln_say(cli, "%-10s runs (pid %ld, %s)", name, (long)any, device_of(stack, i));
        else if ((rc = start_worker(stack, i, &pids[i], err)) == 0)
            kiln_say(cli, "%-10s starting (pid %ld, %s)", name, (long)pids[i], device_of(stack, i));
    }
    return rc ? rc : wait_workers(stack, cli, pids, found, err);
}
