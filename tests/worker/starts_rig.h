/* starts_rig.h - the starts thread on a real ledger and store; its neighbours are played. */
#ifndef KILN_TEST_STARTS_RIG_H
#define KILN_TEST_STARTS_RIG_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "storage/ledger/ledger.h"
#include "storage/objects/store.h"
#include "tests/support/jobs.h"
#include "tests/support/worker_process.h"
#include "worker/state/worker.h"

#define LIMIT_MS 60000

static struct kiln_test_stack *stack;
static struct kiln_store *store;
static struct kiln_ledger *ledger;

static inline int start_stack(void **state)
{
    (void)state;
    char url[200];
    struct kiln_error err;
    stack = kiln_test_stack_start(KILN_STACK_TABLES | KILN_STACK_REDIS);
    snprintf(url, sizeof url, "file://%s/store", stack->dir);
    kiln_test_ok(kiln_config_set(stack->config, "store", url, "test", &err), err);
    kiln_test_ok(kiln_config_set(stack->config, "pool", KILN_TEST_POOL, "test", &err), err);
    kiln_test_ok(kiln_store_open(stack->config, &store, &err), err);
    kiln_test_ok(kiln_ledger_open(stack->config, "test", &ledger, &err), err);
    return setenv("AWS_ACCESS_KEY_ID", "x", 1) || setenv("AWS_SECRET_ACCESS_KEY", "x", 1);
}

static inline int stop_stack(void **state)
{
    (void)state;
    kiln_store_close(store);
    kiln_ledger_close(ledger);
    kiln_test_stack_stop(stack);
    return 0;
}

static inline void write_object(const char *key, const void *data, size_t size)
{
    char path[KILN_OBJECT_KEY_MAX + 256];
    snprintf(path, sizeof path, "%s/store/%s", stack->dir, key);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

/* --- the thread ------------------------------------------------------------------------------- */

struct rig {
    struct kiln_worker worker;
    struct kiln_config *config;
    pthread_t thread;
};

/* more: further settings, pairs ended by NULL. */
static inline void open_rig(struct rig *rig, const char *const *more)
{
    struct kiln_error err;
    kiln_test_ok(kiln_config_set(stack->config, "hold_s", "20", "test", &err), err);
    for (; more && *more; more += 2)
        kiln_test_ok(kiln_config_set(stack->config, more[0], more[1], "test", &err), err);
    kiln_test_ok(kiln_worker_init(&rig->worker, stack->config, "w", &err), err);
    kiln_test_ok(kiln_renderer_testcard_open(&rig->worker.engine, &err), err);
    atomic_store(&rig->worker.threads, 1);
    kiln_board_up(&rig->worker.board);
    assert_int_equal(pthread_create(&rig->thread, NULL, kiln_starts, &rig->worker), 0);
}

static inline void close_rig(struct rig *rig)
{
    char url[200];
    struct kiln_error err;
    kiln_queue_close(rig->worker.arrived);
    assert_int_equal(pthread_join(rig->thread, NULL), 0);
    assert_int_equal(atomic_load(&rig->worker.threads), 0);
    kiln_worker_release(&rig->worker);
    snprintf(url, sizeof url, "file://%s/store", stack->dir);
    kiln_test_ok(kiln_config_set(stack->config, "store", url, "test", &err), err);
}

static inline struct kiln_portion *next_portion(struct rig *rig)
{
    void *portion;
    size_t count;
    assert_int_equal(kiln_queue_pop(rig->worker.ready, &portion, 1, &count, LIMIT_MS), 0);
    return portion;
}

/* As when its jobs were settled. */
static inline void forget(struct rig *rig, struct kiln_portion *portion)
{
    struct kiln_flight *flight = portion->flight;
    for (uint32_t i = 0; i < portion->job_count; i++)
        if (kiln_flights_settle(&rig->worker.flights, flight, portion->jobs[i].index))
            kiln_flight_free(flight);
    kiln_portion_free(portion);
}

#endif
