/* worker_process.c - starts workers and plays the scheduler for them. */
#include "tests/support/worker_process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/bus/bus.h"
#include "storage/ledger/ledger.h"
#include "tests/support/stack_postgres.h"

#define ARGS_MAX 40
#define POLL_MS 10

/* --- the process ------------------------------------------------------------------------------ */

void kiln_test_worker_start(struct kiln_test_worker *worker, struct kiln_test_stack *stack,
                            const char *id, const char *const *more, bool ready)
{
    char store[256], log[256];
    const char *argv[ARGS_MAX] = {"kiln-worker",
                                  "--config",
                                  stack->conf,
                                  "--engine",
                                  "testcard",
                                  "--pool",
                                  KILN_TEST_POOL,
                                  "--id",
                                  id,
                                  "--store",
                                  store,
                                  "--encode-threads",
                                  "1",
                                  "--heartbeat-s",
                                  "0.2",
                                  "--lease-s",
                                  "1",
                                  "--connect-timeout-s",
                                  "1",
                                  "--backoff-base-s",
                                  "0.1"};
    size_t count = 21;
    snprintf(store, sizeof store, "file://%s/store", stack->dir);
    for (size_t i = 0; more && more[i] && count < ARGS_MAX - 1; i++)
        argv[count++] = more[i];
    *worker = (struct kiln_test_worker){.stack = stack};
    snprintf(worker->id, sizeof worker->id, "%s", id);
    snprintf(log, sizeof log, "%s/worker-%s.log", stack->dir, id);
    kiln_test_launch(&worker->process, argv, log);
    if (ready && !kiln_test_worker_hears(worker, "worker_ready", 60))
        kiln_test_die("worker %s did not get ready; see %s", id, worker->process.log);
}

void kiln_test_worker_signal(const struct kiln_test_worker *worker, int number)
{
    if (worker->process.pid > 0)
        kill(worker->process.pid, number);
}

int kiln_test_worker_wait(struct kiln_test_worker *worker, double limit_s)
{
    return kiln_test_await_end(&worker->process, limit_s);
}

int kiln_test_worker_stop(struct kiln_test_worker *worker)
{
    kiln_test_worker_signal(worker, SIGTERM);
    int status = kiln_test_worker_wait(worker, 60);
    if (status == -1 && worker->process.pid > 0) {
        kiln_test_worker_signal(worker, SIGKILL);
        (void)kiln_test_worker_wait(worker, 60);
    }
    return status;
}

int kiln_test_worker_said(const struct kiln_test_worker *worker, const char *text)
{
    return kiln_test_said(&worker->process, text);
}

bool kiln_test_worker_hears(const struct kiln_test_worker *worker, const char *text, double limit_s)
{
    return kiln_test_hears(&worker->process, text, limit_s);
}

/* --- the scheduler's part --------------------------------------------------------------------- */

/* Opened when first needed, for the life of the test program. */
static struct kiln_ledger *ledger_of(struct kiln_test_stack *stack)
{
    static struct kiln_test_stack *owner;
    static struct kiln_ledger *ledger;
    struct kiln_error err;
    if (owner != stack) {
        kiln_ledger_close(ledger);
        owner = stack;
        if (kiln_ledger_open(stack->config, "test", &ledger, &err) != 0)
            kiln_test_die("%s", err.text);
    }
    return ledger;
}

static struct kiln_bus *bus_of(struct kiln_test_stack *stack)
{
    static struct kiln_test_stack *owner;
    static struct kiln_bus *bus;
    struct kiln_error err;
    if (owner != stack) {
        kiln_bus_close(bus);
        owner = stack;
        if (kiln_bus_open(stack->config, &bus, &err) != 0)
            kiln_test_die("%s", err.text);
    }
    return bus;
}

struct kiln_job kiln_test_job(const char *prompt)
{
    return (struct kiln_job){.prompt = (char *)prompt,
                             .negative_prompt = (char *)"",
                             .tenant = (char *)"default",
                             .model = (char *)"",
                             .width = 64,
                             .height = 64,
                             .steps = 2};
}

struct id_list {
    uint64_t *ids;
    size_t count, max;
};

static int note_id(void *arg, const struct kiln_waiting *job)
{
    struct id_list *list = arg;
    if (list->count < list->max)
        list->ids[list->count++] = job->id;
    return 0;
}

