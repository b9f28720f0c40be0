/* test_compute.c - the compute thread without work: it returns the engine's unused memory once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "schemas/clock.h"
#include "worker/state/worker.h"

#define LIMIT_MS 60000

static _Atomic int begun, trims;

/* Nothing can begin: the jobs end at once, and the worker had something to do all the same. */
static int begin(struct kiln_renderer *engine, const DiffusionZBatch *batch,
                 DiffusionZOutput *outputs, struct kiln_renderer_run **ret, struct kiln_error *err)
{
    (void)engine, (void)batch, (void)outputs, (void)ret;
    atomic_fetch_add(&begun, 1);
    return kiln_fail(err, KILN_BAD_INPUT, "an engine that begins nothing");
}

static int32_t forwards(const struct kiln_renderer *engine, const DiffusionZBatch *batch)
{
    (void)engine;
    return batch->num_steps;
}

static void trim(struct kiln_renderer *engine)
{
    (void)engine;
    atomic_fetch_add(&trims, 1);
}

static struct kiln_renderer engine = {
    .name = "none", .renders_any_model = true, .forwards = forwards, .begin = begin, .trim = trim};

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void wait_for(_Atomic int *value, int wanted)
{
    const double start = kiln_monotonic_ms();
    while (atomic_load(value) < wanted) {
        assert_true(kiln_monotonic_ms() - start < LIMIT_MS);
        pause_ms(5);
    }
}

/* Hands the compute thread one job, and takes the call that it could not begin, as the collector
 * does.  The flight stays: the worker's release frees it. */
static void pass_job(struct kiln_worker *worker, int number)
{
    struct kiln_assignment assignment = {.width = 64, .height = 64, .steps = 2, .job_count = 1};
    struct kiln_flight *flight = NULL;
    struct kiln_error err;
    void *call;
    size_t count;
    snprintf(assignment.id, sizeof assignment.id, "a-%d", number);
    assignment.jobs = calloc(1, sizeof assignment.jobs[0]);
    assert_non_null(assignment.jobs);
    assignment.jobs[0] =
        (struct kiln_job){.id = 1 + (uint64_t)number, .width = 64, .height = 64, .steps = 2};
    assert_int_equal(kiln_flights_add(&worker->flights, &assignment, 1, &flight, &err), 0);
    kiln_board_want(&worker->board);
    struct kiln_portion *portion = kiln_portion_new(flight);
    assert_non_null(portion);
    assert_non_null(kiln_portion_add(portion, 0, -1));
    portion->first = portion->last = true;
    atomic_fetch_add(&worker->waiting, 1);
    assert_int_equal(kiln_queue_push(worker->ready, portion, 1, LIMIT_MS), 0);
    assert_int_equal(kiln_queue_pop(worker->asked, &call, 1, &count, LIMIT_MS), 0);
    free(call);
}

static void an_idle_worker_returns_memory_once(void **state)
{
    (void)state;
    struct kiln_config *config = kiln_config_new();
    struct kiln_worker worker;
    struct kiln_error err;
    pthread_t thread;
    assert_non_null(config);
    assert_int_equal(kiln_config_set(config, "postgres", "host=/nowhere", "the test", &err), 0);
    assert_int_equal(kiln_worker_init(&worker, config, "w", &err), 0);
    worker.engine = &engine;
    atomic_store(&worker.threads, 1);
    kiln_board_up(&worker.board);
    assert_int_equal(pthread_create(&thread, NULL, kiln_compute, &worker), 0);
    wait_for(&trims, 1); /* of the load */
    pause_ms(1500);
    assert_int_equal(atomic_load(&trims), 1); /* and of nothing else */
    const double start = kiln_monotonic_ms();
    for (int i = 0; i < 4; i++)
        pass_job(&worker, i);
    const int between = atomic_load(&trims) - 1; /* 0, unless the machine itself paused */
    assert_true(between <= (kiln_monotonic_ms() - start) / 1000);
    assert_int_equal(atomic_load(&begun), 4);
    wait_for(&trims, 2);
    kiln_queue_close(worker.ready);
    pthread_join(thread, NULL);
    worker.engine = NULL;
    kiln_worker_release(&worker);
    kiln_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_idle_worker_returns_memory_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
