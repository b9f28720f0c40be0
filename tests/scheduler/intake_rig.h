/* intake_rig.h - an intake on a real Redis and Postgres, for the tests that feed it entries. */
#ifndef KILN_TEST_INTAKE_RIG_H
#define KILN_TEST_INTAKE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "scheduler/intake/intake.h"
#include "scheduler/intake/routes.h"
#include "storage/bus/bus.h"
#include "tests/support/jobs.h"
#include "tests/support/scheduler_process.h"

#define LINE "{\"prompt\":\"a red car\",\"width\":256,\"height\":256}"

static struct kiln_test_stack *stack;
static struct kiln_routes *routes;
static struct kiln_intake *intake;
static struct kiln_error err;

static inline int start(void **state)
{
    (void)state;
    stack = kiln_test_stack_start(KILN_STACK_REDIS | KILN_STACK_TABLES);
    int rc = kiln_routes_open(stack->config, &routes, &err);
    return rc ? rc : kiln_config_set(stack->config, "lease_s", "1", "test", &err);
}

static inline int stop(void **state)
{
    (void)state;
    kiln_routes_close(routes);
    kiln_test_stack_stop(stack);
    return 0;
}

static inline int setup(void **state)
{
    (void)state;
    kiln_test_flushall(stack);
    free(kiln_test_sql(stack, "SET client_min_messages = error; TRUNCATE batch CASCADE"));
    intake = NULL;
    return kiln_intake_open(stack->config, routes, &intake, &err);
}

static inline int teardown(void **state)
{
    (void)state;
    kiln_intake_close(intake);
    return 0;
}

/* Steps until the stream is empty; the number of new jobs. */
static inline uint64_t take_all(void)
{
    uint64_t total = 0;
    for (int idle = 0; idle < 5;) {
        uint64_t inserted = 0;
        kiln_test_ok(kiln_intake_step(intake, 20, &inserted, &err), err);
        total += inserted;
        idle = inserted ? 0 : idle + 1;
    }
    return total;
}

static inline uint64_t take_some(void)
{
    uint64_t inserted = 0;
    for (int i = 0; i < 100 && inserted == 0; i++)
        kiln_test_ok(kiln_intake_step(intake, 20, &inserted, &err), err);
    return inserted;
}

static inline struct kiln_intake_counts counts(void)
{
    struct kiln_intake_counts ret;
    kiln_intake_counts(intake, &ret);
    return ret;
}

static inline void stream_is_empty(void)
{
    struct kiln_bus *bus = NULL;
    uint64_t length = 1;
    kiln_test_ok(kiln_bus_open(stack->config, &bus, &err), err);
    kiln_test_ok(kiln_bus_length(bus, "kiln:{default}:intake", &length, &err), err);
    kiln_bus_close(bus);
    assert_int_equal(length, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