void kiln_test_queue_jobs(struct kiln_test_stack *stack, const char *batch,
                          const struct kiln_job *job, size_t count, uint64_t *ids)
{
    struct kiln_ledger *ledger = ledger_of(stack);
    struct kiln_new_job *jobs = calloc(count, sizeof *jobs);
    char(*keys)[24] = calloc(count, sizeof *keys);
    struct id_list list = {ids, 0, count};
    struct kiln_error err;
    uint64_t inserted, newest = (uint64_t)kiln_test_count(stack, "SELECT max(id) FROM job");
    for (size_t i = 0; i < count; i++) {
        snprintf(keys[i], sizeof keys[i], "%zu", i);
        jobs[i] = (struct kiln_new_job){.job = *job, .key = keys[i], .token = ""};
        jobs[i].job.batch = (char *)batch;
        jobs[i].job.index = (uint32_t)i;
        jobs[i].job.seed = job->seed + i;
    }
    if (kiln_ledger_insert_jobs(ledger, KILN_TEST_POOL, jobs, count, &inserted, &err) != 0)
        kiln_test_die("%s", err.text);
    if (kiln_ledger_waiting(ledger, KILN_TEST_POOL, newest, (uint32_t)count, note_id, &list,
                            &err) != 0)
        kiln_test_die("%s", err.text);
    if (inserted != count || list.count != count)
        kiln_test_die("batch %s: %zu of %zu jobs are waiting", batch, list.count, count);
    free(keys);
    free(jobs);
}

static void append(struct kiln_test_stack *stack, const char *worker, const char *field,
                   const char *text)
{
    char key[KILN_NAME_MAX * 2 + 40];
    const char *fields[2] = {field, text};
    const size_t lengths[2] = {strlen(field), strlen(text)};
    struct kiln_error err;
    kiln_wire_key(key, sizeof key, KILN_TEST_POOL, "worker", worker);
    /* The first call after a restart of Redis meets the old socket. */
    double until = kiln_test_now_s() + 5;
    while (kiln_bus_append(bus_of(stack), key, 0, fields, lengths, 1, &err) != 0)
        if (kiln_test_now_s() > until)
            kiln_test_die("%s", err.text);
}

void kiln_test_assign(struct kiln_test_stack *stack, const char *worker, const char *assignment,
                      const uint64_t *ids, size_t count)
{
    struct kiln_job *jobs = calloc(count, sizeof *jobs);
    struct kiln_error err;
    size_t assigned = 0;
    if (kiln_ledger_assign(ledger_of(stack), worker, assignment, ids, count, jobs, &assigned,
                           &err) != 0)
        kiln_test_die("%s", err.text);
    if (assigned != count)
        kiln_test_die("%s: %zu of %zu jobs were queued", assignment, assigned, count);
    struct kiln_assignment message = {.width = jobs[0].width,
                                      .height = jobs[0].height,
                                      .steps = jobs[0].steps,
                                      .mode = jobs[0].mode,
                                      .jobs = jobs,
                                      .job_count = (uint32_t)count};
    snprintf(message.id, sizeof message.id, "%s", assignment);
    char *text = kiln_assignment_encode(&message);
    if (!text)
        kiln_test_die("no memory for assignment %s", assignment);
    append(stack, worker, "assign", text);
    free(text);
    kiln_assignment_release(&message);
}

void kiln_test_control_worker(struct kiln_test_stack *stack, const char *worker,
                              const struct kiln_control *order)
{
    char *text = kiln_control_encode(order);
    if (!text)
        kiln_test_die("no memory for an order");
    append(stack, worker, "order", text);
    free(text);
}

struct beat_search {
    const char *worker;
    struct kiln_heartbeat *ret;
    bool found;
};

static int note_beat(void *arg, const char *worker, const char *beat, size_t len)
{
    struct beat_search *search = arg;
    struct kiln_error err;
    if (strcmp(worker, search->worker) == 0)
        search->found = kiln_heartbeat_decode(beat, len, search->ret, &err) == 0;
    return 0;
}

bool kiln_test_heartbeat(struct kiln_test_stack *stack, const char *worker,
                         struct kiln_heartbeat *ret)
{
    struct beat_search search = {worker, ret, false};
    struct kiln_error err;
    double until = kiln_test_now_s() + 5;
    while (kiln_bus_heartbeats(bus_of(stack), KILN_TEST_POOL, NULL, note_beat, &search, &err) != 0)
        if (kiln_test_now_s() > until)
            kiln_test_die("%s", err.text);
    return search.found;
}

bool kiln_test_worker_draws(const struct kiln_test_worker *worker, double limit_s)
{
    double until = kiln_test_now_s() + limit_s;
    struct kiln_heartbeat beat;
    while (!kiln_test_heartbeat(worker->stack, worker->id, &beat) || beat.steps == 0) {
        if (kiln_test_now_s() > until)
            return false;
        kiln_test_sleep_ms(POLL_MS);
    }
    return true;
}

bool kiln_test_until(struct kiln_test_stack *stack, const char *sql, long long wanted,
                     double limit_s)
{
    double until = kiln_test_now_s() + limit_s;
    long long got;
    while ((got = kiln_test_count(stack, sql)) != wanted) {
        if (kiln_test_now_s() > until) {
            fprintf(stderr, "after %.0f s: %s gives %lld, not %lld\n", limit_s, sql, got, wanted);
            return false;
        }
        kiln_test_sleep_ms(2 * POLL_MS);
    }
    return true;
}
