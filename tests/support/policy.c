/* policy.c - the steps of policy.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/policy.h"

struct kiln_cost_model *costs;
struct kiln_policy *policy;
struct kiln_error err;

int kiln_policy_rig_setup(void **state)
{
    (void)state;
    costs = kiln_cost_model_new(1024);
    assert_non_null(costs);
    assert_int_equal(kiln_policy_new(NULL, costs, &policy, &err), 0);
    return 0;
}

int kiln_policy_rig_teardown(void **state)
{
    (void)state;
    kiln_policy_free(policy);
    kiln_cost_model_free(costs);
    return 0;
}

struct kiln_policy_job job(uint64_t id, const char *lora_set)
{
    return (struct kiln_policy_job){.id = id,
                                    .batch_id = 1,
                                    .model = "",
                                    .lora_set = lora_set,
                                    .tenant = "default",
                                    .width = 1024,
                                    .height = 1024,
                                    .steps = 8};
}

void add(struct kiln_policy_job j)
{
    assert_int_equal(kiln_policy_add(policy, &j, &err), 0);
}

void worker(const char *name, uint32_t capacity, uint32_t batch_max)
{
    struct kiln_policy_worker w = {.model = "m",
                                   .lora_set = "",
                                   .capacity = capacity,
                                   .batch_max = batch_max,
                                   .minor = KILN_MODE_MINOR_ALL};
    assert_int_equal(kiln_policy_worker_set(policy, name, &w, &err), 0);
}

struct kiln_policy_pick pick_at(int64_t now_ms)
{
    struct kiln_policy_pick pick;
    assert_true(kiln_policy_pick(policy, now_ms, &pick));
    return pick;
}

void none_at(int64_t now_ms)
{
    struct kiln_policy_pick pick;
    assert_false(kiln_policy_pick(policy, now_ms, &pick));
}

uint64_t random_state;
uint32_t random_below(uint32_t bound)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((random_state >> 33) % bound);
}

size_t finish_some(struct kiln_policy_pick *flights, size_t *count)
{
    size_t jobs = 0;
    for (size_t i = *count; i-- > 0;)
        if (random_below(4) == 0) {
            kiln_policy_finish(policy, flights[i].worker, flights[i].tag);
            jobs += flights[i].count;
            flights[i] = flights[--*count];
        }
    return jobs;
}
