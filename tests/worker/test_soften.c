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
    /* Two channels of 2 x 5: the columns of two cells are 0-1 and 2-4. */
    float latent[] = {0, 2, 3, 4, 5, 4, 6, 6, 6, 6, -1, -1, 0, 0, 0, 1, 1, 0, 0, 0};
    static const float want[] = {1, 1, 4, 4, 4, 5, 5, 6, 6, 6, -1, -1, 0, 0, 0, 1, 1, 0, 0, 0};
    kiln_soften(latent, 2, 2, 5, 2);
    assert_memory_equal(latent, want, sizeof want);
    kiln_soften(latent, 1, 2, 5, 1);
    for (int i = 0; i < 10; i++)
        assert_float_equal(latent[i], 4.2F, 1e-6);
    assert_memory_equal(latent + 10, want + 10, sizeof want / 2);
}

static void more_cells_than_values_change_nothing(void **state)
{
    (void)state;
    float latent[] = {1, 2, 3, 4, 5, 6};
    static const float want[] = {1, 2, 3, 4, 5, 6};
    kiln_soften(latent, 1, 2, 3, 8);
    assert_memory_equal(latent, want, sizeof want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_becomes_its_mean),
        cmocka_unit_test(more_cells_than_values_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
