/* test_spin.c - a short wait is put where nobody has set one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "schemas/spin.h"

static void it_is_new_once(void **state)
{
    (void)state;
    unsetenv("GOMP_SPINCOUNT");
    unsetenv("OMP_WAIT_POLICY");
    assert_true(kiln_spin_briefly());
    assert_string_equal(getenv("GOMP_SPINCOUNT"), "2000");
    assert_false(kiln_spin_briefly());
}

static void what_others_have_set_stays(void **state)
{
    (void)state;
    setenv("GOMP_SPINCOUNT", "5", 1);
    assert_false(kiln_spin_briefly());
    assert_string_equal(getenv("GOMP_SPINCOUNT"), "5");
    unsetenv("GOMP_SPINCOUNT");
    setenv("OMP_WAIT_POLICY", "passive", 1);
    assert_false(kiln_spin_briefly());
    assert_null(getenv("GOMP_SPINCOUNT"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_new_once),
        cmocka_unit_test(what_others_have_set_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
