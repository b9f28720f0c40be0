/* test_soften.c - a donor's latent as flat cells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/engine/soften.h"

static void a_cell_becomes_its_mean(void **state)
{
    (void)state;
    /* Two channels of 2 x 5 in cells of 2: one row of three, columns 0, 1-2 and 3-4. */
    float latent[] = {0, 2, 3, 4, 5, 4, 6, 6, 6, 6, -1, -1, 0, 0, 0, 1, 1, 0, 0, 0};
    static const float want[] = {2, 4.25F, 4.25F, 5.25F, 5.25F, 2, 4.25F, 4.25F, 5.25F, 5.25F};
    kiln_soften(latent, 2, 2, 5, 2);
    assert_memory_equal(latent, want, sizeof want);
}

static void a_small_latent_is_one_cell(void **state)
{
    (void)state;
    float latent[] = {1, 2, 3, 4, 5, 9};
    kiln_soften(latent, 1, 2, 3, 8);
    for (int i = 0; i < 6; i++)
        assert_true(latent[i] == 4);
}

static void cells_of_one_value_change_nothing(void **state)
{
    (void)state;
    float latent[] = {1, 2, 3, 4, 5, 6};
    static const float want[] = {1, 2, 3, 4, 5, 6};
    kiln_soften(latent, 1, 2, 3, 1);
    assert_memory_equal(latent, want, sizeof want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_becomes_its_mean),
        cmocka_unit_test(a_small_latent_is_one_cell),
        cmocka_unit_test(cells_of_one_value_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
