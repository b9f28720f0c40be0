/* test_worker_names.c - which worker a person means by the end of its name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "scheduler/cli/core/suggest.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_name_will_do),
        cmocka_unit_test(older_spellings_are_understood),
    };
    return cmocka_run_group_tests_name("worker_names", tests, NULL, NULL);
}
