/* policy.h - a policy with its cost model, and the steps that its tests share. */
#ifndef KILN_TEST_POLICY_H
#define KILN_TEST_POLICY_H

#include "scheduler/policy/policy.h"

extern struct kiln_cost_model *costs;
extern struct kiln_policy *policy;
extern struct kiln_error err;

/* Of every test: a new policy of default limits. */
int kiln_policy_rig_setup(void **state);
int kiln_policy_rig_teardown(void **state);
#define KILN_POLICY_TEST(name)                                                                     \
    cmocka_unit_test_setup_teardown(name, kiln_policy_rig_setup, kiln_policy_rig_teardown)

/* A job of 1024x1024, 8 steps, tenant "default", and its adding. */
struct kiln_policy_job job(uint64_t id, const char *lora_set);
void add(struct kiln_policy_job j);
/* A worker that has the bare model. */
void worker(const char *name, uint32_t capacity, uint32_t batch_max);
struct kiln_policy_pick pick_at(int64_t now_ms); /* there must be one */
void none_at(int64_t now_ms);

/* Ends about a quarter of the picks, at random, and removes them from the list; returns how many
 * jobs they had. */
size_t finish_some(struct kiln_policy_pick *flights, size_t *count);

/* The same numbers in every run from the same state. */
extern uint64_t random_state;
uint32_t random_below(uint32_t bound);

#endif
