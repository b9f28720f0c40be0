/* test_worker_names.c - names of workers by host and device, and which worker a person means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/stack/guard.h"

static void the_end_of_a_name_will_do(void **state)
{
    (void)state;
    assert_true(kiln_worker_meant("h1-gpu0", "h1-gpu0"));
    assert_true(kiln_worker_meant("h1-gpu0", "gpu0"));
    assert_true(kiln_worker_meant("a-b-cpu-1", "b-cpu-1"));
    assert_true(kiln_worker_meant("a-b-cpu-1", "1"));
    assert_false(kiln_worker_meant("h1-gpu10", "gpu1"));
    assert_false(kiln_worker_meant("h1-gpu0", "pu0"));
    assert_false(kiln_worker_meant("h1-gpu0", "xh1-gpu0"));
    assert_false(kiln_worker_meant("h1-gpu0", ""));
    assert_false(kiln_worker_meant("", "gpu0"));
}

static void older_spellings_are_understood(void **state)
{
    (void)state;
    static const char *const olds[] = {"h-cuda0", "h-cuda-0", "h-cuda:0", "cuda0", "cuda:0"};
    for (size_t i = 0; i < sizeof olds / sizeof olds[0]; i++)
        assert_true(kiln_worker_meant("h-gpu0", olds[i]));
    assert_true(kiln_worker_meant("h-cuda-0", "gpu0"));
    assert_true(kiln_worker_meant("h-cuda0-1", "h-gpu0-1"));
    assert_false(kiln_worker_meant("h-gpu1", "cuda0"));
    assert_false(kiln_worker_meant("barracuda", "gpu"));
    assert_false(kiln_worker_meant("barracuda0", "gpu0"));
}

static struct kiln_guard_row *add(struct kiln_guard_plan *plan, const char *name,
                                  const char *device)
{
    struct kiln_guard_row *row = NULL;
    assert_int_equal(kiln_guard_add(plan, name, &row, NULL), 0);
    snprintf(row->device, sizeof row->device, "%s", device);
    assert_false(kiln_worker_id_fits(row->id, device));
    kiln_worker_id_set(plan, row);
    assert_true(kiln_worker_id_fits(row->id, device));
    return row;
}

static void workers_of_a_stack_are_counted_by_device(void **state)
{
    (void)state;
    static struct kiln_guard_plan plan;
    const struct kiln_guard_row *zero = add(&plan, "worker-0", "cuda:1"),
                                *one = add(&plan, "worker-1", "cuda:10"),
                                *two = add(&plan, "worker-2", "cuda:1");
    assert_ptr_equal(kiln_worker_row_meant(&plan, "gpu1"), zero);
    assert_ptr_equal(kiln_worker_row_meant(&plan, "cuda:10"), one);
    assert_ptr_equal(kiln_worker_row_meant(&plan, "gpu1-1"), two);
    assert_ptr_equal(kiln_worker_row_meant(&plan, two->id), two);
    assert_ptr_equal(kiln_worker_row_meant(&plan, "worker-2"), two);
    assert_null(kiln_worker_row_meant(&plan, "gpu2"));
    assert_false(kiln_worker_id_fits(one->id, "cuda:1"));
    assert_false(kiln_worker_id_fits("elsewhere-gpu1", "cuda:1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_name_will_do),
        cmocka_unit_test(older_spellings_are_understood),
        cmocka_unit_test(workers_of_a_stack_are_counted_by_device),
    };
    return cmocka_run_group_tests_name("worker_names", tests, NULL, NULL);
}
